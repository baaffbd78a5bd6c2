"""What each idempotent producer wrote last on one partition, and so what it may write next.

Job: tell a repeated batch from a new one and from one that leaves a gap (KIP-98).
Must not know: logs, files, requests; batches without a producer id never come here.
Invariants: an entry holds at most the last five batches of its current epoch, oldest first, and the epoch
of an entry never falls. Only `update` and `load` change what a producer may write next; `check` changes nothing.

A batch of a known producer is, in this order:

| epoch       | sequences                                   | answer                       |
|-------------|---------------------------------------------|------------------------------|
| the same    | first and last equal those of a kept batch  | Duplicate                    |
| the same    | first follows the last one written          | None                         |
| the same    | anything else, also older than what is kept | OUT_OF_ORDER_SEQUENCE_NUMBER |
| older       | any                                         | INVALID_PRODUCER_EPOCH       |
| newer       | first is 0                                  | None                         |
| newer       | first is not 0                              | OUT_OF_ORDER_SEQUENCE_NUMBER |

An unknown producer may start with any sequence, because its entry may have expired. The number of entries is
bounded by time alone, as in Kafka: `remove_expired` with producer.id.expiration.ms.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_PRODUCER_EPOCH
from barnabas.wire.batch import CONTROL, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.wire.batch import BatchHeader

#: A client keeps at most five requests in flight, so a retry is never older than this many batches.
BATCHES_KEPT: Final = 5
#: Sequences are 31 bits wide: 2**31 - 1 is followed by 0.
SEQUENCE_MASK: Final = 0x7FFFFFFF
NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    """One batch that was written: enough to recognise it and to answer its repetition."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class Duplicate(NamedTuple):
    """Where the batch was written the first time; its producer gets this as the answer."""

    base_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """The state of one producer. Coordinator epoch and transaction start come from replayed transactions."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "next_sequence",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        """Start without a batch: then the next sequence of this epoch is 0."""
        self.producer_id = producer_id
        self.producer_epoch: int = producer_epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)
        self.next_sequence = 0
        self.last_timestamp: int = NO_TIMESTAMP
        self.coordinator_epoch: int = NO_COORDINATOR_EPOCH
        self.current_txn_first_offset: int | None = None

    def add(self, batch: BatchMetadata) -> None:
        """Note a batch of the current epoch as the last one."""
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = batch.timestamp

    def move_to_epoch(self, producer_epoch: int) -> None:
        """Forget the batches of the epoch before: their sequences mean nothing in this one."""
        self.batches.clear()
        self.next_sequence = 0
        self.producer_epoch = producer_epoch

    def find(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Find the kept batch with exactly these sequences."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class ProducerStates:
    """All producers of one partition, in the order in which they were first seen."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Start without producers."""
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        """Count the producers."""
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        """Walk over the entries: what a snapshot is made of."""
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer, if it is known."""
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | ErrorCode | None:
        """Tell whether a client's batch may be appended (None), was appended before, or is refused.

        The header is as the client sent it; its base sequence is not negative.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        epoch = header.producer_epoch
        first_sequence = header.base_sequence
        if epoch == entry.producer_epoch:
            # First the common case. It cannot hide a repetition: no five batches hold 2**31 records.
            if first_sequence == entry.next_sequence:
                return None
            last_sequence = (first_sequence + header.last_offset_delta) & SEQUENCE_MASK
            kept = entry.find(first_sequence, last_sequence)
            if kept is None:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return Duplicate(kept.first_offset, kept.last_offset, kept.timestamp)
        if epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if first_sequence else None

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Note a batch that is in the log from `base_offset` on: just appended, or replayed at the start.

        A replayed batch is taken as it is: it was checked when it was appended.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            assert header.producer_id >= 0
            entry = ProducerEntry(header.producer_id)
            self._entries[header.producer_id] = entry
        if header.producer_epoch != entry.producer_epoch:
            entry.move_to_epoch(header.producer_epoch)
        if header.attributes & (TRANSACTIONAL | CONTROL):
            _note_transaction(entry, header, base_offset)
            if header.attributes & CONTROL:
                return
        delta = header.last_offset_delta
        last_sequence = header.base_sequence
        if last_sequence != NO_SEQUENCE:
            last_sequence = (last_sequence + delta) & SEQUENCE_MASK
        entry.add(BatchMetadata(last_sequence, base_offset + delta, delta, header.max_timestamp))

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Take over entries from a snapshot in place of all there are."""
        self._entries = {entry.producer_id: entry for entry in entries}

    def clear(self) -> None:
        """Forget all producers: before a replay, or when the log is cut to nothing."""
        self._entries.clear()

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers whose last batch is this old and that have no open transaction; count them.

        The age is that of the batch's own timestamp, as in Kafka.
        """
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)


def _note_transaction(entry: ProducerEntry, header: BatchHeader, base_offset: int) -> None:
    """Keep where the open transaction starts, so that a snapshot says it; a marker ends it."""
    if header.attributes & CONTROL:
        entry.current_txn_first_offset = None
        entry.last_timestamp = header.max_timestamp
    elif entry.current_txn_first_offset is None:
        entry.current_txn_first_offset = base_offset
