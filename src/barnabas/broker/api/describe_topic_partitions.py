"""DescribeTopicPartitions: topics and their partitions a page at a time, in order of names (KIP-966).

An answer holds at most max.request.partition.size.limit partitions; its cursor says where the next page begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorized import NOT_ASKED, operations
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import topic_name_problem
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.model.cluster import Topic


def handle(call: Call) -> DescribeTopicPartitionsResponse:
    """Fill one page, from the cursor on."""
    request: DescribeTopicPartitionsRequest = call.request
    node, cursor = call.node, request.cursor
    names = _names(call)
    room = node.config.get_int("max.request.partition.size.limit")
    room = max(1, min(room, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if not call.allows(
            Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=not request.topics
        ):
            if request.topics:
                response.topics.append(_denied(name))
            continue
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = node.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(call, name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), start + room)
        response.topics.append(_describe(call, topic, range(start, end)))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        room -= max(0, end - start)
    return response


def refuse(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, _message: str | None
) -> DescribeTopicPartitionsResponse:
    """Refuse every topic named."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
            for topic in request.topics
        ]
    )


def _names(call: Call) -> list[str]:
    """List the topics asked for, or all, from the cursor's on."""
    node, request = call.node, call.request
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    asked = {topic.name for topic in request.topics} or node.topics.by_name
    names = sorted(name for name in asked if name >= first)
    if cursor is not None and request.topics and first not in asked:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {first}",
        )
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The cursor's partition must not be negative, but it is {cursor.partition_index}.",
        )
    return names


def _describe(call: Call, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(call.node, topic, index) for index in indexes],
        topic_authorized_operations=operations(call, ResourceType.TOPIC, topic.name),
    )


def _partition(node: Node, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    partition = topic.partitions[index]
    error_code, leader, offline = node.cluster.leadership(topic, index)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline,
    )


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=NOT_ASKED
    )


def _unknown(call: Call, name: str) -> DescribeTopicPartitionsResponseTopic:
    invalid = topic_name_problem(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_authorized_operations=operations(call, ResourceType.TOPIC, name),
    )
