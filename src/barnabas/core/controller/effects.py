"""What an event leads to: writes to the store, and what brokers are to be told.

Plain values. The host does the writes in the order it likes; sends each broker what is for it in the order in which it came (of one event: first
`tell`, then `stop`); and reports what became of both. Each write belongs to a transaction that checks the controller's epoch; a broker's requests are repeated until
it answers or its registration ends. What is told is read from the view when it is sent, so that it is never older than the effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.core.controller.assignment import Assignment
    from barnabas.core.controller.view import Leadership
    from barnabas.model.ids import TopicPartition

#: The leader epoch of a StopReplica that belongs to the deletion of a topic.
EPOCH_DURING_DELETE: Final = -2


@dataclass(frozen=True, slots=True)
class StateWrite:
    """Put a leadership in a partition's state znode; expecting NOT_WRITTEN, create it. The rest is for the machine itself."""

    partition: TopicPartition
    leadership: Leadership
    expected_version: int
    assignment: Assignment
    settling: Assignment | None
    fenced: frozenset[int]
    is_unclean: bool

    @property
    def told(self) -> Assignment:
        """The assignment that replicas are told with it."""
        return self.settling or self.assignment


@dataclass(frozen=True, slots=True)
class TopicWrite:
    """Put the assignments of all partitions in a topic's znode."""

    topic: str
    topic_id: bytes
    expected_version: int
    partitions: Mapping[int, Assignment]


@dataclass(frozen=True, slots=True)
class Tell:
    """LeaderAndIsr for one partition to one broker; a new replica may make its log even while a directory is offline."""

    broker: int
    partition: TopicPartition
    is_new: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """StopReplica for one partition to one broker."""

    broker: int
    partition: TopicPartition
    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """ListOffsets for one partition to one broker."""

    broker: int
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A topic that the store does not have any more, with its partitions."""

    topic: str
    topic_id: bytes
    partitions: tuple[int, ...]


@dataclass(slots=True)
class Effects:
    """Everything to be done, in no order but that of each list."""

    write_states: list[StateWrite] = field(default_factory=list)
    write_topics: list[TopicWrite] = field(default_factory=list)
    #: Topics without a replica left: assignment, settings and the wish to delete go, in one transaction.
    delete_topics: list[str] = field(default_factory=list)
    #: Wishes to delete that lead to nothing: they are to be taken out of /admin/delete_topics.
    drop_deletions: list[str] = field(default_factory=list)
    tell: list[Tell] = field(default_factory=list)
    stop: list[Stop] = field(default_factory=list)
    #: Brokers to be asked how far their log of a partition goes.
    ask: list[Ask] = field(default_factory=list)
    #: UpdateMetadata of these partitions to every broker alive. Those of a topic that is being deleted have leader -2.
    announce: dict[TopicPartition, None] = field(default_factory=dict)
    #: Topics that the view has no longer: UpdateMetadata goes to every live broker that was not told of their deletion before.
    forgotten: list[Forgotten] = field(default_factory=list)
    #: UpdateMetadata of all partitions to these brokers.
    announce_all_to: list[int] = field(default_factory=list)
    #: The list of brokers changed: UpdateMetadata to all, even if no partition is to be announced.
    announce_brokers: bool = False

    def extend(self, more: Effects) -> None:
        """Put what another event led to behind this."""
        self.write_states += more.write_states
        self.write_topics += more.write_topics
        self.delete_topics += more.delete_topics
        self.drop_deletions += more.drop_deletions
        self.tell += more.tell
        self.stop += more.stop
        self.ask += more.ask
        self.announce |= more.announce
        self.forgotten += more.forgotten
        self.announce_all_to += more.announce_all_to
        self.announce_brokers |= more.announce_brokers
