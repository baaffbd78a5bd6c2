"""DescribeClientQuotas: what users, client ids and addresses are limited to, chosen by a filter (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.quota_table import DEFAULT, Entity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.call import Call

#: How a component of a filter matches: a name, whoever has no name of their own, anybody.
_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2

_FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}


def handle(call: Call) -> DescribeClientQuotasResponse:
    """Answer with what matches, in the order of names."""
    request: DescribeClientQuotasRequest = call.request
    wanted = _read_filter(request.components)
    found = [
        (entity, limits)
        for entity, limits in call.node.quotas.table.items()
        if _matches(entity, wanted, strict=request.strict)
    ]
    found.sort(key=lambda item: tuple(name or "" for name in item[0]))
    return DescribeClientQuotasResponse(entries=[_entry(*item) for item in found])


def refuse(
    _request: DescribeClientQuotasRequest, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    """Refuse the request."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


def _read_filter(components: list[ComponentData]) -> dict[str, str | None]:
    """Return the name to match by entity type, None for any name."""
    wanted: dict[str, str | None] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"
            )
        if kind not in _FIELDS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported"
            )
        if kind in wanted:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Duplicate {kind} filter component entity type"
            )
        wanted[kind] = _read_match(component)
    if "ip" in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used"
            " with user or clientId filter component.",
        )
    return wanted


def _read_match(component: ComponentData) -> str | None:
    if component.match_type == _ANY:
        return None
    if component.match_type == _DEFAULT:
        return DEFAULT
    if component.match_type == _EXACT and component.match is not None:
        return component.match
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Unexpected match type {component.match_type} with match {component.match!r}",
    )


def _matches(entity: Entity, wanted: dict[str, str | None], *, strict: bool) -> bool:
    for kind, field in _FIELDS.items():
        name: str | None = getattr(entity, field)
        if kind in wanted:
            if name is None or wanted[kind] not in (None, name):
                return False
        elif strict and name is not None:
            return False
    return True


def _entry(entity: Entity, limits: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[
            EntityData(entity_type=kind, entity_name=name or None)
            for kind, field in _FIELDS.items()
            if (name := getattr(entity, field)) is not None
        ],
        values=[ValueData(key=key, value=value) for key, value in limits.items()],
    )
