"""DescribeLogDirs: how much each partition takes in each directory, and how much room there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.pieces import Pieces
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.log_moves import Move
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.storage.directory import LogDirectory


def handle(call: Call) -> Task[Response]:
    """Describe every directory with the partitions asked for, or with all."""
    pieces = Pieces(call)
    request: DescribeLogDirsRequest = call.request
    asked = sum(1 + len(topic.partitions) for topic in request.topics or ())
    wanted = yield from pieces.work(asked, lambda: _wanted(request))
    results = []
    for directory in call.node.directories:
        result = yield from _describe(call.node, pieces, directory, wanted)
        results.append(result)
    return (yield from pieces.respond(lambda: DescribeLogDirsResponse(results=results)))


def refuse(
    _request: DescribeLogDirsRequest, code: ErrorCode, _message: str | None
) -> DescribeLogDirsResponse:
    """Refuse the request."""
    return DescribeLogDirsResponse(error_code=code)


def _wanted(request: DescribeLogDirsRequest) -> set[TopicPartition] | None:
    if request.topics is None:
        return None
    return {
        TopicPartition(asked.topic, index) for asked in request.topics for index in asked.partitions
    }


def _describe(
    node: Node, pieces: Pieces, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> Task[DescribeLogDirsResult]:
    def job() -> tuple[int, int]:
        return node.world.disk.space(directory.path)

    failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    if not directory.is_online:
        return failed
    try:
        total_bytes, usable_bytes = yield lambda done: node.world.background.run(job, done)
    except OSError:
        return failed
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in list(node.replicas):
        pieces.count(1)
        if pieces.is_full:
            yield pieces.pause
        if replica.directory is directory and (wanted is None or replica.key in wanted):
            by_topic.setdefault(replica.key.topic, []).append(_partition(replica))
    for move in node.moves.into(directory):
        key = move.replica.key
        if wanted is None or key in wanted:
            by_topic.setdefault(key.topic, []).append(_future(move))
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _future(move: Move) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=move.replica.key.partition,
        partition_size=move.size_bytes,
        offset_lag=move.offset_lag,
        is_future_key=True,
    )


def _partition(replica: Replica) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=replica.key.partition,
        partition_size=replica.log.size_bytes,
        offset_lag=max(0, replica.state.high_watermark - replica.log.log_end_offset),
    )
