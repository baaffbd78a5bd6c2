"""What a group coordinator writes down: one plain class per kind of record in `__consumer_offsets`.

Job: the facts themselves, in the machine's own terms. Must not know: bytes, versions, partitions of the
log (`wire.group_records` turns records into keys and values and back).

Invariants: a record is never changed once it is made; each kind that can be taken back has a `…Removed`
record with the same key (a tombstone in the log); replaying the log's records in order gives the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Partitions of topics by topic id, in the order in which they were given.
TopicPartitions = dict[bytes, tuple[int, ...]]
#: The same with the epoch in which each partition was given: topic id -> partition -> epoch.
TopicPartitionEpochs = dict[bytes, dict[int, int]]


@dataclass(slots=True)
class OffsetCommitted:
    """Where a group stands in one partition."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int  # -1: not given
    metadata: str
    commit_timestamp_ms: int  # wall clock
    expire_timestamp_ms: int = -1  # wall clock; -1: by the broker's retention
    topic_id: bytes = bytes(16)  # zeros: not known


@dataclass(slots=True)
class OffsetRemoved:
    """The group's position in one partition is forgotten."""

    group_id: str
    topic: str
    partition: int


@dataclass(slots=True)
class ClassicMember:
    """A member of a classic group as the log keeps it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(slots=True)
class ClassicGroupSaved:
    """A classic group at the end of a rebalance (or empty, with no members)."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int  # wall clock; -1: not known
    members: tuple[ClassicMember, ...]


@dataclass(slots=True)
class ClassicGroupRemoved:
    """A classic group is gone."""

    group_id: str


@dataclass(slots=True)
class ConsumerGroupEpoch:
    """A consumer group (KIP-848) exists, and stands at this epoch."""

    group_id: str
    epoch: int
    metadata_hash: int = 0  # of the topics it is subscribed to


@dataclass(slots=True)
class ConsumerGroupEpochRemoved:
    """A consumer group is gone."""

    group_id: str


@dataclass(slots=True)
class ClassicMemberMetadata:
    """What a member that speaks the classic protocol brings into a consumer group."""

    session_timeout_ms: int
    supported_protocols: tuple[
        tuple[str, bytes], ...
    ]  # name, metadata: the member's preference first


@dataclass(slots=True)
class ConsumerGroupMember:
    """What a member of a consumer group said about itself."""

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]  # sorted
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(slots=True)
class ConsumerGroupMemberRemoved:
    """A member of a consumer group is gone."""

    group_id: str
    member_id: str


@dataclass(slots=True)
class ConsumerGroupPartitionMetadata:
    """What Kafka before 4.1 kept of the subscribed topics. Never written; only known so that it can be removed."""

    group_id: str


@dataclass(slots=True)
class ConsumerGroupPartitionMetadataRemoved:
    """The record of Kafka before 4.1 is taken back."""

    group_id: str


@dataclass(slots=True)
class TargetAssignmentEpoch:
    """The target assignment was made for this epoch of the group."""

    group_id: str
    assignment_epoch: int
    assignment_timestamp_ms: int = 0  # wall clock; 0: not known


@dataclass(slots=True)
class TargetAssignmentEpochRemoved:
    """There is no target assignment any more."""

    group_id: str


@dataclass(slots=True)
class TargetAssignment:
    """The partitions that a member shall own."""

    group_id: str
    member_id: str
    partitions: TopicPartitions = field(default_factory=dict)


@dataclass(slots=True)
class TargetAssignmentRemoved:
    """A member shall own nothing: it is gone."""

    group_id: str
    member_id: str


@dataclass(slots=True)
class CurrentAssignment:
    """The partitions that a member owns now and those it must give up, with its epochs and state.

    `state` is Kafka's number: 0 stable, 1 unrevoked partitions, 2 unreleased partitions.
    """

    group_id: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: TopicPartitionEpochs = field(default_factory=dict)
    pending_revocation: TopicPartitionEpochs = field(default_factory=dict)


@dataclass(slots=True)
class CurrentAssignmentRemoved:
    """A member owns nothing: it is gone."""

    group_id: str
    member_id: str


@dataclass(slots=True)
class ResolvedRegularExpression:
    """The topics that a regular expression of the group matched, and when it was tried."""

    group_id: str
    regular_expression: str
    topics: tuple[str, ...]  # sorted
    version: int  # of the cluster's metadata it was tried against
    timestamp_ms: int  # wall clock


@dataclass(slots=True)
class ResolvedRegularExpressionRemoved:
    """Nobody in the group uses the regular expression any more."""

    group_id: str
    regular_expression: str


Record = (
    OffsetCommitted
    | OffsetRemoved
    | ClassicGroupSaved
    | ClassicGroupRemoved
    | ConsumerGroupEpoch
    | ConsumerGroupEpochRemoved
    | ConsumerGroupMember
    | ConsumerGroupMemberRemoved
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupPartitionMetadataRemoved
    | TargetAssignmentEpoch
    | TargetAssignmentEpochRemoved
    | TargetAssignment
    | TargetAssignmentRemoved
    | CurrentAssignment
    | CurrentAssignmentRemoved
    | ResolvedRegularExpression
    | ResolvedRegularExpressionRemoved
)
