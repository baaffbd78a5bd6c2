"""What the controller knows of the cluster: brokers alive, topics, their partitions, and what was asked for.

Job: hold it, and answer plain questions about it. Must not know: what follows from it (`election.py`, `reassignment.py`, `deletion.py`).
What is durable here (assignments, leaderships, deletions) is in the store as well, and changes here after it has changed there. The rest is soft: a
controller that starts anew does without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from barnabas.core.controller.assignment import Assignment, Replicas
    from barnabas.core.controller.effects import Stop
    from barnabas.core.controller.settings import ControllerSettings
    from barnabas.model.cluster import LiveBroker
    from barnabas.model.ids import TopicPartition

#: Nobody leads.
NO_LEADER: Final = -1
#: The version of a state that is not in the store yet.
NOT_WRITTEN: Final = -1


class ElectionType(Enum):
    """What ElectLeaders asks for."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Leadership:
    """What stands in a partition's state znode."""

    leader: int
    leader_epoch: int
    in_sync: Replicas
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class ReadState:
    """A state znode as it was read, with its version and the transaction that wrote it."""

    leadership: Leadership
    version: int
    #: In the order of brokers' epochs, which are transactions, too.
    written: int


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic znode as it was read, with its version; partitions by number."""

    name: str
    id: bytes
    version: int
    partitions: Mapping[int, Assignment]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the store holds, for a controller that was just elected."""

    brokers: Iterable[LiveBroker]
    topics: Iterable[ReadTopic]
    states: Mapping[TopicPartition, ReadState]
    #: Names under /admin/delete_topics.
    deletions: Iterable[str] = ()
    #: Topics with an `unclean.leader.election.enable` of their own.
    unclean: Mapping[str, bool] = field(default_factory=dict)
    #: Partitions of which later leaders are known to whoever was elected: the store was put back, and all replicas must be asked.
    doubted: Collection[TopicPartition] = ()


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """What a replica says of its log, in the order of what counts: a later one has all that was committed in an earlier one.

    Of the same epoch, that of who leads in it holds the others.
    """

    epoch: int
    leads: bool
    end_offset: int


@dataclass(slots=True)
class PartitionView:
    """One partition. Below the line: soft state."""

    id: TopicPartition
    assignment: Assignment
    leadership: Leadership | None = None
    version: int = NOT_WRITTEN
    # -----
    #: The assignment that its replicas were told with the present leader epoch; None when that is not known.
    told: Assignment | None = None
    #: The next assignment of a move, once a leadership that fits it is written: what leaves is being stopped.
    settling: Assignment | None = None
    #: Brokers that went away since the last decision: for the next one they come after all others, even if they are back.
    fenced: set[int] = field(default_factory=set)
    #: Brokers that are to be told of it once it is known what becomes of the write that is under way: it may be refused.
    untold: set[int] = field(default_factory=set)
    #: Replicas whose log directory failed.
    offline: set[int] = field(default_factory=set)
    #: Deletions of replicas that were ordered, and the brokers that have done it.
    stops: dict[int, Stop] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    #: An election that was asked for and not decided yet.
    election: ElectionType | None = None
    #: What replicas say of their logs, once one of them knows of a later leader epoch than the store: it was put back to an older
    #: state, and who is in sync by it may lack records. None while there is no doubt.
    log_ends: dict[int, LogEnd] | None = None

    @property
    def leader(self) -> int:
        """The leader, or NO_LEADER."""
        return NO_LEADER if self.leadership is None else self.leadership.leader

    @property
    def in_sync(self) -> Replicas:
        """The in-sync set; empty before the first leader."""
        return () if self.leadership is None else self.leadership.in_sync

    @property
    def in_force(self) -> Assignment:
        """The assignment that replicas are told of: that at the end of a move, once it is being settled."""
        return self.settling or self.assignment

    @property
    def leaving(self) -> Replicas:
        """Replicas that a move has left behind, and whose logs must go."""
        if self.settling is None:
            return ()
        return tuple(r for r in self.assignment.replicas if r not in self.settling.replicas)

    def reassign(self, assignment: Assignment) -> None:
        """Take an assignment that is in the store now."""
        if assignment == self.assignment:
            return
        self.assignment, self.settling = assignment, None
        self.stops.clear()
        self.stopped.clear()


@dataclass(slots=True)
class TopicView:
    """One topic: its partitions by number, and the reassignments that were asked for and are not written yet."""

    name: str
    id: bytes
    version: int
    partitions: dict[int, PartitionView] = field(default_factory=dict)
    #: Partition -> target; None cancels.
    wishes: dict[int, Replicas | None] = field(default_factory=dict)


class ClusterView:
    """Everything the controller knows."""

    __slots__ = ("brokers", "deleting", "settings", "shutting_down", "topics", "unclean")

    def __init__(self, settings: ControllerSettings) -> None:
        """Start empty."""
        self.settings = settings
        self.brokers: dict[int, LiveBroker] = {}
        #: Alive, and asked to be let go.
        self.shutting_down: set[int] = set()
        self.topics: dict[str, TopicView] = {}
        #: Topics that are being deleted, in the order in which that was asked.
        self.deleting: dict[str, None] = {}
        self.unclean: dict[str, bool] = {}

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        """Find a partition."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def partitions(self) -> Iterator[PartitionView]:
        """All of them, those of topics that are being deleted too."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def kept_partitions(self) -> Iterator[PartitionView]:
        """Those whose topic is not being deleted."""
        return (p for p in self.partitions() if p.id.topic not in self.deleting)

    def is_reachable(self, broker: int, partition: PartitionView) -> bool:
        """Tell whether this replica's broker lives, and its log directory too."""
        return broker in self.brokers and broker not in partition.offline

    def is_serving(self, broker: int, partition: PartitionView) -> bool:
        """Tell whether this replica is at work, and was since the last decision."""
        return broker not in partition.fenced and self.is_reachable(broker, partition)

    def is_fit(self, broker: int, partition: PartitionView) -> bool:
        """Tell whether this replica is at work and means to stay."""
        return broker not in self.shutting_down and self.is_serving(broker, partition)

    def restarted_since(self, read: ReadState) -> set[int]:
        """Return the brokers that are in sync according to a state and have registered since it was written. They may have lost what they
        had not synced. No controller needs to have seen the restart: it may have been among those that restarted.
        """
        return {
            replica
            for replica in read.leadership.in_sync
            if replica in self.brokers and self.brokers[replica].epoch > read.written
        }

    def allows_unclean(self, topic: str) -> bool:
        """Tell whether a replica that is not in sync may lead when nobody else can."""
        return self.unclean.get(topic, self.settings.unclean_leader_election_enable)

    def offline_replicas(self, partition: PartitionView) -> Replicas:
        """Replicas that are not at work, as UpdateMetadata tells clients."""
        replicas = partition.in_force.replicas
        return tuple(r for r in replicas if not self.is_reachable(r, partition))

    def led_by(self, broker: int) -> list[TopicPartition]:
        """Partitions with several replicas that this broker leads: what a controlled shutdown must move."""
        return [
            p.id
            for p in self.kept_partitions()
            if p.leader == broker and len(p.assignment.replicas) > 1
        ]

    def reassignments(self) -> dict[TopicPartition, Assignment]:
        """Partitions that are being reassigned, as ListPartitionReassignments shows them."""
        return {p.id: p.assignment for p in self.partitions() if p.assignment.is_reassigned}
