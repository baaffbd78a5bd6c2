"""What an access rule is made of: Kafka's resources, operations, patterns and permissions, by Kafka's numbers and names.

Job: the words that rules are written in, and rules as plain values. Must not know: who is allowed what, where rules are stored.
Invariants: values are frozen; numbers are those of the wire, names those that Kafka stores and its tools print.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

Word = TypeVar("Word", bound="_Word")

#: The one cluster that there is, as a resource.
CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
#: Everybody. A rule for it is one for principals of every kind.
WILDCARD_PRINCIPAL: Final = "User:*"


class _Word(IntEnum):
    """A number of the wire with a name: TRANSACTIONAL_ID is stored and printed as TransactionalId."""

    @property
    def title(self) -> str:
        """The name that Kafka stores and prints."""
        return self.name.title().replace("_", "")


class ResourceType(_Word):
    """What rules are about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Word):
    """How a rule names resources; ANY and MATCH are for searching only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Word):
    """What is done to a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Word):
    """What a rule says."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
#: What can be done to each kind of resource, as Kafka tells clients that ask what they may do.
OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip


class ResourcePattern(NamedTuple):
    """Which resources a rule is about: one by its name, all by `*`, or those whose name begins so."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """Give the form of Kafka's authorizer log."""
        return f"{self.kind.title}:{self.pattern.name}:{self.name}"


class AclEntry(NamedTuple):
    """Who may, or may not, do what from where."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.permission.title} {self.principal} {self.operation.title} from {self.host}"


class AclBinding(NamedTuple):
    """One rule."""

    resource: ResourcePattern
    entry: AclEntry


class AclFilter(NamedTuple):
    """Which rules are meant: None and ANY stand for every one."""

    kind: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches_resource(self, resource: ResourcePattern) -> bool:
        """Tell whether rules on this resource may be meant. MATCH means those that hold for a resource of that name."""
        if self.kind not in (ResourceType.ANY, resource.kind):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == resource.name
        if resource.pattern is PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name in (self.name, WILDCARD)

    def matches_entry(self, entry: AclEntry) -> bool:
        """Tell whether such a rule is meant, on whatever resource."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


def named(words: type[Word], text: str) -> Word:
    """Find a word as people and Kafka's store write it: TransactionalId, transactional-id, TRANSACTIONAL_ID. ValueError if none."""
    folded = text.replace("_", "").replace("-", "").lower()
    for word in words:
        if word.title.lower() == folded:
            return word
    allowed = ", ".join(word.title for word in words if word.name != "UNKNOWN")
    raise ValueError(f"'{text}' is not known; there are: {allowed}")
