"""One classic group: its members, its generation, and what may be done in the state it is in.

| state               | meaning                                           | moves to                                    |
|---------------------|---------------------------------------------------|---------------------------------------------|
| Empty               | no members; perhaps offsets                       | PreparingRebalance (a member joins)         |
| PreparingRebalance  | members are called to join, JoinGroup waits       | CompletingRebalance, Empty (nobody came)    |
| CompletingRebalance | a generation began, SyncGroup waits for the leader| Stable, PreparingRebalance                  |
| Stable              | every member has its assignment                   | PreparingRebalance                          |

Kafka's fifth state, Dead, is what is said of a group that is not there.

Job: the state and the questions to it; `classic_rebalance`, `classic_join` and `classic_sync` have the moves. Must
not know: the clock, the log, bytes of the embedded consumer protocol (a function reads the topics out of them).

Invariant: a generation has one protocol, one leader and one list of members from its beginning to its end.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from barnabas.core.group.classic.member import Member
from barnabas.core.group.classic.requests import ListedGroup
from barnabas.core.group.classic.roster import Roster
from barnabas.core.group.records import ClassicGroupRemoved
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.core.group.classic.unsaved import Unsaved
    from barnabas.core.group.records import ClassicGroupSaved, Record

    #: The topics in a member's metadata of the consumer protocol; None when it cannot be read.
    ReadTopics = Callable[[bytes], Iterable[str] | None]

#: The protocol type of consumers: the only one whose metadata a broker looks into.
CONSUMER_PROTOCOL_TYPE = "consumer"


class State(Enum):
    """Where a group stands, by the name Kafka shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_COMES_FROM = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
}


class ClassicGroup(Roster):
    """A group whose members make the assignment among themselves."""

    __slots__ = (
        "_read_topics",
        "_subscribed",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "join_deadline_ms",
        "member_was_added",
        "previous_state",
        "protocol_name",
        "state",
        "state_timestamp_ms",
        "sync_deadline_ms",
        "unsaved",
    )

    group_type = "classic"

    def __init__(self, group_id: str, state_timestamp_ms: int, read_topics: ReadTopics) -> None:
        """Start empty; `state_timestamp_ms` is wall-clock time, -1 when it is not known."""
        super().__init__()
        self.group_id = group_id
        self.state = self.previous_state = State.EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        self.protocol_name: str | None = None
        self.generation = 0
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        #: The first rebalance waits for more members: the step it is in, what is left, whether somebody came.
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.member_was_added = False
        #: What the record on its way to the log says; None when none is.
        self.unsaved: Unsaved | None = None
        self._read_topics = read_topics
        self._subscribed: dict[str, None] | None = None

    @classmethod
    def from_record(cls, record: ClassicGroupSaved, read_topics: ReadTopics) -> ClassicGroup:
        """Build the group that the log remembers: stable, or empty."""
        group = cls(record.group_id, record.current_state_timestamp_ms, read_topics)
        group.generation = record.generation
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol
        group.leader = record.leader
        for saved in record.members:
            group.put(Member.from_record(saved, record.protocol or ""))
        if group.members:
            group.state = State.STABLE
            if group.leader not in group.members:
                group.leader = next(iter(group.members))
        else:
            group.leader = None
        return group

    def clear(self) -> None:
        """Forget everything: the group is gone, and deadlines that still name it find nothing."""
        assert not self.waits, "who waits is answered before the group goes"
        self.members.clear()
        self.static_members.clear()
        self.pending.clear()
        self.join_deadline_ms = self.sync_deadline_ms = None

    # Moves

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Tell whether a member with these protocols fits in."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        if protocol_type != self.protocol_type:
            return False
        size = len(self.members)
        return any(self.protocol_counts.get(name, 0) == size for name in names)

    def move_to(self, state: State, wall_ms: int) -> None:
        """Change state, and remember since when."""
        assert self.state in _COMES_FROM[state], f"{self.state} does not lead to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = wall_ms

    def begin_generation(self, wall_ms: int) -> None:
        """Close the join phase: who is in is in."""
        self.generation += 1
        self.pending_sync.clear()
        self._subscribed = None
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(State.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.move_to(State.EMPTY, wall_ms)

    def take_assignments(self, record: ClassicGroupSaved) -> None:
        """Become stable with what the log now has."""
        assert record.generation == self.generation, "the record is of this generation"
        for saved in record.members:
            self.members[saved.member_id].assignment = saved.assignment
        self.move_to(State.STABLE, self.state_timestamp_ms)

    # Who may do what

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Tell whether the sender is who it says, and a member."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Tell whether the sender is a member of the present generation."""
        error = self.check_member(member_id, group_instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version_has_epoch: bool,
    ) -> ErrorCode:
        """Tell whether this sender may commit offsets now; by all versions alike, as here are no epochs."""
        generation_id = generation_or_epoch
        if generation_id < 0 and self.state is State.EMPTY:
            # A tool, or a consumer that takes its partitions by itself: free while nobody is a member.
            return ErrorCode.NONE
        if generation_id >= 0 or member_id or group_instance_id is not None:
            error = self.check_generation(member_id, group_instance_id, generation_id)
            if error is not ErrorCode.NONE:
                return error
        elif not is_transactional and self.state is not State.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and self.state is State.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def validate_partition_commit(
        self, member_id: str, generation_or_epoch: int, topic_id: bytes, partition: int
    ) -> ErrorCode:
        """Let a member commit any partition: the broker does not know who owns which."""
        return ErrorCode.NONE

    def on_offset_commit(self, member_id: str, now_ms: int) -> None:
        """Take a commit for a sign of life."""
        member = self.members.get(member_id)
        if member is not None and self.state is not State.COMPLETING_REBALANCE:
            # Later than it is queued for, so the heap finds it when its entry comes up.
            member.deadline_ms = max(member.deadline_ms, now_ms + member.session_timeout_ms)

    def validate_offset_fetch(
        self, member_id: str | None, member_epoch: int, now_ms: int
    ) -> ErrorCode:
        """Let everybody read offsets."""
        return ErrorCode.NONE

    def validate_offset_delete(self) -> ErrorCode:
        """Tell whether offsets may be deleted: of consumers those of topics nobody reads, of others none while they live."""
        if self.state is State.EMPTY or self.uses_consumer_protocol:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def validate_delete(self) -> ErrorCode:
        """Tell whether the group may be deleted."""
        return ErrorCode.NONE if self.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP

    # Views

    @property
    def state_name(self) -> str:
        """The state as Kafka names it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether nobody is a member."""
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether the group was only ever used to keep offsets."""
        return self.protocol_type is None and self.is_empty and not self.pending

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose subscriptions the broker can read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def subscribed_topics(self) -> dict[str, None] | None:
        """Give the topics that the members read; None when that cannot be told."""
        if not self.uses_consumer_protocol:
            return None
        if self._subscribed is None:
            topics: dict[str, None] = {}
            for member in self.members.values():
                read = self._read_topics(member.metadata_by_name.get(self.protocol_name or "", b""))
                if read is None:
                    return None
                topics.update(dict.fromkeys(read))
            self._subscribed = topics
        return self._subscribed

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether a member reads the topic; consumers that cannot be read are taken to read everything."""
        topics = self.subscribed_topics()
        return self.uses_consumer_protocol if topics is None else topic in topics

    def offsets_expiry_base(self, commit_timestamp_ms: int) -> int | None:
        """Give the wall-clock time from which retention of an offset counts; None: it does not expire (KIP-211)."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            known = self.state_timestamp_ms != -1
            return self.state_timestamp_ms if known else commit_timestamp_ms
        if self.state is State.STABLE and self.subscribed_topics() is not None:
            return commit_timestamp_ms
        return None

    def as_listed(self) -> ListedGroup:
        """Give the line in a list of groups."""
        return ListedGroup(
            self.group_id, self.protocol_type or "", self.state_name, self.group_type
        )

    def removal_records(self) -> list[Record]:
        """Give the records that take the group out of the log."""
        return [ClassicGroupRemoved(self.group_id)]
