"""Holding the indexes of a segment against its batches, as a walk comes to them.

Job: say what is wrong with an offset index or a time index. Must not know how the batches are found, nor what is to be
done. A wrong entry sends readers behind what they look for, so each must lead at or before it; that is all that is asked, since
Kafka's releases differ in how often and for which batch of an append they write one.

Invariant: entries are read block by block, so memory stays bounded however long an index is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY
from barnabas.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from struct import Struct

    from barnabas.ports import File
    from barnabas.wire.batch import BatchHeader

_BLOCK_ENTRIES: Final = 4096
ZEROS: Final = "zeros behind its entries"


def read_entries(file: File, entry: Struct) -> Iterator[tuple[int, int]]:
    """Yield every whole entry of an index file."""
    position, block_bytes = 0, _BLOCK_ENTRIES * entry.size
    while block := file.read(position, block_bytes):
        whole = len(block) // entry.size * entry.size
        yield from entry.iter_unpack(block[:whole])
        position += block_bytes


class _IndexCheck:
    """The entry that comes next, and the first problem."""

    def __init__(self, file: File, entry: Struct, base_offset: int) -> None:
        self._base_offset = base_offset
        self._entries = read_entries(file, entry)
        self._before: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None
        self._number = -1
        #: What is wrong; empty if nothing is.
        self.problem = ""
        if file.size() % entry.size:
            self.problem = f"its size is no multiple of {entry.size} bytes"
        self._advance()

    def _advance(self) -> None:
        self._before, self._last = self._last, next(self._entries, None)
        self._number += 1
        if self._last == (0, 0):
            self._complain(ZEROS)
        elif self._last and self._before and self._last[0] <= self._before[0]:
            self._complain(f"entry {self._number} is not above the one before it")
        if self.problem:
            self._last = None

    def _complain(self, problem: str) -> None:
        if not self.problem:
            self.problem = problem


class OffsetIndexCheck(_IndexCheck):
    """See the module. Call `on_batch` and `on_hole` in order of positions, then `finish`."""

    def __init__(self, file: File, base_offset: int) -> None:
        """Take the file of a segment with this base offset."""
        super().__init__(file, OFFSET_ENTRY, base_offset)

    def on_batch(self, position: int, header: BatchHeader) -> None:
        """Compare with a good batch."""
        while self._last is not None and self._last[1] <= position:
            offset = self._base_offset + self._last[0]
            if self._last[1] < position:
                self._complain(f"offset {offset} leads to byte {self._last[1]}: no batch is there")
            elif offset < header.base_offset:
                self._complain(
                    f"offset {offset} leads to the batch of {header.base_offset}, behind it"
                )
            self._advance()

    def on_hole(self, end: int) -> None:
        """Pass over entries that lead into damage, which is told elsewhere."""
        while self._last is not None and self._last[1] < end:
            self._advance()

    def finish(self) -> None:
        """Look at what is left behind the last batch."""
        if self._last is not None:
            self._complain(
                f"offset {self._base_offset + self._last[0]} leads to byte {self._last[1]}, "
                "behind the last batch"
            )


class TimeIndexCheck(_IndexCheck):
    """See the module."""

    def __init__(self, file: File, base_offset: int) -> None:
        """Take the file of a segment with this base offset."""
        super().__init__(file, TIME_ENTRY, base_offset)
        self._largest = NO_TIMESTAMP
        self._has_holes = False

    def on_batch(self, header: BatchHeader) -> None:
        """Compare with a good batch."""
        before = self._largest
        self._largest = max(before, header.max_timestamp)
        while self._last is not None and self._base_offset + self._last[1] <= header.last_offset:
            timestamp, relative_offset = self._last
            offset = self._base_offset + relative_offset
            if before > timestamp:
                self._complain(f"there are times after {timestamp} before offset {offset}")
            elif self._largest < timestamp and not self._has_holes:
                self._complain(f"time {timestamp} is not in the log up to offset {offset}")
            self._advance()

    def on_hole(self) -> None:
        """Note that some batch could not be read: a time that is not found may have been there."""
        self._has_holes = True

    def finish(self, *, closed: bool) -> None:
        """Look at what is left; the index of a closed segment ends with the largest time."""
        if self._last is not None and not self._has_holes:
            offset = self._base_offset + self._last[1]
            self._complain(f"time {self._last[0]} leads to offset {offset}, behind the last batch")
        last = self._before[0] if self._before is not None else NO_TIMESTAMP
        if closed and not self._has_holes and last != self._largest:
            self._complain(f"it ends with time {last}, the log with {self._largest}")
