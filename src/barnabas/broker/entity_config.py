"""Settings of topics, brokers, groups, users, client ids and addresses: where they stand in the store, and how they are changed.

Job: read, plan, write back, and let other brokers know, so that what others keep at the same place (a user has quotas and SCRAM
credentials), or have just changed there from another broker, stays as it is. Paths and JSON are Kafka 3.9's. Must not know what the settings mean.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from barnabas.broker import cluster_znodes, store, znodes
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import CoordinationError, Create, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import Operation, ZNode

Texts = dict[str, str]

#: Whoever has no settings of their own.
DEFAULT: Final = "<default>"
_ROOT: Final = "/config/"
#: Somebody else changes the same entity at the same time: so often, and then it is the client's turn to try again.
_TRIES: Final = 5


def sanitized(name: str) -> str:
    """Write a name as part of a path, as Kafka does."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(part: str) -> str:
    """Read a name that is part of a path."""
    return unquote(part)


def read(found: ZNode | None) -> Texts:
    """Read what stands at an entity's place; a place that only has others below it is empty."""
    return {} if found is None or not found.data else znodes.read_config(found)


def read_below(tree: Mapping[str, ZNode], kind: str) -> dict[str, Texts]:
    """Return the settings of all entities of a kind (`users`, `clients`, `ips`) by their path below it."""
    prefix = f"{_ROOT}{kind}/"
    return {
        path[len(prefix) :]: read(node)
        for path, node in tree.items()
        if path.startswith(prefix) and node.data
    }


def change(
    node: Node, entity: str, plan: Callable[[Texts], Texts], *, missing: KafkaError | None = None
) -> Task[Texts]:
    """Change the settings of an entity, say `users/alice`: what is there in, what is to be there out; returns that.

    `plan` raises KafkaError to refuse, and is asked again if somebody else was faster. An entity without a place gets one, or `missing` is raised.
    """
    for _ in range(_TRIES):
        found = yield from store.read(node, _ROOT + entity)
        if found is None and missing is not None:
            raise missing
        texts = plan(read(found))
        try:
            yield from store.commit(node, _operations(node, entity, found, texts))
        except CoordinationError as refusal:
            if refusal.kind not in ("BAD_VERSION", "NODE_EXISTS", "NO_NODE"):
                raise
        else:
            return texts
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"others keep changing {entity}; try again")


def _operations(node: Node, entity: str, found: ZNode | None, texts: Texts) -> list[Operation]:
    data = json.dumps({"version": 1, "config": texts}, separators=(",", ":")).encode()
    path = _ROOT + entity
    written = Create(path, data) if found is None else SetData(path, data, found.version)
    return [written] if node.is_lone else [written, cluster_znodes.config_notice(entity)]
