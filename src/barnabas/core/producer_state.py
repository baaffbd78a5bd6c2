"""What each idempotent producer wrote last on one partition, and so what it may write next.

Job: tell a repeated batch from a new one and from one that leaves a gap (KIP-98), and whose transactions are open.
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

A transaction may begin on this partition only after its coordinator has said that it is under way (KIP-890): else a batch
that comes late, after the marker, would begin one that nobody ends. `begin_verification` before the coordinator is asked
gives a guard, `check` wants to see it again, and a marker in between makes it worthless.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.open_transactions import CompletedTransaction, OpenTransactions
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_PRODUCER_EPOCH
from barnabas.wire.batch import CONTROL, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker

#: A client keeps at most five requests in flight, so a retry is never older than this many batches.
BATCHES_KEPT: Final = 5
#: Sequences are 31 bits wide: 2**31 - 1 is followed by 0.
SEQUENCE_MASK: Final = 0x7FFFFFFF
NO_COORDINATOR_EPOCH: Final = -1
#: From this transaction version on every transaction has an epoch of its own, so its marker is above those before.
EPOCH_PER_TRANSACTION: Final = 2
_EPOCH_MAX: Final = 32767
#: How much longer than the longest allowed a transaction may be open before it is called late: its end takes a while.
_LATE_AFTER_MS: Final = 5 * 60 * 1000


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


class Verification:
    """A producer whose transaction is being asked about. Holding it is the guard: see the module."""

    __slots__ = ("begun_ms", "bumps_epochs", "epoch", "lowest_sequence")

    def __init__(self, header: BatchHeader, begun_ms: int, *, bumps_epochs: bool) -> None:
        """Begin with a batch; `bumps_epochs` if its producer begins every transaction with a new epoch."""
        self.begun_ms = begun_ms
        self.bumps_epochs = bumps_epochs
        self.epoch = header.producer_epoch
        self.lowest_sequence = header.base_sequence

    def add(self, header: BatchHeader) -> None:
        """Note one more batch that waits: the one with the lowest sequence must be written first."""
        if header.producer_epoch > self.epoch:
            self.epoch, self.lowest_sequence = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, header.base_sequence)


class ProducerStates:
    """All producers of one partition, in the order in which they were first seen."""

    __slots__ = ("_entries", "_verifying", "transactions")

    def __init__(self) -> None:
        """Start without producers."""
        self._entries: dict[int, ProducerEntry] = {}
        self._verifying: dict[int, Verification] = {}
        self.transactions = OpenTransactions()

    def __len__(self) -> int:
        """Count the producers."""
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        """Walk over the entries: what a snapshot is made of."""
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer, if it is known."""
        return self._entries.get(producer_id)

    def check(
        self, header: BatchHeader, guard: Verification | None = None
    ) -> Duplicate | ErrorCode | None:
        """Tell whether a client's batch may be appended (None), was appended before, or is refused.

        The header is as the client sent it; its base sequence is not negative. `guard` is what `begin_verification`
        gave, where it had to be asked.
        """
        if header.attributes & TRANSACTIONAL:
            return self._check_transactional(header, guard)
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        answer = self._check_sequence(entry, header)
        if answer is None and entry.current_txn_first_offset is not None:
            return ErrorCode.INVALID_TXN_STATE  # a record outside its producer's open transaction
        return answer

    def _check_transactional(
        self, header: BatchHeader, guard: Verification | None
    ) -> Duplicate | ErrorCode | None:
        entry = self._entries.get(header.producer_id)
        answer = None if entry is None else self._check_sequence(entry, header)
        if isinstance(answer, Duplicate) or answer is ErrorCode.INVALID_PRODUCER_EPOCH:
            return answer
        verifying = self._verifying.get(header.producer_id)
        if self.needs_verification(header) and (guard is None or guard is not verifying):
            return ErrorCode.INVALID_TXN_STATE
        if verifying is not None:
            is_first = entry is None or not entry.batches
            if verifying.bumps_epochs and is_first and header.base_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if header.base_sequence > verifying.lowest_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return answer

    def _check_sequence(
        self, entry: ProducerEntry, header: BatchHeader
    ) -> Duplicate | ErrorCode | None:
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

    # Transactions

    def needs_verification(self, header: BatchHeader) -> bool:
        """Tell whether a transactional batch would begin its transaction here."""
        entry = self._entries.get(header.producer_id)
        return (
            entry is None
            or entry.current_txn_first_offset is None
            or entry.producer_epoch != header.producer_epoch
        )

    def is_fenced(self, header: BatchHeader) -> bool:
        """Tell whether the producer has been seen with a higher epoch."""
        entry = self._entries.get(header.producer_id)
        return entry is not None and header.producer_epoch < entry.producer_epoch

    def begin_verification(
        self, header: BatchHeader, now_ms: int, *, bumps_epochs: bool
    ) -> Verification:
        """Note that the coordinator is being asked about this batch's transaction; return the guard."""
        verifying = self._verifying.get(header.producer_id)
        if verifying is None:
            verifying = Verification(header, now_ms, bumps_epochs=bumps_epochs)
            self._verifying[header.producer_id] = verifying
        verifying.add(header)
        return verifying

    def check_coordinated(self, header: BatchHeader, guard: Verification | None) -> ErrorCode:
        """Tell whether a group coordinator may append its batch for a producer's transaction: it has no sequences."""
        entry = self._entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_guarded = guard is not None and guard is self._verifying.get(header.producer_id)
        if self.needs_verification(header) and not is_guarded:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> ErrorCode:
        """Tell whether a marker may be appended; a repeated one may (KIP-1228)."""
        if producer_id < 0 or producer_epoch < 0:
            return ErrorCode.INVALID_REQUEST  # nobody's
        entry = self._entries.get(producer_id)
        if entry is None:
            return ErrorCode.NONE
        epoch = entry.producer_epoch
        if producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_repeated = entry.current_txn_first_offset is None or epoch == _EPOCH_MAX
        if (
            transaction_version >= EPOCH_PER_TRANSACTION
            and producer_epoch == epoch
            and not is_repeated
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def completion(
        self, producer_id: int, marker_offset: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """Tell which transaction a marker at this offset ends; None if the producer has none open here."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.current_txn_first_offset is None:
            return None
        return CompletedTransaction(
            producer_id, entry.current_txn_first_offset, marker_offset, aborted
        )

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Tell whether the oldest open transaction was last written to so long ago that nobody seems to end it.

        The age is that of its last batch's own timestamp, as in Kafka.
        """
        producer_id = self.transactions.oldest_producer_id()
        if producer_id is None:
            return False
        last_timestamp = self._entries[producer_id].last_timestamp
        return last_timestamp > 0 and now_ms - last_timestamp > max_timeout_ms + _LATE_AFTER_MS

    def update(
        self, header: BatchHeader, base_offset: int, marker: EndMarker | None = None
    ) -> None:
        """Note a batch that is in the log from `base_offset` on: just appended, or replayed at the start.

        A replayed batch is taken as it is: it was checked when it was appended. `marker` is what stands in a control
        batch; one without (its transaction was compacted away) changes nothing.
        """
        if header.attributes & CONTROL:
            if marker is not None:
                self._end_transaction(header, base_offset, marker)
            return
        entry = self._entries.get(header.producer_id)
        if entry is None:
            assert header.producer_id >= 0
            entry = ProducerEntry(header.producer_id)
            self._entries[header.producer_id] = entry
        if header.producer_epoch != entry.producer_epoch:
            entry.move_to_epoch(header.producer_epoch)
        if header.attributes & TRANSACTIONAL:
            self._verifying.pop(header.producer_id, None)
            if entry.current_txn_first_offset is None:
                entry.current_txn_first_offset = base_offset
                self.transactions.begin(base_offset, header.producer_id)
        delta = header.last_offset_delta
        last_sequence = header.base_sequence
        if last_sequence != NO_SEQUENCE:
            last_sequence = (last_sequence + delta) & SEQUENCE_MASK
        entry.add(BatchMetadata(last_sequence, base_offset + delta, delta, header.max_timestamp))

    def _end_transaction(self, header: BatchHeader, base_offset: int, marker: EndMarker) -> None:
        producer_id = header.producer_id
        completed = self.completion(producer_id, base_offset, aborted=not marker.commit)
        if completed is not None:
            self.transactions.complete(completed)
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.current_txn_first_offset = None
        entry.last_timestamp = header.max_timestamp
        self._end_verification(header)

    def _end_verification(self, header: BatchHeader) -> None:
        """Make a guard worthless, unless it is for the transaction after the one that the marker ended."""
        verifying = self._verifying.get(header.producer_id)
        if verifying is not None and not (
            verifying.bumps_epochs and verifying.epoch == header.producer_epoch
        ):
            del self._verifying[header.producer_id]

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Take over entries from a snapshot in place of all there are."""
        self._entries = {entry.producer_id: entry for entry in entries}
        self.transactions.clear()
        starts = (
            (entry.current_txn_first_offset, entry.producer_id)
            for entry in self
            if entry.current_txn_first_offset is not None
        )
        for first_offset, producer_id in sorted(starts):
            self.transactions.begin(first_offset, producer_id)

    def clear(self) -> None:
        """Forget all producers: before a replay, or when the log is cut to nothing."""
        self._entries.clear()
        self.transactions.clear()

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
        asked = [
            producer_id
            for producer_id, verifying in self._verifying.items()
            if now_ms - verifying.begun_ms >= expiration_ms
        ]
        for producer_id in asked:
            del self._verifying[producer_id]
        return len(expired)
