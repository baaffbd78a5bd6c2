"""AlterReplicaLogDirs: move partitions to another log directory, or say where they are to be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.broker.replicas import Replica
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.storage.directory import NAME_LENGTH_MAX, future_name
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.node import Node


def handle(call: Call) -> AlterReplicaLogDirsResponse:
    """Begin to move what can be moved. The answer does not wait for it: DescribeLogDirs shows how far it is."""

    def alter(key: TopicPartition, path: str) -> ErrorCode:
        code = _alter(call.node, key, path)
        if not code:
            audit.changed(call, "move", "Partition", str(key), directory=path)
        return code

    return _answer(call.request, alter)


def refuse(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, _message: str | None
) -> AlterReplicaLogDirsResponse:
    """Refuse every partition."""
    return _answer(request, lambda _key, _path: code)


def _answer(
    request: AlterReplicaLogDirsRequest, decide: Callable[[TopicPartition, str], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results = by_topic.setdefault(topic.name, [])
            for index in topic.partitions:
                code = decide(TopicPartition(topic.name, index), directory.path)
                results.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ]
    )


def _alter(node: Node, key: TopicPartition, path: str) -> ErrorCode:
    if len(future_name(key, node.world.rng)) > NAME_LENGTH_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    directory = next((known for known in node.directories if known.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not directory.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    replica = node.hosted(*key)
    if isinstance(replica, Replica):
        node.moves.request(replica, directory)
        return ErrorCode.NONE
    if replica == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # As in Kafka: the wish counts, and the answer says that nothing is there to be moved.
        node.placement.wish(key, directory)
    return replica
