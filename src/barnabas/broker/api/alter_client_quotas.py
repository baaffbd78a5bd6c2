"""AlterClientQuotas: set and remove what users, client ids and addresses are limited to; each entity on its own (KIP-546)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from barnabas.broker import audit, quota_store
from barnabas.broker.pieces import Pieces
from barnabas.core.quota_table import DEFAULT, Entity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.quota_store import Change
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[Response]:
    """Change each entity, or with validate_only just check."""
    request: AlterClientQuotasRequest = call.request
    pieces = Pieces(call, finishes=True)
    seen: set[Entity] = set()
    entries = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            entity = _read_entity(entry.entity)
            if entity in seen:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each entity must appear at most once.")
            seen.add(entity)
            changes = _read_changes(entry.ops)
            yield from quota_store.change(
                call.node, entity, changes, validate_only=request.validate_only
            )
            if not request.validate_only:
                limits = [one.key for one in entry.ops]
                audit.changed(call, "alter", "ClientQuotas", _name(entry.entity), quotas=limits)
        except KafkaError as refusal:
            code, message = refusal.code, refusal.message
        entries.append(_answer(entry, code, message))
        pieces.count(1 + len(entry.ops))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: AlterClientQuotasResponse(entries=entries)))


def refuse(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """Refuse every entity."""
    return AlterClientQuotasResponse(
        entries=[_answer(entry, code, message) for entry in request.entries]
    )


def _name(parts: list[EntityData]) -> str:
    return ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in parts)


def _read_entity(parts: list[EntityData]) -> Entity:
    names: dict[str, str] = {}
    for part in parts:
        kind = part.entity_type
        if kind not in ("user", "client-id", "ip"):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}"
            )
        if kind in names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate entity type {kind}")
        if part.entity_name is not None and not part.entity_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        names[kind] = DEFAULT if part.entity_name is None else part.entity_name
    if not names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    if "ip" not in names:
        return Entity(names.get("user"), names.get("client-id"))
    if len(names) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity should not be used with user/client ID"
            " entity.",
        )
    return Entity(ip=_read_ip(names["ip"]))


def _read_ip(text: str) -> str:
    """Take an address as it is compared with those of connections; names of hosts are not looked up, as that may take long."""
    if text == DEFAULT:
        return text
    try:
        return str(ip_address(text))
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text} is not a valid IP.") from None


def _read_changes(ops: list[OpData]) -> list[Change]:
    changes: dict[str, float | None] = {}
    for op in ops:
        if op.key in changes:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Each key must appear at most once: {op.key}."
            )
        changes[op.key] = None if op.remove else op.value
    return list(changes.items())


def _answer(entry: RequestEntryData, code: ErrorCode, message: str | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=code,
        error_message=message,
        entity=[
            EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ],
    )
