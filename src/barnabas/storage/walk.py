"""Going through one log file from end to end, over damage, without changing anything.

Job: tell good batches from bytes that are none, and find where the good ones begin again. Must not know indexes or other
segments. For tools that look at logs nobody serves; what a start does after a crash is in `scan.py`, which stops at the first
bad byte.

Invariants: the pieces cover the file without gap or overlap; good batches have rising offsets within the bounds given;
memory stays bounded whatever lengths the bytes claim.

No checksum covers the base offset of a batch. In a log without gaps it is wrong if the batch behind, or the end of the segment,
goes on as if it were another; else records are missing before it.

Behind a bad batch the next one is looked for first where the bad one says that it ends, so that bytes inside a value that look
like a batch are not taken for one; only then byte by byte.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from barnabas.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    pieces_fit,
    read_header,
    records_fit,
)
from barnabas.wire.compression import Codec, CompressionError, unpack_in_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.ports import File

#: Read at once; a larger batch gets a buffer of its own.
WINDOW_BYTES: Final = 1024 * 1024
#: A batch above this is checked piece by piece, and what it holds is not looked at.
WHOLE_BATCH_BYTES: Final = 128 * 1024 * 1024
#: A batch that unpacks to more is none that anybody could read.
MAX_UNPACKED_BYTES: Final = 1024 * 1024 * 1024

_MAGIC_AT: Final = 16
#: Base offset, length, format version, last offset delta.
_SPAN: Final = Struct(">qi4xb6xi")
_MAX_CODEC: Final = max(Codec)


class Whole(NamedTuple):
    """A good batch."""

    position: int
    header: BatchHeader

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return self.header.size


class Damaged(NamedTuple):
    """Bytes that are no good batch."""

    position: int
    size: int
    reason: str
    #: The bytes end before their batch does, or are zeros: what a crash leaves at a log's end.
    is_torn: bool


class LogWalk:
    """See the module. `deep` also looks whether the records are there that each header counts."""

    __slots__ = (
        "_deep", "_end_offset", "_file", "_may_have_gaps", "_next_offset", "_size", "_window", "_window_start",
    )  # fmt: skip

    def __init__(
        self,
        file: File,
        *,
        first_offset: int = 0,
        end_offset: int = 2**63 - 1,
        may_have_gaps: bool = True,
        deep: bool = True,
    ) -> None:
        """Take the file as long as it is now; good batches lie in [first_offset, end_offset)."""
        self._file = file
        self._size = file.size()
        self._next_offset = first_offset
        self._end_offset = end_offset
        self._may_have_gaps = may_have_gaps
        self._deep = deep
        self._window = memoryview(b"")
        self._window_start = 0

    def pieces(self) -> Iterator[Whole | Damaged]:
        """Yield everything that is in the file, in order."""
        position = 0
        while position < self._size:
            problem = self._problem(position)
            if problem is None:
                header = read_header(self._view(position, HEADER_SIZE))
                self._next_offset = header.next_offset
                yield Whole(position, header)
                position += header.size
            else:
                end = self._find_good(position)
                yield Damaged(position, end - position, problem, self._is_torn(position, end))
                position = end

    def read(self, piece: Whole) -> memoryview:
        """Return the bytes of a batch that `pieces` has just yielded."""
        return self._view(piece.position, piece.size)

    # One batch

    def _problem(self, position: int) -> str | None:
        """Say what is wrong with the batch that should begin here."""
        left = self._size - position
        if left < HEADER_SIZE:
            return f"{left} bytes, less than the header of a batch"
        header = read_header(self._view(position, HEADER_SIZE))
        return (
            self._header_problem(header, left)
            or self._content_problem(position, header)
            or self._place_problem(position, header)
        )

    def _header_problem(self, header: BatchHeader, left: int) -> str | None:
        if not any(header):
            return "zeros instead of a batch"
        if header.magic != MAGIC:
            return f"no batch: format version {header.magic}, not {MAGIC}"
        if not header.size >= HEADER_SIZE:
            return f"a batch that claims {header.size} bytes"
        if header.size > left:
            return f"a batch that claims {header.size} bytes, of which {left} are there"
        if header.last_offset_delta < 0 or not (
            self._next_offset <= header.base_offset and header.last_offset < self._end_offset
        ):
            return (
                f"a batch with offsets {header.base_offset} to {header.last_offset}, where only "
                f"{self._next_offset} to {self._end_offset - 1} can be"
            )
        return None

    def _content_problem(self, position: int, header: BatchHeader) -> str | None:
        if header.size > WHOLE_BATCH_BYTES:
            crc = self._checksum(position + CRC_START, position + header.size)
            return None if crc == header.crc else "a batch with a wrong checksum"
        batch = self._view(position, header.size)
        if crc32c(batch[CRC_START:]) != header.crc:
            return "a batch with a wrong checksum"
        return records_problem(batch, header) if self._deep else None

    def _place_problem(self, position: int, header: BatchHeader) -> str | None:
        """Say whether a good batch stands where another offset must be."""
        expected = self._next_offset
        if self._may_have_gaps or header.base_offset == expected:
            return None
        next_offset = expected + header.last_offset_delta + 1
        behind = position + header.size
        if behind + HEADER_SIZE <= self._size:
            # Copied: the view moves on with it.
            follower = read_header(bytes(self._view(behind, HEADER_SIZE)))
            goes_on = follower.magic == MAGIC and follower.base_offset == next_offset
        else:
            goes_on = behind == self._size and next_offset == self._end_offset
        return (
            f"a batch with offset {header.base_offset} instead of {expected}" if goes_on else None
        )

    def _checksum(self, start: int, end: int) -> int:
        crc = 0
        while start < end:
            piece = self._file.read(start, min(WINDOW_BYTES, end - start))
            if not piece:
                return -1  # the file is shorter than it was
            crc = crc32c(piece, crc)
            start += len(piece)
        return crc

    # Behind a bad one

    def _find_good(self, position: int) -> int:
        """Return where the next good batch begins, or the end of the file."""
        left = self._size - position
        if left >= HEADER_SIZE:
            size = read_header(self._view(position, HEADER_SIZE)).size
            if HEADER_SIZE <= size <= left and (
                size == left or self._problem(position + size) is None
            ):
                return position + size
        return self._search(position + 1)

    def _search(self, start: int) -> int:
        while start + HEADER_SIZE <= self._size:
            window = self._file.read(start, WINDOW_BYTES)
            if len(window) < HEADER_SIZE:
                break
            for at in self._candidates(window, start):
                if self._problem(start + at) is None:
                    return start + at
            start += len(window) - HEADER_SIZE + 1
        return self._size

    def _candidates(self, window: bytes, start: int) -> Iterator[int]:
        """Yield where the few fields that tell most look like those of a batch."""
        at = window.find(MAGIC, _MAGIC_AT) - _MAGIC_AT
        last = len(window) - HEADER_SIZE
        while 0 <= at <= last:
            base_offset, length, _, last_offset_delta = _SPAN.unpack_from(window, at)
            if (
                self._next_offset <= base_offset < self._end_offset
                and HEADER_SIZE <= length + LOG_OVERHEAD <= self._size - start - at
                and last_offset_delta >= 0
            ):
                yield at
            at = window.find(MAGIC, at + _MAGIC_AT + 1) - _MAGIC_AT

    def _is_torn(self, position: int, end: int) -> bool:
        if end < self._size:
            return False
        if self._size - position < HEADER_SIZE:
            return True
        head = self._view(position, HEADER_SIZE)
        return read_header(head).size > self._size - position or not any(head)

    def _view(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`: from the window, which moves if need be."""
        start = position - self._window_start
        if start < 0 or start + size > len(self._window):
            self._window = memoryview(self._file.read(position, max(size, WINDOW_BYTES)))
            self._window_start, start = position, 0
        return self._window[start : start + size]


def records_problem(batch: memoryview, header: BatchHeader) -> str | None:
    """Say what is wrong with what a batch of good checksum holds; None if its records are there."""
    if header.codec > _MAX_CODEC:
        return f"a batch of codec {header.codec}, which is not known"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"a batch that counts {header.record_count} records for {header.last_offset_delta + 1} offsets"
    if header.record_count == 0:
        # Emptied by compaction; whatever codec it still names, there is nothing to unpack.
        return None if header.size == HEADER_SIZE else "an empty batch with bytes in it"
    if not header.codec:
        return None if records_fit(batch, header) else "a batch whose records do not fill it"
    packed = batch[HEADER_SIZE : header.size]
    try:
        pieces = unpack_in_pieces(Codec(header.codec), packed, MAX_UNPACKED_BYTES)
        fits = pieces_fit(pieces, header.record_count)
    except CompressionError as problem:
        return f"a batch that does not unpack: {problem}"
    return None if fits else "a batch that does not unpack to the records it counts"
