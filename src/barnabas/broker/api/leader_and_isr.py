"""LeaderAndIsr: the controller says which partitions this broker leads or follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[LeaderAndIsrResponse]:
    """Carry the order out."""
    request: LeaderAndIsrRequest = call.request
    codes = yield from call.node.members.orders.lead_and_follow(request, call.correlation_id)
    if isinstance(codes, ErrorCode):
        return LeaderAndIsrResponse(error_code=codes)
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=codes[TopicPartition(topic.topic_name, state.partition_index)],
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
    )


def refuse(
    _request: LeaderAndIsrRequest, code: ErrorCode, _message: str | None
) -> LeaderAndIsrResponse:
    """Refuse the order."""
    return LeaderAndIsrResponse(error_code=code)
