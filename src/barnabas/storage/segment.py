"""One segment: a log file with the batches from a base offset on, and its indexes.

Job: find batches by offset and time, keep the indexes in step as batches are added. Must not know other
segments, producers or epochs; when to roll is decided in `log.py`, what is valid after a crash in `recovery.py`.

Invariants: bytes up to `size` are whole batches with rising offsets; an index entry is added before a
batch once more than index.interval.bytes were added since the last one, as in Kafka; `largest` is the
largest timestamp and the last offset of the first batch that carries it.

What was on disk before may be damaged, and no index has a checksum. So an entry is believed only if the batch that it leads to
says the same; the base offset of a batch, which no checksum covers, only if it follows on the one before, where the log has
no gaps. What does not fit is DamagedBatch: the segment is made again, indexes included (`rescue.py`).

Reading is safe from a background thread while the loop appends: it takes `size` once and never looks beyond.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from barnabas.ports import WouldBlock
from barnabas.storage.checked import good_until, joined
from barnabas.storage.epoch_spans import NO_EPOCHS
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, Index
from barnabas.storage.names import (
    LOG,
    OFFSET_INDEX,
    SEGMENT_FILES,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from barnabas.storage.transaction_index import TransactionIndex
from barnabas.wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchError,
    checksum_matches,
    read_header,
    walk_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.ports import Disk, File
    from barnabas.wire.batch import BatchHeader, Record

#: Relative offsets have four bytes in the indexes.
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
#: What this process wrote last to the active segment is taken to be in memory without asking.
WARM_BYTES: Final = 64 * 1024 * 1024
#: Headers are read in pieces of one page: small batches share one, large ones are stepped over.
_HEADERS_BYTES: Final = 4096
_MIN_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
#: Of a batch's header: base offset, length, format version, last offset delta.
_SPAN: Final = Struct(">qi4xb6xi")
#: A batch grows at most to this when its records are looked at. What producers sent has met a far lower bound; this
#: one is for logs that came from elsewhere.
MAX_UNPACKED_BYTES: Final = 1024 * 1024 * 1024


class DamagedBatch(BatchError):
    """Bytes within a segment are no batch, or not one that belongs there; `base_offset` says in which."""

    def __init__(self, message: str, base_offset: int) -> None:
        """Say where."""
        super().__init__(message)
        self.base_offset = base_offset


class Segment:
    """See the module. `size` is set by the log after each write."""

    __slots__ = (
        "aborted",
        "base_offset",
        "checked",
        "created_ms",
        "dropped",
        "epochs",
        "first_timestamp",
        "jitter_ms",
        "largest",
        "log",
        "may_have_gaps",
        "offset_index",
        "since_index",
        "size",
        "time_index",
        "unsure",
        "unsynced",
        "written_from",
    )

    def __init__(
        self,
        base_offset: int,
        files: tuple[File, File, File],
        aborted: TransactionIndex,
        created_ms: int,
        jitter_ms: int,
    ) -> None:
        """Take log, offset index and time index of an empty segment; `recovery` fills in the others."""
        self.base_offset = base_offset
        self.log = files[0]
        self.offset_index = Index(files[1], OFFSET_ENTRY)
        self.time_index = Index(files[2], TIME_ENTRY)
        self.aborted = aborted
        self.size = 0
        #: From here on this process wrote the log file itself.
        self.written_from = 0
        #: What else may be handed out without a look: ranges whose batches were checked, in order.
        self.checked: tuple[tuple[int, int], ...] = ()
        #: Compaction leaves offsets without records.
        self.may_have_gaps = True
        #: The leader epochs of what was on disk before, if anything vouches for them.
        self.epochs = NO_EPOCHS
        #: Bytes added since the batch that got the last index entry, itself included.
        self.since_index = 0
        self.largest: tuple[int, int] = (NO_TIMESTAMP, base_offset)
        #: What the time index on disk says of `largest`; None once the batches have been asked.
        self.unsure: tuple[int, int] | None = None
        #: Largest timestamp of the first batch; None while it has not been read.
        self.first_timestamp: int | None = None
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.dropped = False
        #: The files changed in a way that the recovery point does not tell: indexes written, a bad end cut off.
        self.unsynced = False

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, *, now_ms: int, jitter_ms: int
    ) -> Segment:
        """Make the files of a new segment, in place of any that a failed attempt left behind.

        On an error the caller removes what was made: an empty segment must not stay beside a log that
        goes on in the one before.
        """
        paths = [
            f"{directory}/{file_name(base_offset, suffix)}"
            for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)
        ]
        remove_files(disk, directory, base_offset)
        log, offsets, times = (disk.open(path, create=True) for path in paths)
        aborted = TransactionIndex(disk, f"{directory}/{file_name(base_offset, TXN_INDEX)}")
        return cls(base_offset, (log, offsets, times), aborted, now_ms, jitter_ms)

    def largest_timestamp(self) -> int:
        """Return the largest timestamp of its records; if they have none, when the file was last written, as in Kafka."""
        timestamp = self.largest[0]
        return timestamp if timestamp >= 0 else self.log.modified_ms()

    def in_folder(self, disk: Disk, folder: str) -> Segment:
        """Return this segment as it is in another folder, whose files hold the same bytes."""
        log, offsets, times = (
            disk.open(f"{folder}/{file_name(self.base_offset, suffix)}")
            for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)
        )
        aborted = self.aborted.at_path(f"{folder}/{file_name(self.base_offset, TXN_INDEX)}")
        other = Segment(
            self.base_offset, (log, offsets, times), aborted, self.created_ms, self.jitter_ms
        )
        other.offset_index = self.offset_index.on_file(offsets)
        other.time_index = self.time_index.on_file(times)
        other.size, other.written_from = self.size, self.size
        other.since_index, other.largest = self.since_index, self.largest
        other.first_timestamp = self.first_timestamp
        other.may_have_gaps, other.epochs = self.may_have_gaps, self.epochs
        return other

    # Adding

    def add_index_entries(self, last_offset: int, position: int) -> None:
        """Add entries for the batch at `position`, which has just been written."""
        self.offset_index.add(last_offset - self.base_offset, position)
        self.add_time_entry()
        self.since_index = 0

    def add_time_entry(self) -> None:
        """Note the largest timestamp so far, if it is larger than that of the last entry."""
        timestamp, offset = self.largest
        last = self.time_index.last
        if timestamp > (last[0] if last else NO_TIMESTAMP):
            self.time_index.add(timestamp, offset - self.base_offset)

    @property
    def is_spill_due(self) -> bool:
        """Tell whether an index tail reached its bound."""
        return self.offset_index.spill_due or self.time_index.spill_due

    def spill_when_due(self) -> None:
        """Write index tails that reached their bound; on an error nothing changed."""
        if self.is_spill_due:
            self.spill()

    def spill(self) -> None:
        """Write both index tails."""
        if self.offset_index.has_tail or self.time_index.has_tail:
            self.unsynced = True
            self.offset_index.spill()
            self.time_index.spill()

    def seal(self) -> None:
        """Bring the files into the state of a closed segment: the largest timestamp is in the index."""
        self.add_time_entry()
        self.spill()

    def sync(self) -> None:
        """Bring data and then indexes to the medium. Blocks."""
        self.unsynced = False  # first: the loop may write again while this runs
        self.log.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.aborted.sync()

    def close(self) -> None:
        """Give the descriptors back."""
        self.log.close()
        self.offset_index.file.close()
        self.time_index.file.close()
        self.aborted.close()

    # Finding

    def find_batch(self, offset: int, end: int, *, nowait: bool = False) -> int | None:
        """Return the position of the first batch that ends at or after `offset`; None if none up to `end`.

        The inner loop is what a reader in the middle of small batches costs: it looks at four fields only.
        """
        entry = self.offset_index.find(offset - self.base_offset, nowait=nowait)
        position, next_offset = entry[1] if entry else 0, self.base_offset
        if not 0 <= position <= end:
            raise self._wrong_index(self.offset_index, position)
        is_gap_allowed, unpack = self.may_have_gaps, _SPAN.unpack_from
        while position < end:
            data = self.read_log(position, min(_HEADERS_BYTES, end - position), nowait=nowait)
            if entry:
                next_offset = self._check_entry(entry, data, nowait=nowait)
                entry = None
            at, last = 0, len(data) - HEADER_SIZE
            while at <= last:
                base_offset, length, magic, last_offset_delta = unpack(data, at)
                if (
                    magic != MAGIC
                    or length < _MIN_LENGTH
                    or base_offset < next_offset
                    or (base_offset > next_offset and not is_gap_allowed)
                ):
                    raise self._no_batch(position + at)
                next_offset = base_offset + last_offset_delta + 1
                if next_offset > offset:
                    return position + at
                at += length + LOG_OVERHEAD
            if at == 0:
                raise self._no_batch(position)
            position += at
        if position > end:
            raise self._no_batch(position)  # a length that is no length
        return None

    def _check_entry(self, entry: tuple[int, int], data: bytes, *, nowait: bool) -> int:
        """Hold an entry of the offset index against the batch that it leads to, `data`; return the base offset of that.

        In our indexes it names the last offset of the batch, in some of Kafka's that of a later one.
        """
        indexed_offset, position = self.base_offset + entry[0], entry[1]
        if len(data) < HEADER_SIZE:
            raise self._no_batch(position)
        header = read_header(data)
        if not (_is_plausible(header) and header.base_offset <= indexed_offset):
            raise self._wrong_index(self.offset_index, position)
        if header.last_offset != indexed_offset and position + header.size < self.size:
            # The one behind it tells whether its base offset is right.
            for _ in zip(range(2), self.headers(position, self.size, nowait=nowait), strict=False):
                pass
        return header.base_offset

    def headers(
        self, position: int, end: int, *, nowait: bool = False
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Walk over the batches in [position, end), both batch boundaries; BatchError if they are none."""
        next_offset = self.base_offset if position == 0 else None
        while position < end:
            data = self.read_log(position, min(_HEADERS_BYTES, end - position), nowait=nowait)
            at = 0
            while at + HEADER_SIZE <= len(data):
                header = read_header(data, at)
                if (
                    not _is_plausible(header)
                    or position + at + header.size > end
                    or not self._follows(header, next_offset)
                ):
                    raise self._no_batch(position + at)
                yield position + at, header
                next_offset = header.next_offset
                at += header.size
            if at == 0:
                raise self._no_batch(position)
            position += at

    def _follows(self, header: BatchHeader, next_offset: int | None) -> bool:
        """Tell whether a batch may stand where this offset is expected; None if any may."""
        if next_offset is None or header.base_offset == next_offset:
            return True
        return self.may_have_gaps and header.base_offset > next_offset

    def _wrong_index(self, index: Index, position: int) -> BatchError:
        return DamagedBatch(
            f"{index.file.path} does not fit the batch at byte {position}", self.base_offset
        )

    def _no_batch(self, position: int) -> BatchError:
        return DamagedBatch(
            f"no whole batch at byte {position} of {self.log.path}", self.base_offset
        )

    def read_log(self, position: int, size: int, *, nowait: bool = False) -> bytes:
        """Read bytes of the log file; WouldBlock if `nowait` and they are not in memory."""
        if nowait:
            self.check_in_memory(position, size)
        return self.log.read(position, size)

    def check_in_memory(self, position: int, size: int) -> None:
        """Raise WouldBlock if reading this range would wait for the medium."""
        warm_from = max(self.written_from, self.size - WARM_BYTES)
        if position < warm_from and not self.log.cached(position, size):
            raise WouldBlock

    def check_batches(self, start: int, end: int, end_offset: int, *, nowait: bool) -> int:
        """Make sure of what is handed out: whole, valid batches of this segment. Return up to where it is so.

        `start` is a batch's beginning, `end_offset` above all offsets that belong here. What this process wrote, or has
        checked before, is not looked at again. WouldBlock if `nowait` and it must be; DamagedBatch if the first one is bad.
        """
        limit = min(end, self.written_from)
        if any(first <= start and limit <= last for first, last in self.checked):
            return end
        if nowait:
            raise WouldBlock
        good = good_until(
            self.log, start, limit, (self.base_offset, end_offset),
            may_have_gaps=self.may_have_gaps, epochs=self.epochs,
        )  # fmt: skip
        if good == start:
            raise self._no_batch(start)
        self.checked = joined(self.checked, (start, good))
        return end if good >= limit else good

    def batch_size(self, position: int, *, nowait: bool) -> int:
        """Return the size of the batch that starts here."""
        data = self.read_log(position, LOG_OVERHEAD, nowait=nowait)
        return int.from_bytes(data[8:], "big", signed=True) + LOG_OVERHEAD

    def read_base_offset(self, position: int, *, nowait: bool) -> int | None:
        """Return the base offset of the batch that an index says is here; None if there is none."""
        if not 0 <= position <= self.size - HEADER_SIZE:
            return None
        data = self.read_log(position, HEADER_SIZE, nowait=nowait)
        if len(data) < HEADER_SIZE:
            raise self._no_batch(position)
        header = read_header(data)
        return header.base_offset if _is_plausible(header) else None

    def read_first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, from the file if need be."""
        if self.first_timestamp is None:
            header = next((header for _, header in self.headers(0, self.size)), None)
            self.first_timestamp = header.max_timestamp if header else NO_TIMESTAMP
        return self.first_timestamp

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[Record, int] | None:
        """Return the first record at or after both, and the leader epoch of its batch. Blocks."""
        size = self.size
        # An entry below the time: all that is before it is below, too. One that equals it may stand behind equal ones.
        entry = self.time_index.find(timestamp - 1)
        if entry is not None:
            offset = self.base_offset + entry[1]
            self._check_time(entry[0], offset)
            from_offset = max(from_offset, offset)
        position = self.find_batch(from_offset, size)
        for at, header in self.headers(position, size) if position is not None else ():
            if header.max_timestamp < timestamp:
                continue
            for record in self.read_batch(at, header):
                if record.timestamp >= timestamp and record.offset >= from_offset:
                    return record, header.partition_leader_epoch
        return None

    def _check_time(self, timestamp: int, offset: int) -> int:
        """Hold an entry of the time index against the batch that has its offset; return where that is."""
        position = self.find_batch(offset, self.size)
        if position is None:
            raise self._wrong_index(self.time_index, self.size)
        _, header = next(self.headers(position, self.size))
        if header.base_offset > offset or header.max_timestamp != timestamp:
            raise self._wrong_index(self.time_index, position)
        return position

    def confirm_largest(self) -> None:
        """Make sure that `largest`, if it came from the time index, is what the batches say. Blocks.

        Costs a look at the end of the segment, if the times in it rise. DamagedBatch if it is wrong.
        """
        if self.unsure is None:
            return
        timestamp, offset = self.unsure
        position = self._check_time(timestamp, offset) if timestamp >= 0 else 0
        for at, header in self.headers(position, self.written_from):
            if header.max_timestamp > timestamp:
                raise self._wrong_index(self.time_index, at)
        self.unsure = None

    def find_largest(self) -> tuple[Record, int] | None:
        """Return the first record with the largest timestamp, and its leader epoch. Blocks."""
        timestamp, offset = self.largest
        size = self.size
        position = self.find_batch(offset, size)
        if position is None:
            return None
        _, header = next(self.headers(position, size))
        for record in self.read_batch(position, header):
            if record.timestamp == timestamp:
                return record, header.partition_leader_epoch
        return None

    def read_batch(self, position: int, header: BatchHeader) -> Iterator[Record]:
        """Read and unpack one batch, record by record."""
        batch = memoryview(self.log.read(position, header.size))
        if len(batch) < header.size or not checksum_matches(batch, header):
            raise self._no_batch(position)
        return walk_records(batch, MAX_UNPACKED_BYTES)


def _is_plausible(header: BatchHeader) -> bool:
    return header.magic == MAGIC and header.batch_length >= _MIN_LENGTH


def remove_files(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove whatever a segment may have left, the log first: without it the rest counts for nothing."""
    for suffix in SEGMENT_FILES:
        disk.remove(f"{directory}/{file_name(base_offset, suffix)}")
