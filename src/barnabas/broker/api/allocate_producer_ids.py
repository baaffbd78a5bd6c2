"""AllocateProducerIds: a broker asks the controller for a block of producer ids, as Apache Kafka's brokers do (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import znodes
from barnabas.broker.producer_ids import claim_block
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[AllocateProducerIdsResponse]:
    """Give it the next block, which nobody else gets."""
    request: AllocateProducerIdsRequest = call.request
    broker = call.node.members.topics.find_office().live.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    start = yield from claim_block(call.node, request.broker_id)
    return AllocateProducerIdsResponse(
        producer_id_start=start, producer_id_len=znodes.PRODUCER_ID_BLOCK
    )


def refuse(
    _request: AllocateProducerIdsRequest, code: ErrorCode, _message: str | None
) -> AllocateProducerIdsResponse:
    """Refuse the request."""
    return AllocateProducerIdsResponse(error_code=code)
