"""DeleteRecords: let logs start later. Records below are gone for readers at once, and after a crash too.

Whole segments that are below are dropped; their files go after file.delete.delay.ms.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import audit
from barnabas.broker.dropping import drop_before_starts
from barnabas.broker.pieces import Pieces
from barnabas.model.cluster import INTERNAL_TOPICS
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

    #: Logs whose start was moved, with the answers that tell it.
    _Moved = dict[Replica, list[DeleteRecordsPartitionResult]]

#: Asks for everything that readers may see to be deleted.
HIGH_WATERMARK: Final = -1
_NO_OFFSET: Final = -1
#: How long to wait before looking again whether followers have followed.
_LOOK_AGAIN_MS: Final = 20


def handle(call: Call) -> Task[Response]:
    """Move the start of each log, and answer when it is written down."""
    deadline_ms = call.deadline_ms
    pieces = Pieces(call, finishes=True)
    moved: _Moved = {}
    topics = yield from _move_starts(call, pieces, moved)
    try:
        yield from _drop(call.node, moved)
    except OSError as problem:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from problem
    for replica in moved:
        start = replica.log.log_start_offset
        audit.changed(call, "delete-records", "Partition", str(replica.key), start_offset=start)
    for replica, results in moved.items():
        code = yield from _wait_for_followers(call.node, replica, deadline_ms)
        if code:
            for result in results:
                result.error_code, result.low_watermark = code, _NO_OFFSET
    return (yield from pieces.respond(lambda: DeleteRecordsResponse(topics=topics)))


def _move_starts(call: Call, pieces: Pieces, moved: _Moved) -> Task[list[DeleteRecordsTopicResult]]:
    topics = []
    for topic in call.request.topics:
        results: list[DeleteRecordsPartitionResult] = []
        for asked in topic.partitions:
            replica = call.node.led(topic.name, asked.partition_index)
            outcome = _move_start(replica, asked.offset)
            results.append(_result(asked.partition_index, outcome))
            if not isinstance(replica, ErrorCode) and not isinstance(outcome, ErrorCode):
                moved.setdefault(replica, []).append(results[-1])
            pieces.count(1)
            if pieces.is_full:
                yield pieces.pause
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        pieces.count(1)
    return topics


def _drop(node: Node, moved: _Moved) -> Task[None]:
    by_directory: dict[str, list[Replica]] = {}
    for replica in moved:
        by_directory.setdefault(replica.directory.path, []).append(replica)
    for replicas in by_directory.values():
        yield from drop_before_starts(node, replicas[0].directory, replicas)


def _wait_for_followers(node: Node, replica: Replica, deadline_ms: int) -> Task[ErrorCode]:
    """Wait until every live replica has deleted the records, too, or the request's time is over."""
    while True:
        now = node.led(*replica.key)
        if now is not replica:  # another one leads it, its disk failed, or its topic has gone
            return now if isinstance(now, ErrorCode) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        start, state = replica.log.log_start_offset, replica.state
        if not state.followers or state.low_watermark(start, node.cluster.brokers) >= start:
            return ErrorCode.NONE
        if node.world.clock.monotonic_ms() >= deadline_ms or node.stopping:
            return ErrorCode.REQUEST_TIMED_OUT
        yield partial(node.pause, _LOOK_AGAIN_MS)


def refuse(
    request: DeleteRecordsRequest, code: ErrorCode, _message: str | None
) -> DeleteRecordsResponse:
    """Refuse every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_result(asked.partition_index, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _move_start(replica: Replica | ErrorCode, offset: int) -> int | ErrorCode:
    """Let the log start at `offset`; where it starts now, or why not."""
    if isinstance(replica, ErrorCode):
        return replica
    code = _decide(replica, offset)
    if code:
        return code
    try:
        replica.log.move_log_start(
            replica.state.high_watermark if offset == HIGH_WATERMARK else offset
        )
    except OSError as problem:
        replica.on_disk_error(problem, "delete records")
        return ErrorCode.KAFKA_STORAGE_ERROR
    return replica.log.log_start_offset


def _decide(replica: Replica, offset: int) -> ErrorCode:
    if replica.key.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if replica.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if replica.config.compact and not replica.config.delete:
        return ErrorCode.POLICY_VIOLATION
    if not HIGH_WATERMARK <= offset <= replica.state.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def _result(index: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=_NO_OFFSET, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=outcome)
