"""Quotas in the coordination store: `/config/users`, `/config/clients`, `/config/ips`, as Kafka 3.9 has them.

Job: entities <-> paths, limits <-> texts, and changing them. What is no quota at the same place (SCRAM credentials) is left alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker import entity_config
from barnabas.core.quota_table import DEFAULT, Entity
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import ZNode

log = logging.getLogger(__name__)

#: A key, and its new value or None to remove it.
Change = tuple[str, float | None]

_WHOLE: Final = 1e-6
_INT_MAX: Final = 0x7FFFFFFF
_CLIENTS: Final = "clients"


def path_of(entity: Entity) -> str:
    """Name an entity's place below `/config`."""
    if entity.ip is not None:
        return f"ips/{_part(entity.ip)}"
    if entity.user is None:
        assert entity.client_id is not None
        return f"clients/{_part(entity.client_id)}"
    if entity.client_id is None:
        return f"users/{_part(entity.user)}"
    return f"users/{_part(entity.user)}/{_CLIENTS}/{_part(entity.client_id)}"


def entity_at(path: str) -> Entity | None:
    """Tell whose place below `/config` this is; None if it has no quotas."""
    match path.split("/"):
        case ["ips", ip]:
            return Entity(ip=_name(ip))
        case ["clients", client_id]:
            return Entity(client_id=_name(client_id))
        case ["users", user]:
            return Entity(_name(user))
        case ["users", user, "clients", client_id]:
            return Entity(_name(user), _name(client_id))
    return None


def read_tree(tree: Mapping[str, ZNode]) -> dict[Entity, dict[str, float]]:
    """Return all quotas."""
    found: dict[Entity, dict[str, float]] = {}
    for kind in ("users", _CLIENTS, "ips"):
        for path, texts in entity_config.read_below(tree, kind).items():
            entity = entity_at(f"{kind}/{path}")
            if entity is not None:
                found[entity] = limits_of(entity, texts)
    return found


def limits_of(entity: Entity, texts: Mapping[str, str]) -> dict[str, float]:
    """Pick the quotas out of an entity's settings. What cannot be meant is left out: no limit is better than none served."""
    limits = {}
    for key in entity.keys:
        text = texts.get(key)
        if text is None:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1
        if value > 0:
            limits[key] = value
        else:
            log.warning("quota %s of %s is left out: %r", key, path_of(entity), text)
    return limits


def change(
    node: Node, entity: Entity, changes: Sequence[Change], *, validate_only: bool
) -> Task[None]:
    """Set and remove limits of an entity; KafkaError if refused."""
    texts = [(key, None if value is None else _text(entity, key, value)) for key, value in changes]
    if validate_only:
        return

    def plan(before: dict[str, str]) -> dict[str, str]:
        after = dict(before)
        for key, text in texts:
            after.pop(key, None)
            if text is not None:
                after[key] = text
        return after

    after = yield from entity_config.change(node, path_of(entity), plan)
    node.quotas.put(entity, limits_of(entity, after))


def _text(entity: Entity, key: str, value: float) -> str:
    if key not in entity.keys:
        known = ", ".join(entity.keys)
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}; there are: {known}."
        )
    if not value > 0 or value == float("inf"):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{key} must be greater than 0, and it is {value:g}."
        )
    if not entity.keys[key]:
        return repr(float(value))
    whole = int(value + _WHOLE)
    if abs(whole - value) > _WHOLE:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{key} must be a whole number, and it is {value:g}."
        )
    if entity.ip is not None and whole > _INT_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is too large: {whole}.")
    return str(whole)


def _part(name: str) -> str:
    return entity_config.DEFAULT if name == DEFAULT else entity_config.sanitized(name)


def _name(part: str) -> str:
    return DEFAULT if part == entity_config.DEFAULT else entity_config.desanitized(part)
