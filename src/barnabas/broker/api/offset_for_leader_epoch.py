"""OffsetForLeaderEpoch: where the records of a leader epoch end, so that a reader finds out what was cut (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.pieces import Pieces
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[Response]:
    """Look up every partition: nothing here needs the disk."""
    pieces = Pieces(call)
    topics = []
    for topic in call.request.topics:
        found = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        for asked in topic.partitions:
            found.partitions.append(_look_up(call.node.hosted(topic.topic, asked.partition), asked))
            pieces.count(1)
            if pieces.is_full:
                yield pieces.pause
        topics.append(found)
        pieces.count(1)
    return (yield from pieces.respond(lambda: OffsetForLeaderEpochResponse(topics=topics)))


def refuse(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, _message: str | None
) -> OffsetForLeaderEpochResponse:
    """Refuse every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_failed(asked.partition, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _look_up(replica: Replica | ErrorCode, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if isinstance(replica, ErrorCode):
        return _failed(asked.partition, replica)
    code = replica.state.decide_read(asked.current_leader_epoch, leader_only=True)
    if code:
        return _failed(asked.partition, code)
    log_end_offset = replica.log.log_end_offset
    epoch, end_offset = replica.leader_epochs.end_offset_for(asked.leader_epoch, log_end_offset)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(index: int, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=index, error_code=code)
