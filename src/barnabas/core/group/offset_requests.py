"""What is asked of committed offsets and what is answered, in the words of the newest version of each API.

Job: plain values. Must not know: message versions and bytes; what an older version does differently is a named
flag here, and the API handler fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.model.errors import ErrorCode

NO_TOPIC_ID = bytes(16)
NO_OFFSET = -1
NO_RETENTION_TIME = -1


@dataclass(slots=True)
class CommitPartition:
    """The offset to keep for one partition."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


@dataclass(slots=True)
class CommitTopic:
    """The offsets of one topic. `name` and `topic_id` were found by the caller; it exists."""

    name: str
    topic_id: bytes
    partitions: list[CommitPartition]


@dataclass(slots=True)
class CommitRequest:
    """OffsetCommit: a member, or somebody outside the group (generation -1, no member), keeps offsets."""

    group_id: str
    topics: list[CommitTopic]
    member_id: str = ""
    group_instance_id: str | None = None
    generation_id_or_member_epoch: int = -1
    retention_time_ms: int = NO_RETENTION_TIME
    #: From version 9 on a group that is not there is told so; older clients know ILLEGAL_GENERATION only.
    knows_member_epochs: bool = True
    #: TxnOffsetCommit: (producer id, epoch) of the transaction; the offsets count when it does.
    producer: tuple[int, int] | None = None


@dataclass(slots=True)
class CommitReply:
    """One code per partition, as asked; or one for all."""

    error_code: ErrorCode = ErrorCode.NONE
    #: topic name -> (partition, code)
    topics: list[tuple[str, list[tuple[int, ErrorCode]]]] = field(default_factory=list)


@dataclass(slots=True)
class FetchTopic:
    """The partitions of one topic whose offsets are asked for."""

    name: str
    topic_id: bytes
    partitions: list[int]


@dataclass(slots=True)
class FetchRequest:
    """One group of an OffsetFetch. No topics (None): all that are kept."""

    group_id: str
    topics: list[FetchTopic] | None = None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


@dataclass(slots=True)
class FetchedOffset:
    """What is kept for one partition; offset -1: nothing."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class FetchReply:
    """The offsets of one group by topic name, or why there are none."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[tuple[str, list[FetchedOffset]]] = field(default_factory=list)


@dataclass(slots=True)
class DeleteRequest:
    """OffsetDelete: forget these positions. topic name -> partitions."""

    group_id: str
    topics: list[tuple[str, list[int]]]


@dataclass(slots=True)
class DeleteReply:
    """One code per partition, or one for the whole request."""

    error_code: ErrorCode = ErrorCode.NONE
    topics: list[tuple[str, list[tuple[int, ErrorCode]]]] = field(default_factory=list)
