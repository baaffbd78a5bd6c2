"""InitProducerId: an identity for producers; with a transactional id, the next epoch of the one that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.transactions import fenced_code
from barnabas.core.txn.requests import InitRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.requests import ProducerReply

_FENCED_SINCE: Final = 4


def handle(call: Call) -> Task[InitProducerIdResponse]:
    """Give out a fresh id with epoch 0, as Kafka does for every producer without a transactional id, or ask the coordinator."""
    request: InitProducerIdRequest = call.request
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer id {request.producer_id} and epoch {request.producer_epoch}: give both or none",
        )
    if request.transactional_id is None:
        producer_id = yield from call.node.producer_ids.take()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an empty transactional.id is none")
    return (yield from _init(call, request.transactional_id))


def _init(call: Call, transactional_id: str) -> Task[InitProducerIdResponse]:
    asked: InitProducerIdRequest = call.request
    request = InitRequest(
        transactional_id, asked.transaction_timeout_ms, asked.producer_id, asked.producer_epoch
    )
    transactions = call.node.transactions
    transactions.find(transactional_id)  # before an id is taken for what is not served here
    yield from call.node.producer_ids.get_ready()
    reply: ProducerReply = yield transactions.asking(
        transactions.find(transactional_id),
        lambda shard, ticket, _now_ms, wall_ms: shard.init_producer_id(ticket, request, wall_ms),
    )
    return InitProducerIdResponse(
        error_code=fenced_code(reply.error_code, call.version, _FENCED_SINCE),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def refuse(
    _request: InitProducerIdRequest, code: ErrorCode, _message: str | None
) -> InitProducerIdResponse:
    """Refuse."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
