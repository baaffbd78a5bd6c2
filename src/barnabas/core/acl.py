"""Who may do what: Kafka's access rules, matched.

Job: keep the rules of every resource, and judge a request by them. Must not know: where rules are stored, who asks, what an API
needs.

| rule found                                                         | answer                               |
|--------------------------------------------------------------------|--------------------------------------|
| the principal is a super user                                      | allowed, nothing else is looked at   |
| no rule at all on the resource                                     | as `allow.everyone.if.no.acl.found`  |
| a Deny for the operation, or for All                               | denied, whatever else is allowed     |
| an Allow for the operation, for All, or for one that implies it    | allowed                              |
| none of these                                                      | denied                               |

Rules on a resource are those of its name, those of `*`, and those of every prefix of its name. Reading, writing, deleting or
altering something implies describing it, and altering its settings implies describing them; a Deny implies nothing. An address is the same
however it is written: Java, and so Kafka's rules, have `0:0:0:0:0:0:0:1` for `::1`.

Invariants: what is answered follows from the rules there are and nothing else; rules are replaced per resource, whole, so that
what is kept is what the store has (CVE-2024-27309 came of a cache that was changed piece by piece). May be asked on other
threads while the loop changes rules: each look-up sees the rules of a resource as they are before or after.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model import address
from barnabas.model.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Entries = tuple[AclEntry, ...]

#: What else than itself allows an operation.
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


class Why(Enum):
    """What an answer rests on."""

    SUPER_USER = "a super user"
    NO_RULE = "no rule on the resource"
    DENIED = "a rule denies it"
    ALLOWED = "a rule allows it"
    NOT_ALLOWED = "no rule allows it"
    NOWHERE_ALLOWED = "allowed on no resource of the kind"
    SOMEWHERE_ALLOWED = "allowed on some resource of the kind"


class Decision(NamedTuple):
    """An answer, what it rests on, and the rule if it is one."""

    is_allowed: bool
    why: Why
    rule: AclBinding | None = None


class Acls:
    """All rules."""

    def __init__(
        self, super_users: frozenset[str] = frozenset(), *, open_without_rules: bool = False
    ) -> None:
        """Start without rules."""
        self._super_users = super_users
        self._open_without_rules = open_without_rules
        self._by_resource: dict[ResourcePattern, Entries] = {}
        self._prefix_counts: dict[ResourceType, Counter[int]] = {}
        #: The lengths of the prefixes that have rules, by kind: what to look up for a name.
        self._prefix_lengths: dict[ResourceType, tuple[int, ...]] = {}

    def get(self, resource: ResourcePattern) -> Entries:
        """Give the rules of one resource."""
        return self._by_resource.get(resource, ())

    def replace(self, resource: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Take these for the rules of a resource, whole; without any it has none."""
        kept = tuple(dict.fromkeys(entries))
        had_some = resource in self._by_resource
        if kept:
            self._by_resource[resource] = kept
        else:
            self._by_resource.pop(resource, None)
        if resource.pattern is PatternType.PREFIXED and bool(kept) != had_some:
            self._count_prefix(resource, 1 if kept else -1)

    def _count_prefix(self, resource: ResourcePattern, change: int) -> None:
        counts = self._prefix_counts.setdefault(resource.kind, Counter())
        counts[len(resource.name)] += change
        self._prefix_lengths[resource.kind] = tuple(
            sorted(n for n, count in counts.items() if count)
        )

    def resources(self) -> list[ResourcePattern]:
        """Name the resources that have rules."""
        return list(self._by_resource)

    def find(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """Find rules."""
        for resource, entries in self._by_resource.items():
            if wanted.matches_resource(resource):
                for entry in entries:
                    if wanted.matches_entry(entry):
                        yield AclBinding(resource, entry)

    def decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Decision:
        """Judge one operation on one resource."""
        if principal in self._super_users:
            return Decision(True, Why.SUPER_USER)
        found = [
            (resource, entries)
            for resource in self._patterns_of(kind, name)
            if (entries := self._by_resource.get(resource))
        ]
        if not found:
            return Decision(self._open_without_rules, Why.NO_RULE)
        host = address.usual(host)
        for permission, operations in (
            (Permission.DENY, (operation, Operation.ALL)),
            (Permission.ALLOW, (operation, Operation.ALL, *_IMPLIED_BY.get(operation, ()))),
        ):
            for resource, entries in found:
                entry = _first(entries, permission, operations, principal, host)
                if entry is not None:
                    is_allowed = permission is Permission.ALLOW
                    why = Why.ALLOWED if is_allowed else Why.DENIED
                    return Decision(is_allowed, why, AclBinding(resource, entry))
        return Decision(False, Why.NOT_ALLOWED)

    def _patterns_of(self, kind: ResourceType, name: str) -> Iterator[ResourcePattern]:
        """Name everything whose rules hold for a resource."""
        yield ResourcePattern(kind, name)
        if name != WILDCARD:
            yield ResourcePattern(kind, WILDCARD)
        for length in self._prefix_lengths.get(kind, ()):
            if length > len(name):
                break
            yield ResourcePattern(kind, name[:length], PatternType.PREFIXED)

    def decide_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> Decision:
        """Judge whether an operation is allowed on any resource of a kind, whatever its name (KIP-679)."""
        if principal in self._super_users:
            return Decision(True, Why.SUPER_USER)
        allowed: list[ResourcePattern] = []
        denied: list[ResourcePattern] = []
        host = address.usual(host)
        for resource, entries in list(self._by_resource.items()):
            if resource.kind is not kind:
                continue
            for entry in entries:
                if entry.operation in (operation, Operation.ALL) and _is_about(
                    entry, principal, host
                ):
                    (allowed if entry.permission is Permission.ALLOW else denied).append(resource)
        if ResourcePattern(kind, WILDCARD) in denied:
            return Decision(False, Why.NOWHERE_ALLOWED)
        if self._open_without_rules or any(not _is_dominated(one, denied) for one in allowed):
            return Decision(True, Why.SOMEWHERE_ALLOWED)
        return Decision(False, Why.NOWHERE_ALLOWED)


def _first(
    entries: Entries,
    permission: Permission,
    operations: tuple[Operation, ...],
    principal: str,
    host: str,
) -> AclEntry | None:
    for entry in entries:
        if (
            entry.permission is permission
            and entry.operation in operations
            and _is_about(entry, principal, host)
        ):
            return entry
    return None


def _is_about(entry: AclEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, WILDCARD_PRINCIPAL) and (
        entry.host == WILDCARD or address.usual(entry.host) == host
    )


def _is_dominated(allowed: ResourcePattern, denied: list[ResourcePattern]) -> bool:
    """Tell whether everything that is allowed so is denied."""
    if allowed.name == WILDCARD and allowed.pattern is PatternType.LITERAL:
        return False  # what is not named by a Deny is left
    return any(
        allowed.name.startswith(one.name) if one.pattern is PatternType.PREFIXED else one == allowed
        for one in denied
    )
