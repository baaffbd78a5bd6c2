"""DescribeTransactions: what is known of transactional ids that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.pieces import Pieces
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.requests import DescribedTransaction
    from barnabas.model.ids import TopicPartition


def handle(call: Call) -> Task[Response]:
    """Describe each id named."""
    request: DescribeTransactionsRequest = call.request
    pieces = Pieces(call)
    states: list[TransactionState] = []
    for transactional_id in request.transactional_ids:
        state = yield from _describe(call, transactional_id)
        states.append(state)
        pieces.count(1 + sum(len(topic.partitions) for topic in state.topics))
        if pieces.is_full:
            yield pieces.pause
    return (
        yield from pieces.respond(lambda: DescribeTransactionsResponse(transaction_states=states))
    )


def refuse(
    request: DescribeTransactionsRequest, code: ErrorCode, _message: str | None
) -> DescribeTransactionsResponse:
    """Refuse every id."""
    states = [_failed(one, code) for one in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(call: Call, transactional_id: str) -> Task[TransactionState]:
    if not transactional_id:
        return _failed(transactional_id, ErrorCode.INVALID_REQUEST)
    transactions = call.node.transactions
    try:
        hosted = transactions.find(transactional_id)
        found: DescribedTransaction = yield transactions.asking(
            hosted,
            lambda shard, ticket, _now_ms, _wall_ms: shard.describe(ticket, transactional_id),
        )
    except KafkaError as problem:
        return _failed(transactional_id, problem.code)
    return TransactionState(
        error_code=found.error_code,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=_by_topic(one for one in found.partitions if _may_see(call, one.topic)),
    )


def _may_see(call: Call, topic: str) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicData]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()]


def _failed(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(error_code=code, transactional_id=transactional_id)
