"""ListPartitionReassignments: which replicas are on the move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.model.errors import ErrorCode


def handle(call: Call) -> ListPartitionReassignmentsResponse:
    """Answer for the partitions named, or for all."""
    request: ListPartitionReassignmentsRequest = call.request
    moving = call.node.members.topics.find_office().machine.view.reassignments()
    if request.topics is not None:
        wanted = [
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        ]
        moving = {key: moving[key] for key in wanted if key in moving}
    topics: dict[str, OngoingTopicReassignment] = {}
    for key, assignment in moving.items():
        topic = topics.setdefault(key.topic, OngoingTopicReassignment(name=key.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=key.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))


def refuse(
    _request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    """Refuse the request."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
