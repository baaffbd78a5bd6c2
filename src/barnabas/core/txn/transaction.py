"""How one record of a transactional id follows from the one before.

Job: what each step makes of producer id, epochs, partitions and timestamps. Must not know: whether the step is allowed
(`shard` decides), replies, other transactional ids.

Invariants: every record follows from its predecessor by a move of `states.MOVES`; the epoch rises by at most one, or is 0 under a
new producer id; the greatest epoch is never given to a client, so that there is always one left to fence it with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.txn.records import NO_START, TransactionSaved
from barnabas.core.txn.states import MOVES, PREPARED, TransactionState
from barnabas.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from barnabas.model.ids import TopicPartition

EPOCH_MAX: Final = 0x7FFF
#: From here on each end of a transaction raises the epoch (KIP-890).
EPOCH_RISES_FROM: Final = 2


def is_exhausted(producer_epoch: int) -> bool:
    """Tell whether no further epoch of the producer id may be given out."""
    return producer_epoch >= EPOCH_MAX - 1


def first(
    transactional_id: str, producer_id: int, timeout_ms: int, wall_ms: int
) -> TransactionSaved:
    """Begin with a transactional id that nobody has used."""
    return TransactionSaved(
        transactional_id,
        producer_id,
        0,
        timeout_ms,
        TransactionState.EMPTY,
        (),
        NO_START,
        wall_ms,
        previous_producer_id=producer_id,
    )


def with_next_epoch(
    now: TransactionSaved, timeout_ms: int, wall_ms: int, *, remember: bool
) -> TransactionSaved:
    """Let a producer begin anew; `remember` what it was if it may ask again without having heard the answer."""
    assert not is_exhausted(now.producer_epoch)
    return _follow(
        now,
        TransactionState.EMPTY,
        producer_epoch=now.producer_epoch + 1,
        last_producer_epoch=now.producer_epoch if remember else NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        partitions=(),
        start_ms=NO_START,
        last_update_ms=wall_ms,
    )


def with_same_epoch(now: TransactionSaved, timeout_ms: int, wall_ms: int) -> TransactionSaved:
    """Answer a producer that asks a second time: only its time-out may be another."""
    return _follow(
        now,
        TransactionState.EMPTY,
        timeout_ms=timeout_ms,
        partitions=(),
        start_ms=NO_START,
        last_update_ms=wall_ms,
    )


def with_new_producer_id(
    now: TransactionSaved, producer_id: int, timeout_ms: int, wall_ms: int, *, remember: bool
) -> TransactionSaved:
    """Go on under another producer id, as the epochs are used up."""
    return _follow(
        now,
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=now.producer_epoch if remember else NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        partitions=(),
        start_ms=NO_START,
        last_update_ms=wall_ms,
    )


def with_partitions(
    now: TransactionSaved, added: tuple[TopicPartition, ...], version: int, wall_ms: int
) -> TransactionSaved:
    """Add partitions; the first ones begin the transaction."""
    begins = now.state is not TransactionState.ONGOING
    return _follow(
        now,
        TransactionState.ONGOING,
        partitions=tuple(dict.fromkeys((*now.partitions, *added))),
        start_ms=wall_ms if begins else now.start_ms,
        last_update_ms=wall_ms,
        transaction_version=version,
    )


def prepared(
    now: TransactionSaved,
    wall_ms: int,
    *,
    is_commit: bool,
    version: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> TransactionSaved:
    """Decide the end. In version 2 the markers carry the next epoch, so that nothing late of this one is taken."""
    rises = version >= EPOCH_RISES_FROM
    begun = now.state is TransactionState.ONGOING
    return _follow(
        now,
        TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        producer_epoch=min(now.producer_epoch + 1, EPOCH_MAX) if rises else now.producer_epoch,
        last_producer_epoch=now.producer_epoch if rises else now.last_producer_epoch,
        start_ms=now.start_ms if begun else wall_ms,
        last_update_ms=wall_ms,
        next_producer_id=next_producer_id,
        transaction_version=version,
    )


def completed(now: TransactionSaved, wall_ms: int) -> TransactionSaved:
    """End it: every marker is written. The producer id that its client already has takes over, if there is one."""
    assert now.state in PREPARED
    is_commit = now.state is TransactionState.PREPARE_COMMIT
    changed: dict[str, Any] = {}
    if now.next_producer_id != NO_PRODUCER_ID:
        changed = {"producer_id": now.next_producer_id, "producer_epoch": 0}
    return _follow(
        now,
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=(),
        next_producer_id=NO_PRODUCER_ID,
        last_update_ms=wall_ms,
        **changed,
    )


def _follow(now: TransactionSaved, state: TransactionState, **changed: Any) -> TransactionSaved:  # noqa: ANN401
    assert now.state in MOVES[state], f"{now.transactional_id}: no way from {now.state} to {state}"
    return replace(now, state=state, previous_producer_id=now.producer_id, **changed)
