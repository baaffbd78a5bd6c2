"""ListTransactions: the transactional ids that this broker coordinates, by state, producer, age or name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.consumer.requests import RefusedError
from barnabas.core.group.consumer.subscription import compile_pattern
from barnabas.core.txn.requests import ListRequest
from barnabas.core.txn.states import BY_TITLE
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.requests import ListedTransaction


def handle(call: Call) -> Task[ListTransactionsResponse]:
    """Ask every shard."""
    asked: ListTransactionsRequest = call.request
    request = ListRequest(
        asked.producer_id_filters,
        asked.state_filters,
        asked.duration_filter,
        _matcher(asked.transactional_id_pattern),
    )
    transactions = call.node.transactions
    found: list[ListedTransaction] = []
    for hosted in transactions.all_loaded():
        found += yield transactions.asking(
            hosted,
            lambda shard, ticket, _now_ms, wall_ms: shard.list_transactions(
                ticket, request, wall_ms
            ),
        )
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in asked.state_filters if name not in BY_TITLE],
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in found
        ],
    )


def refuse(
    _request: ListTransactionsRequest, code: ErrorCode, _message: str | None
) -> ListTransactionsResponse:
    """Refuse."""
    return ListTransactionsResponse(error_code=code)


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    if not pattern:
        return None
    try:
        matches = compile_pattern(pattern).fullmatch
    except RefusedError as problem:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, problem.message) from None
    return lambda transactional_id: matches(transactional_id) is not None
