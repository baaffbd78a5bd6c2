"""The states of a transaction, numbered and spelled as Kafka does, and the moves between them.

| from                                  | to             | by                                                        |
|---------------------------------------|----------------|-----------------------------------------------------------|
| (none), Empty, Complete…              | Empty          | InitProducerId                                            |
| Empty, Complete…, Ongoing             | Ongoing        | AddPartitionsToTxn, AddOffsetsToTxn, Produce, TxnOffsetCommit |
| Ongoing                               | PrepareCommit  | EndTxn                                                    |
| Ongoing                               | PrepareAbort   | EndTxn, its time is over, InitProducerId of another producer |
| Empty, Complete…                      | PrepareAbort   | EndTxn of transaction version 2: its client may not know that nothing was begun |
| PrepareCommit, PrepareAbort           | Complete…      | every partition has its marker                            |
| Empty, Complete…                      | (none)         | it was not used for long                                  |

Dead and PrepareEpochFence are states on the way to another in Kafka, which decides before it writes. Here they never occur;
their names are known so that a filter may name them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The number that the log keeps."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Give the name that clients see."""
        return _TITLES[self]


_TITLES: Final = {state: state.name.title().replace("_", "") for state in TransactionState}
BY_TITLE: Final = {title: state for state, title in _TITLES.items()}

#: An end was decided, and its markers are being written.
PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
#: Nothing is open: a transaction may begin, and the id may be forgotten.
AT_REST: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)

MOVES: Final[dict[TransactionState, tuple[TransactionState, ...]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: (TransactionState.ONGOING, *AT_REST),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    TransactionState.PREPARE_ABORT: (TransactionState.ONGOING, *AT_REST),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
}
