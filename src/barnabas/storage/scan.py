"""Checking one segment batch by batch after a crash, and building its indexes on the way.

Job: find where the good bytes end. Must not know other segments, nor what follows from a cut. Record formats
before version 2 are no batches here.

A gap in the offsets is bad where the log has none: no checksum covers the base offset of a batch.

Invariants: memory stays bounded whatever lengths the bytes claim; the indexes come out as appending the same
batches would have made them.

`_run_window` is what a start after a crash costs: 1 µs for a batch, its checksum included where it is small. To note a batch in the
state of its producer costs three times that. So only batches that leave something there are shown: those that begin or end a
transaction, and the last few of each producer in a window, since no more are remembered.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.core.producer_state import BATCHES_KEPT
from barnabas.storage.segment import MAX_RELATIVE_OFFSET
from barnabas.wire.batch import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.storage.segment import Segment
    from barnabas.wire.batch import BatchHeader

    #: Told the position of a batch and its header.
    Visit = Callable[[int, BatchHeader], None]

#: The scan reads this much at once; a larger batch is checked piece by piece.
SCAN_BYTES: Final = 1024 * 1024
#: Of a header: base offset, length, leader epoch, format, checksum, last offset delta, largest timestamp, producer id.
_LOOK: Final = Struct(">qiibI2xi8xqq")
_MIN_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
_NO_EPOCH: Final = -2
#: The attributes that are in use are all in the second byte of theirs.
_ATTRIBUTES_AT: Final = CRC_START + 1
_OF_TRANSACTION: Final = TRANSACTIONAL | CONTROL


class Scan:
    """`run` it, then `finish`; the other attributes tell what came out."""

    __slots__ = (
        "_epoch",
        "_in_transaction",
        "_indexed_at",
        "_interval",
        "_max_offset",
        "_newest",
        "_segment",
        "cut_bytes",
        "next_offset",
        "problem",
        "valid_bytes",
    )

    def __init__(self, segment: Segment, index_interval_bytes: int) -> None:
        """Take a segment whose `size` is that of its file."""
        self._segment = segment
        self._interval = index_interval_bytes
        self._max_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        self._indexed_at = 0
        #: That of the last batch.
        self._epoch = _NO_EPOCH
        #: Of the window: by producer where its last batches are that have not been shown.
        self._newest: dict[int, deque[int]] = {}
        #: Producers whose transaction was shown to begin, and not to end.
        self._in_transaction: set[int] = set()
        self.valid_bytes = 0
        self.cut_bytes = 0
        #: The offset after the last good record.
        self.next_offset = segment.base_offset
        #: What was wrong at `valid_bytes`; empty if nothing was.
        self.problem = ""

    def run(self, visit: Visit) -> None:
        """Go to the end or the first bad batch; show those that producers are known by, and the first one of each epoch."""
        segment = self._segment
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.largest = (NO_TIMESTAMP, segment.base_offset)
        while self.valid_bytes < segment.size and not self.problem:
            start = self.valid_bytes
            window = memoryview(segment.log.read(start, SCAN_BYTES))
            if self._run_window(window, visit):
                rest = sorted(chain.from_iterable(self._newest.values()))
                self._newest.clear()
                _show(window, start, rest, visit)
            else:
                self._take_one(window, visit)

    def finish(self) -> None:
        """Cut what is bad off the file and save the indexes."""
        segment = self._segment
        segment.unsynced = True
        self.cut_bytes = segment.size - self.valid_bytes
        if self.cut_bytes:
            segment.log.truncate(self.valid_bytes)
            # At once: new records will get these offsets, and the old ones must not come back in their place.
            segment.log.sync()
            segment.size = segment.written_from = self.valid_bytes
        segment.checked = ((0, self.valid_bytes),)
        segment.seal()

    def _run_window(self, window: memoryview, visit: Visit) -> bool:
        """Go through the good batches that lie in the window as a whole; tell whether there were any."""
        look, checksum, size = _LOOK.unpack_from, crc32c, len(window)
        max_end, next_offset, epoch = self._max_offset + 1, self.next_offset, self._epoch
        start, segment = self.valid_bytes, self._segment
        gaps, newest, of_transaction = segment.may_have_gaps, self._newest, _OF_TRANSACTION
        largest, largest_at = segment.largest
        index_from = self._indexed_at + self._interval - start
        at, last = 0, size - HEADER_SIZE
        while at <= last:
            (
                base_offset, length, its_epoch, magic, crc, last_delta, timestamp, producer_id,
            ) = look(window, at)  # fmt: skip
            end, end_offset = at + length + LOG_OVERHEAD, base_offset + last_delta + 1
            if (
                end > size
                or magic != MAGIC
                or length < _MIN_LENGTH
                or (base_offset != next_offset and not (gaps and base_offset > next_offset))
                or not base_offset < end_offset <= max_end
                or checksum(window[at + CRC_START : end]) != crc
            ):
                break
            next_offset = end_offset
            if timestamp > largest:
                largest, largest_at = timestamp, next_offset - 1
            if at > index_from or not at:
                segment.largest = (largest, largest_at)
                self._note(start + at, next_offset - 1, timestamp)
                index_from = self._indexed_at + self._interval - start
            is_due = its_epoch != epoch
            if producer_id >= 0 and window[at + _ATTRIBUTES_AT] & of_transaction:
                is_due |= self._is_begin_or_end(producer_id, window[at + _ATTRIBUTES_AT])
            if is_due:
                epoch = its_epoch
                _show(window, start, (*newest.pop(producer_id, ()), at), visit)
            elif producer_id >= 0:
                try:
                    newest[producer_id].append(at)
                except KeyError:
                    newest[producer_id] = deque((at,), BATCHES_KEPT)
            at = end
        segment.largest = (largest, largest_at)
        self.valid_bytes, self.next_offset, self._epoch = start + at, next_offset, epoch
        return at > 0

    def _is_begin_or_end(self, producer_id: int, attributes: int) -> bool:
        """Tell whether a batch of a transaction is its first or its marker."""
        if attributes & CONTROL:
            self._in_transaction.discard(producer_id)
            return True
        is_begin = producer_id not in self._in_transaction
        self._in_transaction.add(producer_id)
        return is_begin

    def _note(self, position: int, last_offset: int, timestamp: int) -> None:
        """Note what a good batch means for the indexes."""
        segment = self._segment
        if timestamp > segment.largest[0]:
            segment.largest = (timestamp, last_offset)
        if position == 0:
            segment.first_timestamp = timestamp
        if position - self._indexed_at > self._interval:
            segment.spill_when_due()
            segment.add_index_entries(last_offset, position)
            self._indexed_at = position

    def _take_one(self, window: memoryview, visit: Visit) -> None:
        """Take the batch at the window's start if it is good but goes past its end; else say what is wrong."""
        if len(window) < HEADER_SIZE:
            self.problem = "half a header"
            return
        position, header = self.valid_bytes, read_header(window)
        self.problem = self._find_problem(header, window)
        if self.problem:
            return
        self._note(position, header.last_offset, header.max_timestamp)
        self.valid_bytes, self.next_offset = position + header.size, header.next_offset
        self._epoch = header.partition_leader_epoch
        self._in_transaction.discard(header.producer_id)  # to be shown once too often does no harm
        visit(position, header)

    def _find_problem(self, header: BatchHeader, window: memoryview) -> str:
        position = self.valid_bytes
        if header.magic != MAGIC:
            return f"a batch of format version {header.magic}"
        if not HEADER_SIZE <= header.size <= self._segment.size - position:
            return f"a batch that claims {header.size} bytes"
        last_offset = header.last_offset
        if not self.next_offset <= header.base_offset <= last_offset <= self._max_offset:
            return f"a batch with offsets {header.base_offset} to {last_offset}"
        if header.base_offset > self.next_offset and not self._segment.may_have_gaps:
            return f"a batch with offset {header.base_offset} instead of {self.next_offset}"
        crc = crc32c(window[CRC_START : header.size])
        crc = self._checksum(crc, position + len(window), position + header.size)
        return "" if crc == header.crc else "a batch with a wrong checksum"

    def _checksum(self, crc: int, start: int, end: int) -> int:
        """Go on with a checksum over bytes behind the window."""
        while start < end:
            piece = self._segment.log.read(start, min(SCAN_BYTES, end - start))
            if not piece:
                return -1  # the file is shorter than it said
            crc = crc32c(piece, crc)
            start += len(piece)
        return crc


def _show(window: memoryview, start: int, places: Iterable[int], visit: Visit) -> None:
    """Show the batches at these places of a window that starts at `start` of the file."""
    for at in places:
        visit(start + at, read_header(window, at))
