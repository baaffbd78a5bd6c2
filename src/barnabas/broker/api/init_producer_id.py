"""InitProducerId: an identity for idempotent producers. Transactional ones come with transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[InitProducerIdResponse]:
    """Give out a fresh id with epoch 0, as Kafka does for every producer without a transactional id."""
    request: InitProducerIdRequest = call.request
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an empty transactional.id is none")
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served yet"
        )
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer id {request.producer_id} and epoch {request.producer_epoch}: give both or none",
        )
    producer_id = yield from call.node.producer_ids.take()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def refuse(
    _request: InitProducerIdRequest, code: ErrorCode, _message: str | None
) -> InitProducerIdResponse:
    """Refuse."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
