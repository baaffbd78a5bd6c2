"""Offsets: where logs start and end, where a time is, and how far a group has come.

Job: the conversations of ListOffsets, OffsetCommit and OffsetFetch, for many partitions at once. Must not know what the offsets
are used for.

Invariants: partitions that are answered are not asked for again; those whose leader moved are asked of the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.cluster import GROUP
from barnabas.client.errors import ClientError, UnknownTopic, Unreachable, refusal
from barnabas.client.settings import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.talk import Collect, Post, Reply
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.client.cluster import Cluster
    from barnabas.client.talk import Address, Talk

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1


class ListedOffset(NamedTuple):
    """An offset, and the time of its record where one was looked for; -1 where there is none."""

    offset: int
    timestamp_ms: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: str = READ_UNCOMMITTED
) -> Talk[dict[TopicPartition, ListedOffset]]:
    """Find offsets by EARLIEST, LATEST or a time in ms; NO_OFFSET where no record is of that time or later.

    With read_committed the end of a log is its last stable offset.
    """
    found: dict[TopicPartition, ListedOffset] = {}

    def attempt() -> Talk[None]:
        missing = {each: wanted[each] for each in wanted if each not in found}
        yield from cluster.locate(missing)
        problems = yield from _ask_leaders(cluster, missing, isolation, found)
        if problems:
            raise max(problems, key=lambda each: not each.retriable)

    yield from cluster.retried(attempt)
    return found


def _ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    isolation: str,
    found: dict[TopicPartition, ListedOffset],
) -> Talk[list[ClientError]]:
    """Ask every leader at once, note what is found; return what went wrong."""
    tickets: dict[int, list[TopicPartition]] = {}
    for address, partitions in _by_leader(cluster, wanted).items():
        request = _list_request({each: wanted[each] for each in partitions}, isolation)
        tickets[(yield Post(address, request))] = partitions
    problems: list[ClientError] = []
    while tickets:
        reply: Reply = yield Collect(tickets)
        asked = tickets.pop(reply.ticket)
        if isinstance(reply.answer, ClientError):
            problems.append(reply.answer)
        else:
            problems += _note_listed(reply.answer, found)
        for each in asked:
            if each not in found:
                cluster.forget_leader(each)
                problems = problems or [Unreachable(f"no answer about {each}")]
    return problems


def _by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[Address, list[TopicPartition]]:
    groups: dict[Address, list[TopicPartition]] = {}
    for each in partitions:
        groups.setdefault(cluster.leader_address(each), []).append(each)
    return groups


def _list_request(wanted: Mapping[TopicPartition, int], isolation: str) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), timestamp in wanted.items():
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[]))
        entry.partitions.append(
            ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(isolation == READ_COMMITTED), topics=[*topics.values()]
    )


def _note_listed(
    answer: ListOffsetsResponse, found: dict[TopicPartition, ListedOffset]
) -> list[ClientError]:
    problems: list[ClientError] = []
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                problems.append(refusal(each.error_code, f"offsets of {partition}"))
            else:
                found[partition] = ListedOffset(each.offset, each.timestamp)
    return problems


# -- offsets of a group ------------------------------------------------------------------------


def commit(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
) -> Talk[None]:
    """Commit offsets for a group that has no members; as often as needed, for it makes no difference.

    UnknownTopic if one is of a topic that is not there; the others are committed.
    """
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    request = OffsetCommitRequest(group_id=group, topics=[*topics.values()])

    def attempt() -> Talk[None]:
        answer: OffsetCommitResponse = yield from cluster.ask_coordinator(GROUP, group, request)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(topic.name, each.partition_index)
                if each.error_code:
                    raise _group_refusal(cluster, group, each.error_code)

    yield from cluster.retried(attempt)


def committed(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition] | None = None
) -> Talk[dict[TopicPartition, int]]:
    """Return what a group has committed, of these partitions or of all; waits for open transactions to end."""
    topics: dict[str, OffsetFetchRequestTopics] | None = None
    if partitions is not None:
        topics = {}
        for topic, partition in partitions:
            entry = topics.setdefault(
                topic, OffsetFetchRequestTopics(name=topic, partition_indexes=[])
            )
            entry.partition_indexes.append(partition)
    wanted = OffsetFetchRequestGroup(
        group_id=group, topics=None if topics is None else [*topics.values()]
    )
    request = OffsetFetchRequest(groups=[wanted], require_stable=True)
    return (yield from cluster.retried(lambda: _fetch_committed(cluster, group, request)))


def _fetch_committed(
    cluster: Cluster, group: str, request: OffsetFetchRequest
) -> Talk[dict[TopicPartition, int]]:
    answer: OffsetFetchResponse = yield from cluster.ask_coordinator(GROUP, group, request)
    offsets = {}
    for one in answer.groups:
        if one.error_code:
            raise _group_refusal(cluster, group, one.error_code)
        for topic in one.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise _group_refusal(cluster, group, each.error_code)
                if each.committed_offset >= 0:
                    partition = TopicPartition(topic.name, each.partition_index)
                    offsets[partition] = each.committed_offset
    return offsets


def _group_refusal(cluster: Cluster, group: str, code: int) -> Any:  # noqa: ANN401
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        return refusal(
            code, f"group '{group}'", "it has members of its own, which alone may commit"
        )
    return cluster.coordinator_refusal(GROUP, group, code, f"group '{group}'")
