"""OffsetCommit: keep where a group stands, if the topic is there and the member may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.commit_lane import open_commit_lane
from barnabas.broker.pieces import Pieces, slices
from barnabas.core.group.offset_requests import (
    CommitPartition,
    CommitReply,
    CommitRequest,
    CommitTopic,
)
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

_MEMBER_EPOCHS_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 10


def handle(call: Call) -> Any:  # noqa: ANN401
    """Commit what can be; partitions that are not there are refused one by one."""
    asked: OffsetCommitRequest = call.request
    refused: list[OffsetCommitResponseTopic] = []
    topics = _known_topics(call, asked.topics, refused)
    if not topics:
        return OffsetCommitResponse(topics=refused)
    request = _commit_request(call, topics)
    response = call.node.coordinators.ask(
        call,
        asked.group_id,
        lambda shard, ticket, now_ms, wall_ms: shard.commit(ticket, request, now_ms, wall_ms),
        lambda call, reply: _response(call, reply, topics, refused),
        brings_deadlines=False,
    )
    if response is not None and not refused:
        open_commit_lane(call, request, response, refuse)
    return response


def handle_long(call: Call) -> Task[Response]:
    """Do the same for very many partitions: they are looked up in pieces, and kept at once or not at all."""
    pieces = Pieces(call, finishes=True)
    refused: list[OffsetCommitResponseTopic] = []
    topics: list[CommitTopic] = []
    for one in call.request.topics:
        yield from _know_long_topic(call, one, topics, refused, pieces)
    reply = CommitReply()
    if topics:
        reply = yield from call.node.coordinators.commit_many(
            _commit_request(call, topics), _unknown(call)
        )
    return (yield from pieces.respond(lambda: _response(call, reply, topics, refused)))


def _know_long_topic(
    call: Call,
    topic: OffsetCommitRequestTopic,
    topics: list[CommitTopic],
    refused: list[OffsetCommitResponseTopic],
    pieces: Pieces,
) -> Task[None]:
    known: CommitTopic | None = None
    for some in slices(topic.partitions):
        part = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=some)
        for found in _known_topics(call, [part], refused):
            if known is None:
                known = found
                topics.append(known)
            else:
                known.partitions += found.partitions
        pieces.count(1 + len(some))
        if pieces.is_full:
            yield pieces.pause


def _commit_request(call: Call, topics: list[CommitTopic]) -> CommitRequest:
    asked: OffsetCommitRequest = call.request
    return CommitRequest(
        asked.group_id,
        topics,
        asked.member_id,
        asked.group_instance_id,
        asked.generation_id_or_member_epoch,
        asked.retention_time_ms,
        call.version >= _MEMBER_EPOCHS_SINCE,
    )


def _response(
    call: Call,
    reply: CommitReply,
    topics: list[CommitTopic],
    refused: list[OffsetCommitResponseTopic],
) -> OffsetCommitResponse:
    if reply.error_code:
        return refuse(call.request, reply.error_code, None)
    by_id = call.version >= _TOPIC_IDS_SINCE
    ids = {topic.name: topic.topic_id for topic in topics} if by_id else {}
    answered = [
        OffsetCommitResponseTopic(
            name="" if by_id else name,
            topic_id=ids[name] if by_id else bytes(16),
            partitions=[
                OffsetCommitResponsePartition(partition_index=index, error_code=code)
                for index, code in codes
            ],
        )
        for name, codes in reply.topics
    ]
    return OffsetCommitResponse(topics=_merge(refused, answered) if refused else answered)


def _known_topics(
    call: Call, asked: list[OffsetCommitRequestTopic], refused: list[OffsetCommitResponseTopic]
) -> list[CommitTopic]:
    """Find the topics and partitions that exist; the others go to `refused`."""
    by_id = call.version >= _TOPIC_IDS_SINCE
    known = call.node.topics
    found = []
    for one in asked:
        topic: Topic | None = (
            known.by_id.get(bytes(one.topic_id)) if by_id else known.by_name.get(one.name)
        )
        if topic is None:
            refused.append(_refused(one, _unknown(call)))
            continue
        count = len(topic.partitions)
        partitions = []
        unknown = []
        for p in one.partitions:
            if 0 <= p.partition_index < count:
                partitions.append(
                    CommitPartition(
                        p.partition_index,
                        p.committed_offset,
                        p.committed_leader_epoch,
                        p.committed_metadata,
                    )
                )
            else:
                unknown.append(p)
        if unknown:
            refused.append(_refused(one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown))
        if partitions:
            found.append(CommitTopic(topic.name, topic.id, partitions))
    return found


def _unknown(call: Call) -> ErrorCode:
    """What a client is told of a topic that is not there."""
    by_id = call.version >= _TOPIC_IDS_SINCE
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(
    topic: OffsetCommitRequestTopic, code: ErrorCode, partitions: list[Any] | None = None
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
            for p in (topic.partitions if partitions is None else partitions)
        ],
    )


def _merge(
    refused: list[OffsetCommitResponseTopic], answered: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Tell each topic once."""
    topics: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in (*refused, *answered):
        known = topics.setdefault((topic.name, bytes(topic.topic_id)), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())


def refuse(
    request: OffsetCommitRequest, code: ErrorCode, _message: str | None
) -> OffsetCommitResponse:
    """Refuse every partition."""
    return OffsetCommitResponse(topics=[_refused(topic, code) for topic in request.topics])
