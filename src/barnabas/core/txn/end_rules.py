"""Whether an EndTxn ends a transaction, is the repetition of one that did, or is refused.

Job: the two tables below, one per transaction version. Must not know: what an end leads to.

| version 0 (strict: the epoch must be the current one) | commit            | abort             |
|-------------------------------------------------------|-------------------|-------------------|
| Ongoing                                               | ends it           | ends it           |
| Prepare…                                              | CONCURRENT_TRANSACTIONS | the same    |
| CompleteCommit                                        | NONE (repeated)   | INVALID_TXN_STATE |
| CompleteAbort                                         | INVALID_TXN_STATE | NONE (repeated)   |
| Empty                                                 | INVALID_TXN_STATE | INVALID_TXN_STATE |

In version 2 the epoch tells the repetition of the last EndTxn (one less than the current, or the last of the producer id before)
from one that is new; a late one of a transaction before is fenced (KAFKA-17754). A client may abort what was never
begun, as it cannot know whether its first Produce arrived:

| version 2      | repeated commit   | repeated abort    | new commit        | new abort |
|----------------|-------------------|-------------------|-------------------|-----------|
| Ongoing        | PRODUCER_FENCED   | PRODUCER_FENCED   | ends it           | ends it   |
| Prepare…       | CONCURRENT_TRANSACTIONS, whoever asks | the same | the same   | the same  |
| CompleteCommit | NONE              | INVALID_TXN_STATE | INVALID_TXN_STATE | ends it   |
| CompleteAbort  | INVALID_TXN_STATE | NONE              | INVALID_TXN_STATE | ends it   |
| Empty          | PRODUCER_FENCED   | PRODUCER_FENCED   | INVALID_TXN_STATE | ends it   |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.txn.states import PREPARED, TransactionState
from barnabas.core.txn.transaction import EPOCH_MAX, EPOCH_RISES_FROM
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.txn.records import TransactionSaved
    from barnabas.core.txn.requests import EndRequest

_COMPLETE = {
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.COMPLETE_ABORT: False,
}


def decide_end(now: TransactionSaved, request: EndRequest) -> ErrorCode | None:
    """Give None if the transaction is to be ended as asked; NONE if it was; else why not."""
    if request.transaction_version >= EPOCH_RISES_FROM:
        return _decide_rising(now, request)
    if now.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if now.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if now.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if now.state is TransactionState.ONGOING:
        return None
    was_commit = _COMPLETE.get(now.state)
    return ErrorCode.NONE if was_commit is request.is_commit else ErrorCode.INVALID_TXN_STATE


def _decide_rising(now: TransactionSaved, request: EndRequest) -> ErrorCode | None:
    if now.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    repeats_last = _repeats_last_epoch(now, request)
    if now.producer_id != request.producer_id and not repeats_last:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_current = now.producer_epoch == request.producer_epoch
    if now.state in _COMPLETE:
        repeats = repeats_last or now.producer_epoch == request.producer_epoch + 1
        if repeats:
            was_commit = _COMPLETE[now.state]
            same = was_commit is request.is_commit
            return ErrorCode.NONE if same else ErrorCode.INVALID_TXN_STATE
    if not is_current:
        return ErrorCode.PRODUCER_FENCED
    if now.state is TransactionState.ONGOING or not request.is_commit:
        return None
    return ErrorCode.INVALID_TXN_STATE


def _repeats_last_epoch(now: TransactionSaved, request: EndRequest) -> bool:
    """Tell whether it names the last epoch of the producer id that the current one took over from."""
    return (
        now.producer_epoch == 0
        and request.producer_epoch == EPOCH_MAX - 1
        and request.producer_id == now.previous_producer_id
    )
