"""TxnOffsetCommit: offsets of a group that count when the transaction does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.pieces import PIECE, Pieces
from barnabas.core.group.offset_requests import (
    CommitPartition,
    CommitReply,
    CommitRequest,
    CommitTopic,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task

_LOADING_SINCE: Final = 2
_TOPIC_IDS_SINCE: Final = 6
_NO_ID: Final = bytes(16)
#: One code per partition, by name and id of its topic as the request has them, in its order.
_Codes = dict[tuple[str, bytes], dict[int, ErrorCode]]


def handle(call: Call) -> Task[Response]:
    """Commit what can be; partitions that are not there are refused one by one."""
    asked: TxnOffsetCommitRequest = call.request
    pieces = Pieces(call, finishes=True)
    codes: _Codes = {}
    topics: dict[str, CommitTopic] = {}
    places: dict[str, dict[int, ErrorCode]] = {}
    for topic in asked.topics:
        place = codes.setdefault(_key(topic), {})
        for start in range(0, max(len(topic.partitions), 1), PIECE):
            some = topic.partitions[start : start + PIECE]
            found = _known_part(call, topic, some, place)
            if found.partitions:
                topics.setdefault(found.name, CommitTopic(found.name, found.topic_id, []))
                topics[found.name].partitions += found.partitions
                places[found.name] = place
            pieces.count(1 + len(some))
            if pieces.is_full:
                yield pieces.pause
    reply = CommitReply()
    if topics:
        try:
            reply = yield from _commit(call, list(topics.values()))
        except KafkaError as problem:
            reply = CommitReply(problem.code)

    def respond() -> TxnOffsetCommitResponse:
        for name, answered in _answers(topics.values(), reply):
            places[name].update(answered)
        return _response(call.version, codes)

    return (yield from pieces.respond(respond))


def _commit(call: Call, topics: list[CommitTopic]) -> Task[CommitReply]:
    asked: TxnOffsetCommitRequest = call.request
    request = CommitRequest(
        asked.group_id,
        topics,
        asked.member_id,
        asked.group_instance_id,
        asked.generation_id_or_member_epoch,
        producer=(asked.producer_id, asked.producer_epoch),
    )
    return call.node.coordinators.commit_in_transaction(
        request, asked.transactional_id, call.version, _unknown(call)
    )


def _unknown(call: Call) -> ErrorCode:
    """What a client is told of a topic that is not there."""
    by_id = call.version >= _TOPIC_IDS_SINCE
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _key(topic: TxnOffsetCommitRequestTopic) -> tuple[str, bytes]:
    return topic.name, bytes(topic.topic_id)


def _known_part(
    call: Call,
    topic: TxnOffsetCommitRequestTopic,
    partitions: list[TxnOffsetCommitRequestPartition],
    refused: dict[int, ErrorCode],
) -> CommitTopic:
    """Keep those of a topic's partitions that exist; the others go to `refused`."""
    topics, by_id = call.node.topics, call.version >= _TOPIC_IDS_SINCE
    known = topics.by_id.get(bytes(topic.topic_id)) if by_id else topics.by_name.get(topic.name)
    if known is None:
        code = _unknown(call)
        refused.update((one.partition_index, code) for one in partitions)
        return CommitTopic(topic.name, _NO_ID, [])
    found = CommitTopic(known.name, known.id, [])
    for one in partitions:
        if 0 <= one.partition_index < len(known.partitions):
            found.partitions.append(
                CommitPartition(
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.committed_metadata,
                )
            )
        else:
            refused[one.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found


def _answers(
    topics: Iterable[CommitTopic], reply: CommitReply
) -> Iterable[tuple[str, list[tuple[int, ErrorCode]]]]:
    if not reply.error_code:
        return reply.topics
    code = reply.error_code
    return [(topic.name, [(one.partition, code) for one in topic.partitions]) for topic in topics]


def refuse(
    request: TxnOffsetCommitRequest, code: ErrorCode, _message: str | None
) -> TxnOffsetCommitResponse:
    """Refuse every partition."""
    codes: _Codes = {}
    for topic in request.topics:
        partitions = codes.setdefault(_key(topic), {})
        partitions.update((one.partition_index, code) for one in topic.partitions)
    return _response(_LOADING_SINCE, codes)


def _response(version: int, codes: _Codes) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=index, error_code=_told(code, version)
                    )
                    for index, code in partitions.items()
                ],
            )
            for (name, topic_id), partitions in codes.items()
        ]
    )


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """Clients before 2.3 crash on a coordinator that is loading (KAFKA-7296)."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
