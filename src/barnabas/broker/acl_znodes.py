"""How access rules stand in the coordination store: Kafka 3.9's paths and JSON.

Rules on names and on `*` stand under `/kafka-acl/TYPE/NAME`, those on prefixes under `/kafka-acl-extended/prefixed/TYPE/NAME`; notices of changes
likewise in two places, in two formats. Bytes in, values out, and the operations that change them. Nothing here talks to the store.

Invariants: Apache Kafka 3.9 reads what is written here, and the other way round.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from barnabas.model.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    Word,
    named,
)
from barnabas.ports import Create, Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.ports import Operation as StoreOperation
    from barnabas.ports import ZNode

_ROOTS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
ROOTS: Final = tuple(_ROOTS.values())
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
_NOTICE: Final = "acl_changes_"
_VERSION: Final = 1


def path_of(resource: ResourcePattern) -> str:
    """Tell where the rules of a resource stand."""
    return f"{_ROOTS[resource.pattern]}/{resource.kind.title}/{resource.name}"


def name_problem(name: str) -> str | None:
    """Say why a name cannot be part of a path; None if it can."""
    if "/" in name or name in (".", ".."):
        return f"rules on '{name}' cannot be stored: its name is part of a path, as in Kafka with ZooKeeper; use a prefix before the slash"
    return None


def read_all(tree: Mapping[str, ZNode]) -> dict[ResourcePattern, list[AclEntry]]:
    """Read every rule there is."""
    found = {}
    for pattern, root in _ROOTS.items():
        for path, node in tree.items():
            if not path.startswith(root + "/"):
                continue
            kind, _, name = path[len(root) + 1 :].partition("/")
            if name and node.data:
                resource = ResourcePattern(named(ResourceType, kind), name, pattern)
                found[resource] = read(node)
    return found


def read(node: ZNode | None) -> list[AclEntry]:
    """Read the rules of one resource. Words that only later versions know become UNKNOWN, which matches nothing."""
    if node is None or not node.data:
        return []
    return [
        AclEntry(
            one["principal"],
            one["host"],
            _word(Operation, one["operation"]),
            _word(Permission, one["permissionType"]),
        )
        for one in json.loads(node.data)["acls"]
    ]


def write(
    resource: ResourcePattern, entries: Iterable[AclEntry], found: ZNode | None
) -> StoreOperation | None:
    """Replace the rules of a resource where `found` stands; None if there is nothing to do."""
    path = path_of(resource)
    acls = [
        {
            "principal": one.principal,
            "permissionType": one.permission.title,
            "operation": one.operation.title,
            "host": one.host,
        }
        for one in entries
    ]
    if not acls:
        return None if found is None else Delete(path, found.version)
    data = json.dumps({"version": _VERSION, "acls": acls}, separators=(",", ":")).encode()
    return Create(path, data) if found is None else SetData(path, data, found.version)


def notice(resource: ResourcePattern) -> StoreOperation:
    """Tell all brokers that the rules of a resource have changed."""
    if resource.pattern is PatternType.LITERAL:
        text = f"{resource.kind.name}:{resource.name}"
        return Create(f"{LITERAL_CHANGES}/{_NOTICE}", text.encode(), sequential=True)
    event = {
        "version": _VERSION,
        "resourceType": resource.kind.name,
        "name": resource.name,
        "patternType": resource.pattern.name,
    }
    data = json.dumps(event, separators=(",", ":")).encode()
    return Create(f"{EXTENDED_CHANGES}/{_NOTICE}", data, sequential=True)


def read_notice(node: ZNode) -> ResourcePattern:
    """Read which resource a notice is about."""
    text = node.data.decode()
    if text.startswith("{"):
        event = json.loads(text)
        kind, name = named(ResourceType, event["resourceType"]), event["name"]
        return ResourcePattern(kind, name, named(PatternType, event["patternType"]))
    type_name, _, name = text.partition(":")
    return ResourcePattern(named(ResourceType, type_name), name)


def _word(words: type[Word], text: str) -> Word:
    try:
        return named(words, text)
    except ValueError:
        return words(0)
