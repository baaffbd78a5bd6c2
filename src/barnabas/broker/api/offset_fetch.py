"""OffsetFetch: where groups stand. From version 8 on many groups at once, from 10 on topics by id."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.pieces import PIECE, Pieces
from barnabas.core.group.offset_requests import (
    NO_TOPIC_ID,
    FetchedOffset,
    FetchReply,
    FetchRequest,
    FetchTopic,
)
from barnabas.model.acl import Operation, ResourceType
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
    from collections.abc import Iterator

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.wire.primitives import Buffer

_GROUP_ERROR_SINCE: Final = 2
_MANY_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
#: A topic's name, its id where versions have one, and its offsets.
_Topic = tuple[str, bytes, list[FetchedOffset]]


@dataclass(slots=True)
class _Told:
    """What is told of one group: offsets by topic name and id, or why not."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[_Topic] = field(default_factory=list)


def handle(call: Call) -> Task[Response]:
    """Tell the offsets of each group."""
    request: OffsetFetchRequest = call.request
    pieces = Pieces(call)
    if call.version < _MANY_SINCE:
        topics, denied = None, list[_Topic]()
        if request.topics is not None:
            topics = [
                FetchTopic(one.name, NO_TOPIC_ID, one.partition_indexes) for one in request.topics
            ]
            topics = _allowed(call, topics, denied)
        asked = FetchRequest(request.group_id, topics, require_stable=request.require_stable)
        reply = yield from _fetch(call, pieces, asked)
        reply.topics += [(name, offsets) for name, _id, offsets in denied]
        return (yield from pieces.respond(lambda: _old_response(call.version, request, reply)))
    told = []
    for group in request.groups:
        one = yield from _fetch_group(call, pieces, group)
        told.append(one)
    return (
        yield from pieces.respond(
            lambda: OffsetFetchResponse(groups=[_group_response(one) for one in told])
        )
    )


class _Refusal(OffsetFetchResponse):
    """An answer that tells of partitions where a version has no code of its own, and only there."""

    def encode_into(self, out: list[Buffer], version: int) -> None:
        if version >= _GROUP_ERROR_SINCE:
            self.topics = []
        super().encode_into(out, version)


def refuse(
    request: OffsetFetchRequest, code: ErrorCode, _message: str | None
) -> OffsetFetchResponse:
    """Refuse every group, and every partition for versions without a code of their own."""
    return _Refusal(
        error_code=code,
        topics=_failed_topics(request, code),
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            for group in request.groups
        ],
    )


def _fetch(call: Call, pieces: Pieces, request: FetchRequest) -> Task[FetchReply]:
    """Ask for the offsets of one group; for those of many partitions some at a time."""
    if request.topics is None:
        reply = yield from _ask(call, request)
        reply.topics = [one for one in reply.topics if _may_see(call, one[0], quietly=True)]
        pieces.count(1 + sum(len(offsets) for _name, offsets in reply.topics))
        if pieces.is_full:
            yield pieces.pause
        return reply
    whole = FetchReply(request.group_id, topics=[(topic.name, []) for topic in request.topics])
    for piece in _cut(request.topics):
        some = replace(request, topics=[part for _number, part in piece])
        reply = yield from _ask(call, some)
        if reply.error_code:
            return reply
        for (number, _part), (_name, offsets) in zip(piece, reply.topics, strict=True):
            whole.topics[number][1].extend(offsets)
            pieces.count(1 + len(offsets))
        if pieces.is_full:
            yield pieces.pause
    return whole


def _may_see(call: Call, topic: str, *, quietly: bool = False) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic, quietly=quietly)


def _allowed(call: Call, topics: list[FetchTopic], denied: list[_Topic]) -> list[FetchTopic]:
    """Keep the topics that a client may know of; what it is told of the others goes to `denied`."""
    if call.node.gate is None:
        return topics
    code, kept = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
    for one in topics:
        if _may_see(call, one.name):
            kept.append(one)
        else:
            offsets = [FetchedOffset(index, error_code=code) for index in one.partitions]
            name = "" if call.version >= _TOPIC_IDS_SINCE else one.name
            denied.append((name, one.topic_id, offsets))
    return kept


def _cut(topics: list[FetchTopic]) -> Iterator[list[tuple[int, FetchTopic]]]:
    """Cut what is asked for into pieces, one at least: parts of topics and the place of each topic in the request."""
    piece: list[tuple[int, FetchTopic]] = []
    steps = 0
    for number, topic in enumerate(topics):
        for first in range(0, max(len(topic.partitions), 1), PIECE):
            some = topic.partitions[first : first + PIECE]
            piece.append((number, FetchTopic(topic.name, topic.topic_id, some)))
            steps += 1 + len(some)
            if steps >= PIECE:
                yield piece
                piece, steps = [], 0
    if piece or not topics:
        yield piece


def _ask(call: Call, request: FetchRequest) -> Task[FetchReply]:
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


def _fetch_group(call: Call, pieces: Pieces, group: OffsetFetchRequestGroup) -> Task[_Told]:
    by_id = call.version >= _TOPIC_IDS_SINCE
    refused: list[_Topic] = []
    topics = None
    if group.topics is not None:
        topics = (
            _known_topics(call, group, refused)
            if by_id
            else [FetchTopic(t.name, NO_TOPIC_ID, t.partition_indexes) for t in group.topics]
        )
        topics = _allowed(call, topics, refused)
    request = FetchRequest(
        group.group_id, topics, group.member_id, group.member_epoch, call.request.require_stable
    )
    reply = yield from _fetch(call, pieces, request)
    if reply.error_code:
        return _Told(group.group_id, reply.error_code)
    told = _topics_by_id(call, reply, topics) if by_id else _topics(reply)
    return _Told(group.group_id, topics=told + refused)


def _known_topics(
    call: Call,
    group: OffsetFetchRequestGroup,
    refused: list[_Topic],
) -> list[FetchTopic]:
    known = []
    code = ErrorCode.UNKNOWN_TOPIC_ID
    for one in group.topics or ():
        topic = call.node.topics.by_id.get(bytes(one.topic_id))
        if topic is not None:
            known.append(FetchTopic(topic.name, topic.id, one.partition_indexes))
        else:
            offsets = [FetchedOffset(index, error_code=code) for index in one.partition_indexes]
            refused.append(("", one.topic_id, offsets))
    return known


def _topics(reply: FetchReply) -> list[_Topic]:
    return [(name, NO_TOPIC_ID, offsets) for name, offsets in reply.topics]


def _topics_by_id(call: Call, reply: FetchReply, asked: list[FetchTopic] | None) -> list[_Topic]:
    """Tell them by the ids that were asked for; where all topics were, by those that they have now, if they have not gone."""
    if asked is not None:
        ids = {topic.name: topic.topic_id for topic in asked}
    else:
        by_name = call.node.topics.by_name
        ids = {name: by_name[name].id for name, _ in reply.topics if name in by_name}
    return [("", ids[name], offsets) for name, offsets in reply.topics if name in ids]


def _group_response(told: _Told) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=told.group_id,
        error_code=told.error_code,
        topics=[
            OffsetFetchResponseTopics(
                name=name, topic_id=topic_id, partitions=[_partition(one) for one in offsets]
            )
            for name, topic_id, offsets in told.topics
        ],
    )


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
