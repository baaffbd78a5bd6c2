"""Looking at batches of a log file before they are first handed out.

Job: tell how far whole, valid batches go. Must not know segments or who reads. What a process wrote itself it has checked as it
came; what was on the disk before may have been damaged since, and is looked at once.

Costs less than 1 µs for a small batch, and for large ones what reading and summing up the bytes costs: it is done away from
the loop.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.storage.epoch_spans import NO_EPOCHS, UNKNOWN
from barnabas.wire.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC

if TYPE_CHECKING:
    from barnabas.ports import File
    from barnabas.storage.epoch_spans import EpochSpans

#: Read at once; a larger batch is checked piece by piece.
WINDOW_BYTES: Final = 1024 * 1024
#: Ranges that are remembered for one file; with more the first is forgotten, and checked again.
RANGES_KEPT: Final = 64
#: Of a header: base offset, length, leader epoch, format version, checksum, last offset delta.
_LOOK: Final = Struct(">qiibI2xi")
#: Of batches that a broker wrote which knew no epochs.
_NO_EPOCH: Final = -1

Range = tuple[int, int]


def is_wrong_epoch(found: int, epoch: int) -> bool:
    """Tell whether a batch names another leader epoch than its log does, where both know one."""
    return found != epoch and epoch != UNKNOWN and found != _NO_EPOCH


def good_until(
    file: File,
    start: int,
    end: int,
    offsets: Range,
    *,
    may_have_gaps: bool = True,
    epochs: EpochSpans = NO_EPOCHS,
) -> int:
    """Check the batches from `start` on until `end` is reached; return where the first bad one begins, or the last good one ends.

    Good ones have rising offsets within the half-open range `offsets`, without gaps if there are none, and the leader epoch that
    `epochs` says. No checksum covers these two: the base offset of the first batch is taken as it is, unless it is the first of the file.
    """
    next_offset, end_offset = offsets
    is_any_allowed = may_have_gaps or start > 0
    epoch = epoch_end = UNKNOWN
    position = start
    while position < end:
        window = memoryview(file.read(position, WINDOW_BYTES))
        at, size = 0, len(window)
        while at + HEADER_SIZE <= size and position + at < end:
            base_offset, length, its_epoch, magic, crc, last_delta = _LOOK.unpack_from(window, at)
            if base_offset >= epoch_end:
                epoch, epoch_end = epochs.at(base_offset)
            behind = at + length + LOG_OVERHEAD
            if (
                magic != MAGIC
                or behind < at + HEADER_SIZE
                or last_delta < 0
                or not next_offset <= base_offset <= end_offset - 1 - last_delta
                or (base_offset > next_offset and not is_any_allowed)
                or (its_epoch != epoch and is_wrong_epoch(its_epoch, epoch))
            ):
                return position + at
            if behind > size:
                break
            if crc32c(window[at + CRC_START : behind]) != crc:
                return position + at
            next_offset, is_any_allowed = base_offset + last_delta + 1, may_have_gaps
            at = behind
        if not at:
            at = _large_batch(file, position, window)
            if not at:
                return position
            base_offset, _, _, _, _, last_delta = _LOOK.unpack_from(window)
            next_offset, is_any_allowed = base_offset + last_delta + 1, may_have_gaps
        position += at
    return position


def _large_batch(file: File, position: int, window: memoryview) -> int:
    """Return the size of a good batch that is larger than the window; 0 if it is none."""
    if len(window) < HEADER_SIZE:
        return 0
    _, length, _, _, wanted_crc, _ = _LOOK.unpack_from(window)
    end, at = position + length + LOG_OVERHEAD, position + len(window)
    crc = crc32c(window[CRC_START:])
    while at < end:
        piece = file.read(at, min(WINDOW_BYTES, end - at))
        if not piece:
            return 0  # the file ends before the batch does
        crc = crc32c(piece, crc)
        at += len(piece)
    return end - position if crc == wanted_crc else 0


def joined(ranges: tuple[Range, ...], new: Range) -> tuple[Range, ...]:
    """Add a range; those that touch become one."""
    apart = [one for one in ranges if one[1] < new[0] or one[0] > new[1]]
    touching = [one for one in ranges if one not in apart]
    start = min([new[0], *(one[0] for one in touching)])
    end = max([new[1], *(one[1] for one in touching)])
    return tuple(sorted([*apart, (start, end)])[-RANGES_KEPT:])
