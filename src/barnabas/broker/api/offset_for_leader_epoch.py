"""OffsetForLeaderEpoch: where the records of a leader epoch end, so that a reader finds out what was cut (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from barnabas.broker.replicas import Replica


def handle(call: Call) -> OffsetForLeaderEpochResponse:
    """Look up every partition: nothing here needs the disk."""
    node = call.node
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _look_up(node.led(topic.topic, asked.partition), asked)
                    for asked in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


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
    code = replica.state.decide_epoch(asked.current_leader_epoch)
    if code:
        return _failed(asked.partition, code)
    log_end_offset = replica.log.log_end_offset
    epoch, end_offset = replica.leader_epochs.end_offset_for(asked.leader_epoch, log_end_offset)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(index: int, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=index, error_code=code)
