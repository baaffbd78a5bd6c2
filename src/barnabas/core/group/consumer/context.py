"""What the rules of consumer groups work with: settings, topics, deadlines, and the seams to their neighbours.

Job: hold it together under names, and answer what follows from settings alone. Must not know: any rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.core.group.consumer.deadlines import ConsumerDeadlines, Watch
from barnabas.core.group.settings import NO_OVERRIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from barnabas.core.group.classic.requests import JoinReply, Protocols, SyncReply
    from barnabas.core.group.consumer.subscription import TopicHashes
    from barnabas.core.group.group import Group
    from barnabas.core.group.records import Record
    from barnabas.core.group.result import Result, Ticket
    from barnabas.core.group.settings import GroupOverrides, GroupSettings
    from barnabas.core.group.topic_view import TopicView


class EmbeddedSubscription(NamedTuple):
    """What a classic consumer says in its JoinGroup metadata."""

    topics: tuple[str, ...]
    owned: Mapping[str, Sequence[int]]
    rack_id: str | None = None


class EmbeddedAssignment(NamedTuple):
    """What a classic leader gave a consumer."""

    partitions: Mapping[str, Sequence[int]]
    has_user_data: bool = False


class EmbeddedProtocol(Protocol):
    """Reads and writes the bytes that classic consumers put into JoinGroup and SyncGroup."""

    def read_subscription(self, metadata: bytes) -> EmbeddedSubscription | None:
        """Read a member's metadata; None when it cannot be read."""

    def read_assignment(self, assignment: bytes) -> EmbeddedAssignment | None:
        """Read a member's assignment; None when it cannot be read."""

    def write_assignment(self, partitions: Mapping[str, Sequence[int]], metadata: bytes) -> bytes:
        """Write an assignment in the version of that metadata."""


class ClassicSide(Protocol):
    """The classic groups, as far as a move between the protocols needs them."""

    def release(self, group_id: str, now_ms: int) -> list[tuple[Ticket, JoinReply | SyncReply]]:
        """Answer everybody who waits: the group is about to become a consumer group."""

    def take_over(
        self,
        group_id: str,
        now_ms: int,
        wall_ms: int,
        *,
        protocols: dict[str, Protocols] | None = None,
        rebalance: bool = True,
    ) -> Result:
        """Watch the members of a group that was a consumer group until now."""


@dataclass(slots=True)
class Context:
    """One shard's surroundings."""

    settings: GroupSettings
    overrides: Callable[[str], GroupOverrides]
    groups: MutableMapping[str, Group]
    topics: TopicView
    hashes: TopicHashes
    new_uuid: Callable[[], str]
    embedded: EmbeddedProtocol
    classic: ClassicSide
    deadlines: ConsumerDeadlines = field(default_factory=ConsumerDeadlines)
    #: The epoch in which a member was told to give partitions up, by (group id, member id).
    revoking_epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    #: By whose eyes a group's expressions are tried next.
    regex_eyes: dict[str, Callable[[str], bool] | None] = field(default_factory=dict)
    #: Groups that became classic ones: all protocols of their members, and whether they must rebalance.
    downgraded: dict[str, tuple[dict[str, Protocols], bool]] = field(default_factory=dict)
    #: How often topics changed since this coordinator began.
    topics_version: int = 0

    def session_timeout_ms(self, group_id: str) -> int:
        """Tell how long a member of the group may be silent."""
        own = self.overrides(group_id).consumer_session_timeout_ms
        return self.settings.consumer_session_timeout_ms if own is None else own

    def member_times(self, group_id: str) -> tuple[int, int]:
        """Tell how long a member of the group may be silent, and how often it shall be heard of."""
        settings, own = self.settings, self.overrides(group_id)
        if own is NO_OVERRIDES:
            return settings.consumer_session_timeout_ms, settings.consumer_heartbeat_interval_ms
        interval_ms = own.consumer_heartbeat_interval_ms
        return self.session_timeout_ms(group_id), (
            settings.consumer_heartbeat_interval_ms if interval_ms is None else interval_ms
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        """Tell how much time lies between two target assignments of the group."""
        own = self.overrides(group_id).consumer_assignment_interval_ms
        return self.settings.consumer_assignment_interval_ms if own is None else own

    def expect_session(self, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Give a member until then to be heard of."""
        self.deadlines.expect((Watch.SESSION, group_id, member_id), deadline_ms)


def no_overrides(_: str) -> GroupOverrides:
    """Give no group settings of its own."""
    return NO_OVERRIDES


@dataclass(slots=True)
class Turn:
    """One request or deadline: the moment, and what is to be written."""

    now_ms: int  # monotonic
    wall_ms: int
    records: list[Record] = field(default_factory=list)
    #: Answers to others than the asker.
    replies: list[tuple[Ticket, JoinReply | SyncReply]] = field(default_factory=list)
    #: Members of a classic group that becomes a consumer group if the request is accepted, with their session time-outs.
    upgraded: dict[str, int] = field(default_factory=dict)
