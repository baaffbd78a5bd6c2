"""AddOffsetsToTxn: a transaction will commit offsets of a group, so the group's partition is part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.transactions import fenced_code
from barnabas.core.txn.requests import PartitionsRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.core.txn.requests import PartitionsReply

_FENCED_SINCE: Final = 2


def handle(call: Call) -> Any:  # noqa: ANN401
    """Add the partition that keeps the group."""
    asked: AddOffsetsToTxnRequest = call.request
    if not asked.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an empty transactional.id is none")
    place = TopicPartition(OFFSETS_TOPIC, call.node.coordinators.partition_for(asked.group_id))
    request = PartitionsRequest(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, (place,)
    )
    return call.node.transactions.ask(
        call,
        asked.transactional_id,
        lambda shard, ticket, _now_ms, wall_ms: shard.add_partitions(ticket, request, wall_ms),
        _respond,
    )


def _respond(call: Call, reply: PartitionsReply) -> AddOffsetsToTxnResponse:
    (code,) = reply.codes
    return AddOffsetsToTxnResponse(error_code=fenced_code(code, call.version, _FENCED_SINCE))


def refuse(
    _request: AddOffsetsToTxnRequest, code: ErrorCode, _message: str | None
) -> AddOffsetsToTxnResponse:
    """Refuse."""
    return AddOffsetsToTxnResponse(error_code=code)
