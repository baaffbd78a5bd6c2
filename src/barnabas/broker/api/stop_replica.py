"""StopReplica: the controller says which partitions this broker gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[StopReplicaResponse]:
    """Carry the order out."""
    codes = yield from call.node.members.orders.stop(call.request, call.correlation_id)
    if isinstance(codes, ErrorCode):
        return StopReplicaResponse(error_code=codes)
    return StopReplicaResponse(
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=key.topic, partition_index=key.partition, error_code=code
            )
            for key, code in codes.items()
        ]
    )


def refuse(
    _request: StopReplicaRequest, code: ErrorCode, _message: str | None
) -> StopReplicaResponse:
    """Refuse the order."""
    return StopReplicaResponse(error_code=code)
