"""Access rules as people write and read them: `alice`, `topic:orders`, `topic:orders-*`.

One job: words to values and back. Must not know brokers or commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.model.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    named,
)
from barnabas.model.principal import parse_principal

if TYPE_CHECKING:
    from collections.abc import Iterable

_RESOURCES: Final = (
    "topic:NAME, group:NAME, transactional-id:NAME, user:PRINCIPAL, delegation-token:ID, cluster"
)


def principal_of(text: str) -> str:
    """Read a principal; one without a kind is a user."""
    if ":" not in text:
        text = f"User:{text}"
    try:
        return str(parse_principal(text))
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None


def operation_of(text: str) -> Operation:
    """Read an operation that a rule can be about."""
    try:
        operation = named(Operation, text)
    except ValueError as problem:
        raise click.UsageError(f"operation {problem}") from None
    if operation < Operation.ALL:
        raise click.UsageError(
            f"a rule cannot be about {operation.title}; all stands for everything"
        )
    return operation


def resource_of(text: str, *, is_literal: bool = False) -> ResourcePattern:
    """Read a resource: KIND:NAME; a `*` at the end stands for whatever follows, alone for everything."""
    word, colon, name = text.partition(":")
    try:
        kind = named(ResourceType, word)
    except ValueError:
        raise click.UsageError(
            f"'{text}' is no resource; expected is one of {_RESOURCES}"
        ) from None
    if kind is ResourceType.CLUSTER and name in ("", CLUSTER_NAME):
        return ResourcePattern(kind, CLUSTER_NAME)
    is_nothing = not colon or not name or kind is ResourceType.CLUSTER
    if is_nothing or kind < ResourceType.TOPIC:
        raise click.UsageError(f"'{text}' is no resource; expected is one of {_RESOURCES}")
    if name.endswith(WILDCARD) and name != WILDCARD and not is_literal:
        return ResourcePattern(kind, name[:-1], PatternType.PREFIXED)
    return ResourcePattern(kind, name)


def shown(resource: ResourcePattern) -> str:
    """Write a resource as it is read."""
    if resource.kind is ResourceType.CLUSTER:
        return "cluster"
    star = WILDCARD if resource.pattern is PatternType.PREFIXED else ""
    kind = resource.kind.name.lower().replace("_", "-")
    return f"{kind}:{resource.name}{star}"


def as_json(binding: AclBinding) -> dict[str, Any]:
    """Give a rule for programs."""
    resource, entry = binding
    return {
        "principal": entry.principal,
        "permission": entry.permission.title,
        "operation": entry.operation.title,
        "resource_type": resource.kind.title,
        "resource_name": resource.name,
        "pattern_type": resource.pattern.title,
        "host": entry.host,
    }


def row_of(binding: AclBinding) -> list[str]:
    """Give a rule for a table."""
    resource, entry = binding
    return [
        entry.principal, entry.permission.title, entry.operation.title, shown(resource), entry.host,
    ]  # fmt: skip


def for_producer(
    principal: str, host: str, topics: Iterable[str], ids: Iterable[str]
) -> list[AclBinding]:
    """What a producer needs: to write to its topics, which may be created by that, and its transactional ids."""
    operations = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
    found = _rules(principal, host, [f"topic:{name}" for name in topics], operations)
    places = [f"transactional-id:{name}" for name in ids]
    return found + _rules(principal, host, places, (Operation.WRITE, Operation.DESCRIBE))


def for_consumer(
    principal: str, host: str, topics: Iterable[str], groups: Iterable[str]
) -> list[AclBinding]:
    """What a consumer needs: to read its topics, as a member of its groups."""
    operations = (Operation.READ, Operation.DESCRIBE)
    found = _rules(principal, host, [f"topic:{name}" for name in topics], operations)
    return found + _rules(principal, host, [f"group:{name}" for name in groups], (Operation.READ,))


def _rules(
    principal: str, host: str, resources: list[str], operations: tuple[Operation, ...]
) -> list[AclBinding]:
    return [
        AclBinding(resource_of(text), AclEntry(principal, host, operation, Permission.ALLOW))
        for text in resources
        for operation in operations
    ]
