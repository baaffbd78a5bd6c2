"""DescribeProducers: who writes to a partition with sequence numbers, and whose transaction is open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.pieces import PIECE, Pieces
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import NO_SEQUENCE
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.producer_state import ProducerEntry


def handle(call: Call) -> Task[Response]:
    """Look at every partition asked for; there may be very many producers."""
    pieces = Pieces(call)
    topics = []
    for asked in call.request.topics:
        partitions = []
        for index in asked.partition_indexes:
            found = yield from _describe(call, asked.name, index, pieces)
            partitions.append(found)
        topics.append(TopicResponse(name=asked.name, partitions=partitions))
    return (yield from pieces.respond(lambda: DescribeProducersResponse(topics=topics)))


def refuse(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersResponse:
    """Refuse every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=asked.name,
                partitions=[_failed(index, code, message) for index in asked.partition_indexes],
            )
            for asked in request.topics
        ]
    )


def _describe(call: Call, topic: str, index: int, pieces: Pieces) -> Task[PartitionResponse]:
    replica = call.node.led(topic, index)
    if isinstance(replica, ErrorCode):
        return _failed(index, replica, replica.message)
    entries = list(replica.log.producers)
    producers: list[ProducerState] = []
    for first in range(0, len(entries), PIECE):
        some = entries[first : first + PIECE]
        producers += map(_state, some)
        pieces.count(len(some))
        if pieces.is_full:
            yield pieces.pause
    return PartitionResponse(partition_index=index, active_producers=producers)


def _state(entry: ProducerEntry) -> ProducerState:
    start = entry.current_txn_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=-1 if start is None else start,
    )


def _failed(index: int, code: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message)
