"""OffsetFetch: where groups stand. From version 8 on many groups at once, from 10 on topics by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group.offset_requests import (
    NO_TOPIC_ID,
    FetchedOffset,
    FetchReply,
    FetchRequest,
    FetchTopic,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task

_GROUP_ERROR_SINCE: Final = 2
_MANY_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
#: What stands in the other fields beside an error.
_NO_OFFSET: Final = -1


def handle(call: Call) -> Task[OffsetFetchResponse]:
    """Tell the offsets of each group."""
    request: OffsetFetchRequest = call.request
    if call.version < _MANY_SINCE:
        topics = None
        if request.topics is not None:
            topics = [
                FetchTopic(one.name, NO_TOPIC_ID, one.partition_indexes) for one in request.topics
            ]
        asked = FetchRequest(request.group_id, topics, require_stable=request.require_stable)
        reply = yield from _fetch(call, asked)
        return _old_response(call.version, request, reply)
    groups = []
    for group in request.groups:
        fetched = yield from _fetch_group(call, group)
        groups.append(fetched)
    return OffsetFetchResponse(groups=groups)


def refuse(
    request: OffsetFetchRequest, code: ErrorCode, _message: str | None
) -> OffsetFetchResponse:
    """Refuse every group, and every partition for versions without a code of their own."""
    return OffsetFetchResponse(
        error_code=code,
        topics=_failed_topics(request, code),
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.groups
        ],
    )


def _fetch(call: Call, request: FetchRequest) -> Task[FetchReply]:
    coordinators = call.node.coordinators
    try:
        hosted = coordinators.find(request.group_id)
        reply: FetchReply = yield coordinators.asking(
            hosted, lambda shard, ticket, now_ms, _wall_ms: shard.fetch(ticket, request, now_ms)
        )
    except KafkaError as problem:
        return FetchReply(request.group_id, problem.code)
    return reply


# Many groups


def _fetch_group(call: Call, group: OffsetFetchRequestGroup) -> Task[OffsetFetchResponseGroup]:
    by_id = call.version >= _TOPIC_IDS_SINCE
    refused: list[OffsetFetchResponseTopics] = []
    topics = None
    if group.topics is not None:
        topics = (
            _known_topics(call, group, refused)
            if by_id
            else [FetchTopic(t.name, NO_TOPIC_ID, t.partition_indexes) for t in group.topics]
        )
    request = FetchRequest(
        group.group_id, topics, group.member_id, group.member_epoch, call.request.require_stable
    )
    reply = yield from _fetch(call, request)
    if reply.error_code:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=reply.error_code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=_topics(call, reply, by_id) + refused
    )


def _known_topics(
    call: Call, group: OffsetFetchRequestGroup, refused: list[OffsetFetchResponseTopics]
) -> list[FetchTopic]:
    known = []
    for one in group.topics or ():
        topic = call.node.topics.by_id.get(bytes(one.topic_id))
        if topic is not None:
            known.append(FetchTopic(topic.name, topic.id, one.partition_indexes))
            continue
        code = ErrorCode.UNKNOWN_TOPIC_ID
        partitions = [_partition(FetchedOffset(p, error_code=code)) for p in one.partition_indexes]
        refused.append(OffsetFetchResponseTopics(topic_id=one.topic_id, partitions=partitions))
    return known


def _topics(call: Call, reply: FetchReply, by_id: bool) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, offsets in reply.topics:
        topic_id = NO_TOPIC_ID
        if by_id:
            topic = call.node.topics.by_name.get(name)
            if topic is None:
                continue  # it has no id by which it could be told
            topic_id, name = topic.id, ""
        topics.append(
            OffsetFetchResponseTopics(
                name=name, topic_id=topic_id, partitions=[_partition(one) for one in offsets]
            )
        )
    return topics


def _partition(one: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=one.partition,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=one.error_code,
    )


# One group


def _old_response(
    version: int, request: OffsetFetchRequest, reply: FetchReply
) -> OffsetFetchResponse:
    if reply.error_code:
        topics = [] if version >= _GROUP_ERROR_SINCE else _failed_topics(request, reply.error_code)
        return OffsetFetchResponse(error_code=reply.error_code, topics=topics)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name=name, partitions=[_old_partition(one) for one in offsets])
            for name, offsets in reply.topics
        ]
    )


def _old_partition(one: Any) -> OffsetFetchResponsePartition:  # noqa: ANN401
    return OffsetFetchResponsePartition(
        partition_index=one.partition,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=one.error_code,
    )


def _failed_topics(request: OffsetFetchRequest, code: ErrorCode) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                _old_partition(FetchedOffset(index, error_code=code))
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
