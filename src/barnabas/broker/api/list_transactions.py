"""ListTransactions: the transactional ids that this broker coordinates, by state, producer, age or name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.pieces import PIECE, Pieces
from barnabas.core.group.consumer.requests import RefusedError
from barnabas.core.group.consumer.subscription import compile_pattern
from barnabas.core.txn.requests import ListRequest
from barnabas.core.txn.states import BY_TITLE
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.requests import ListedTransaction
    from barnabas.core.txn.result import Result, Ticket
    from barnabas.core.txn.shard import TransactionShard


def handle(call: Call) -> Task[Response]:
    """Ask every shard, for some of its ids at a time."""
    asked: ListTransactionsRequest = call.request
    matches = _matcher(asked.transactional_id_pattern)
    transactions = call.node.transactions
    pieces = Pieces(call)
    listed: list[ListedTransaction] = []
    for hosted in transactions.all_loaded():
        ids = list(hosted.shard.transactions)
        # Also where there are none now: that they went may not be synced yet.
        for first in range(0, max(len(ids), 1), PIECE):
            if not hosted.is_loaded:
                break  # gone in a pause, and its transactions with it
            some = ids[first : first + PIECE]
            request = ListRequest(
                some, asked.producer_id_filters, asked.state_filters, asked.duration_filter, matches
            )
            found = yield transactions.asking(hosted, partial(_list, request))
            listed += [one for one in found if _may_see(call, one.transactional_id)]
            pieces.count(len(some))
            if pieces.is_full:
                yield pieces.pause
    unknown = [name for name in asked.state_filters if name not in BY_TITLE]
    return (yield from pieces.respond(lambda: _response(listed, unknown)))


def _may_see(call: Call, transactional_id: str) -> bool:
    kind = ResourceType.TRANSACTIONAL_ID
    return call.allows(Operation.DESCRIBE, kind, transactional_id, quietly=True)


def _list(
    request: ListRequest, shard: TransactionShard, ticket: Ticket, _now_ms: int, wall_ms: int
) -> Result:
    return shard.list_transactions(ticket, request, wall_ms)


def _response(listed: list[ListedTransaction], unknown: list[str]) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in listed
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
