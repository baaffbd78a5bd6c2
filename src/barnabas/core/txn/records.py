"""What a transaction coordinator writes down: one kind of record and its tombstone.

Job: the facts, in the machine's own terms. Must not know: bytes and versions (`broker.transaction_records` does).

Invariants: a record is never changed once it is made; the last one of a transactional id is all that is known of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from barnabas.core.txn.states import TransactionState
    from barnabas.model.ids import TopicPartition

NO_START = -1


@dataclass(frozen=True, slots=True)
class TransactionSaved:
    """All about a transactional id at one moment."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    #: What the transaction writes to; while markers are written, where they go.
    partitions: tuple[TopicPartition, ...]
    start_ms: int  # wall clock; when its first partition was added
    last_update_ms: int  # wall clock
    #: The producer id before this change; another one than now only after the epochs of that were used up.
    previous_producer_id: int = NO_PRODUCER_ID
    #: The producer id that its client already has, while markers still go out under the old one.
    next_producer_id: int = NO_PRODUCER_ID
    #: 2: the epoch rises with every end (KIP-890); 0: it does not.
    transaction_version: int = 0
    #: The epoch that a repeated InitProducerId may name (KIP-360). The log's format has no place for it: -1 after a load.
    last_producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionRemoved:
    """The transactional id is forgotten."""

    transactional_id: str


Record = TransactionSaved | TransactionRemoved
