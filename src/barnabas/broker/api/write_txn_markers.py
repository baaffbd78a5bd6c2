"""WriteTxnMarkers: another broker's coordinator, or an administrator, ends transactions on partitions of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import markers
from barnabas.broker.pieces import Pieces
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import Producer
from barnabas.wire.control_batch import EndMarker
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.model.errors import ErrorCode


def handle(call: Call) -> Task[Response]:
    """Write each marker to each of its partitions."""
    request: WriteTxnMarkersRequest = call.request
    pieces = Pieces(call, finishes=True)
    ends = []
    for one in request.markers:
        ends.append(_end(one))
        pieces.count(1 + len(ends[-1].partitions))
        if pieces.is_full:
            yield pieces.pause
    written = yield from markers.write(call.node, ends)
    # Markers of one producer are told together, as in Kafka.
    answers: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for end, codes in zip(ends, written, strict=True):
        answers.setdefault(end.producer.id, {}).update(codes)
        pieces.count(1 + len(codes))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: _response(answers)))


def _end(one: WritableTxnMarker) -> markers.End:
    marker = EndMarker(one.transaction_result, one.coordinator_epoch)
    producer = Producer(one.producer_id, one.producer_epoch)
    return markers.End(marker, producer, one.transaction_version, _partitions(one))


def _response(answers: dict[int, dict[TopicPartition, ErrorCode]]) -> WriteTxnMarkersResponse:
    results = [_result(producer_id, codes) for producer_id, codes in answers.items()]
    return WriteTxnMarkersResponse(markers=results)


def refuse(
    request: WriteTxnMarkersRequest, code: ErrorCode, _message: str | None
) -> WriteTxnMarkersResponse:
    """Refuse every partition."""
    results = [
        _result(one.producer_id, dict.fromkeys(_partitions(one), code)) for one in request.markers
    ]
    return WriteTxnMarkersResponse(markers=results)


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def _result(producer_id: int, codes: dict[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        one = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        topics.setdefault(topic, []).append(one)
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[
            WritableTxnMarkerTopicResult(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
