"""EndTxn: commit or abort. Since version 5 each end raises the producer's epoch, and the answer tells the new one (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.transactions import fenced_code
from barnabas.core.txn.requests import EndRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.core.txn.requests import ProducerReply

_FENCED_SINCE: Final = 2
_EPOCH_RISES_SINCE: Final = 5


def handle(call: Call) -> Any:  # noqa: ANN401
    """Have the coordinator end the transaction."""
    asked: EndTxnRequest = call.request
    if not asked.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an empty transactional.id is none")
    request = EndRequest(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        asked.committed,
        transaction_version=2 if call.version >= _EPOCH_RISES_SINCE else 0,
    )
    return call.node.transactions.ask(
        call,
        asked.transactional_id,
        lambda shard, ticket, _now_ms, wall_ms: shard.end(ticket, request, wall_ms),
        _respond,
    )


def _respond(call: Call, reply: ProducerReply) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=fenced_code(reply.error_code, call.version, _FENCED_SINCE),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


def refuse(_request: EndTxnRequest, code: ErrorCode, _message: str | None) -> EndTxnResponse:
    """Refuse."""
    return EndTxnResponse(error_code=code)
