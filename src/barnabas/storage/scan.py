"""Checking one segment batch by batch after a crash, and building its indexes on the way.

Job: find where the good bytes end. Must not know other segments, nor what follows from a cut. Record formats
before version 2 are no batches here.

Invariants: memory stays bounded whatever lengths the bytes claim; the indexes come out as appending the same
batches would have made them. The loop is what a start after a crash costs: about 2 µs for a batch, and its checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.storage.segment import MAX_RELATIVE_OFFSET
from barnabas.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.storage.segment import Segment
    from barnabas.wire.batch import BatchHeader

#: The scan reads this much at once; a larger batch is checked piece by piece.
SCAN_BYTES: Final = 1024 * 1024


class Scan:
    """Iterate over `batches` to the end, then `finish`; the other attributes tell what came out."""

    __slots__ = (
        "_interval",
        "_max_offset",
        "_segment",
        "_window",
        "_window_start",
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
        self._window = memoryview(b"")
        self._window_start = 0
        self.valid_bytes = 0
        self.cut_bytes = 0
        #: The offset after the last good record.
        self.next_offset = segment.base_offset
        #: What was wrong at `valid_bytes`; empty if nothing was.
        self.problem = ""

    def batches(self) -> Iterator[BatchHeader]:
        """Yield every good header up to the end or the first bad batch."""
        segment = self._segment
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.largest = (NO_TIMESTAMP, segment.base_offset)
        position = indexed_at = 0
        while position < segment.size:
            header = self._next_batch(position)
            if header is None:
                return
            last_offset = header.last_offset
            if header.max_timestamp > segment.largest[0]:
                segment.largest = (header.max_timestamp, last_offset)
            if position == 0:
                segment.first_timestamp = header.max_timestamp
            if position - indexed_at > self._interval:
                segment.spill_when_due()
                segment.add_index_entries(last_offset, position)
                indexed_at = position
            position += header.batch_length + LOG_OVERHEAD
            self.valid_bytes = position
            self.next_offset = last_offset + 1
            yield header

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
        segment.seal()

    def _next_batch(self, position: int) -> BatchHeader | None:
        """Return the header at `position` if all of its batch is good; else note the problem."""
        window, start = self._window, position - self._window_start
        if start + HEADER_SIZE > len(window):
            window, start = self._fill(position), 0
        if start + HEADER_SIZE > len(window):
            self.problem = "half a header"
            return None
        header = read_header(window, start)
        size = header.batch_length + LOG_OVERHEAD
        base_offset, last_offset_delta = header.base_offset, header.last_offset_delta
        if (
            header.magic == MAGIC
            and HEADER_SIZE <= size <= self._segment.size - position
            and base_offset >= self.next_offset
            and 0 <= last_offset_delta <= self._max_offset - base_offset
        ):
            if start + size <= len(window):
                crc = crc32c(window[start + CRC_START : start + size])
            else:
                crc = self._checksum(position + CRC_START, position + size)
            if crc == header.crc:
                return header
        self.problem = self._describe(header, position)
        return None

    def _describe(self, header: BatchHeader, position: int) -> str:
        """Say what is wrong with a batch that is not good."""
        if header.magic != MAGIC:
            return f"a batch of format version {header.magic}"
        if not HEADER_SIZE <= header.size <= self._segment.size - position:
            return f"a batch that claims {header.size} bytes"
        last_offset = header.last_offset
        if not self.next_offset <= header.base_offset <= last_offset <= self._max_offset:
            return f"a batch with offsets {header.base_offset} to {last_offset}"
        return "a batch with a wrong checksum"

    def _checksum(self, start: int, end: int) -> int:
        """Work out the checksum of bytes that go past the window."""
        crc = 0
        while start < end:
            piece = self._fill(start)[: end - start]
            if not piece:
                return -1  # the file is shorter than it said
            crc = crc32c(piece, crc)
            start += len(piece)
        return crc

    def _fill(self, position: int) -> memoryview:
        """Read the window from `position` on."""
        self._window = memoryview(self._segment.log.read(position, SCAN_BYTES))
        self._window_start = position
        return self._window
