"""Reading the log of one partition: from an offset, by time, and how large it is.

Job: find the bytes that a reader asks for in the segments. Must not know how records come in or go. `Log` is this and
everything that changes it.

Background threads may call what is below the line "From the background", while the loop does everything else. Three rules
make that safe. `_segments` is replaced, never changed. `append` moves `log_end_offset` before a segment's `size`, so that who reads
them the other way round never takes bytes above an end offset for bytes below it. And what takes bytes away (retention, compaction,
a repair, a cut, a move to another directory) calls `_go_on_with` before any file goes: a look that failed meanwhile is begun again
with what the log has now. So a file that was removed because the log changed is never a failure of the disk.
"""

from __future__ import annotations

from bisect import bisect_right
from errno import EAGAIN
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from barnabas.ports import FileSlice
from barnabas.storage.log_changed import LogChanged
from barnabas.storage.segment import DamagedBatch
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.storage.segment import Segment
    from barnabas.storage.transaction_index import AbortedTransaction

_T = TypeVar("_T")

#: Positions of recent log ends that are remembered for readers that wait there: more fall back to the index.
HINTS_KEPT: Final = 8
#: How often a look is begun again. Each time a segment went while it ran, so more than two are rare.
LOOKS_MAX: Final = 20


class Found(NamedTuple):
    """A record found by its timestamp; the epoch is -1 if it is not known."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogReader:
    """See the module."""

    __slots__ = (
        "_active", "_hints", "_segments", "log_end_offset", "log_start_offset", "removals",
    )  # fmt: skip

    def __init__(
        self, segments: Sequence[Segment], *, log_start_offset: int, log_end_offset: int
    ) -> None:
        """Read from these; the last one is the active one."""
        self._segments = tuple(segments)
        self._active = self._segments[-1]
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self._hints: dict[int, tuple[Segment, int]] = {}
        #: Counts how often something went that could be read before.
        self.removals = 0

    def _go_on_with(self, segments: Sequence[Segment]) -> None:
        """Read from these from now on: the files of others, and what was cut off, may go after this."""
        self._segments = tuple(segments)
        self._active = self._segments[-1]
        self.removals += 1

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, min_one: bool, nowait: bool
    ) -> FileSlice | None:
        """Return the bytes of batches from the one that holds `offset` on, below `end_offset`.

        At most `max_bytes`, cut in the middle of a later batch if it comes so, but with `min_one` the first one
        whole; never across segments. None if there is nothing, or no room for the first one without `min_one`. The
        caller has checked that log_start_offset <= offset and end_offset <= log_end_offset. `nowait` raises WouldBlock where the
        medium would have to be waited for; without it this may run on a background thread.
        """
        if nowait and end_offset == self.log_end_offset:
            found = self._read_from_hint(offset, max_bytes)
            if found is not None:
                return found
        if offset >= end_offset:
            return None
        segments = self._segments
        number = self._segment_number(segments, offset)
        while number < len(segments):
            segment = segments[number]
            end = self._end_position(segments, number, end_offset, nowait=nowait)
            start = self._start_position(segment, offset, end, nowait=nowait)
            if start is not None:
                found = self._slice(segment, start, end, max_bytes, min_one=min_one, nowait=nowait)
                if found is not None and start < segment.written_from:
                    self._check(segments, number, found, nowait=nowait)
                return found
            if end == segment.size and not segment.may_have_gaps and number + 1 < len(segments):
                raise DamagedBatch(
                    f"no records from offset {offset} on in {segment.log.path}", segment.base_offset
                )
            number += 1  # all its records at or after the offset were compacted away
        return None

    def _check(
        self, segments: tuple[Segment, ...], number: int, found: FileSlice, *, nowait: bool
    ) -> None:
        """Hand out no damage: shorten the slice to what is good. DamagedBatch if it begins with a bad batch."""
        is_last = number + 1 == len(segments)
        end_offset = self.log_end_offset if is_last else segments[number + 1].base_offset
        end = found.position + found.size
        good = segments[number].check_batches(found.position, end, end_offset, nowait=nowait)
        found.size = good - found.position

    def _read_from_hint(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Return all from an offset on where an earlier reader found the log's end: what most who wait there ask for."""
        segment, hints = self._active, self._hints
        end = segment.size
        hint = hints.get(offset)
        if self.log_end_offset not in hints:
            self._remember(self.log_end_offset, segment, end)
        if hint is None or hint[0] is not segment or not 0 < end - hint[1] <= max_bytes:
            return None
        segment.check_in_memory(hint[1], end - hint[1])
        return FileSlice(segment.log, hint[1], end - hint[1])

    def _segment_number(self, segments: tuple[Segment, ...], offset: int) -> int:
        last = len(segments) - 1
        if offset >= segments[last].base_offset:
            return last
        return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)

    def _end_position(
        self, segments: tuple[Segment, ...], number: int, end_offset: int, *, nowait: bool
    ) -> int:
        """Return where in this segment the records at or after `end_offset` begin."""
        segment = segments[number]
        size = segment.size  # before log_end_offset: see the module
        if number + 1 < len(segments):
            if segments[number + 1].base_offset <= end_offset:
                return size
        elif end_offset == self.log_end_offset:
            return size
        if end_offset <= segment.base_offset:
            return 0
        found = segment.find_batch(end_offset, size, nowait=nowait)
        return size if found is None else found

    def _start_position(
        self, segment: Segment, offset: int, end: int, *, nowait: bool
    ) -> int | None:
        if end == 0:
            return None
        if offset <= segment.base_offset:
            return 0
        if nowait:  # the hints belong to the loop's thread
            hint = self._hints.get(offset)
            if hint is not None and hint[0] is segment and hint[1] < end:
                return hint[1]
        return segment.find_batch(offset, end, nowait=nowait)

    def _slice(
        self, segment: Segment, start: int, end: int, max_bytes: int, *, min_one: bool, nowait: bool
    ) -> FileSlice | None:
        size = end - start
        if max_bytes < size:
            if max_bytes <= 0 and not min_one:
                return None
            first = segment.batch_size(start, nowait=nowait)
            if first > max_bytes and not min_one:
                return None  # a piece of a batch and nothing else is of no use, and Java's consumer gives up on it
            size = min(size, max(max_bytes, first))
        if nowait:
            segment.check_in_memory(start, size)
        return FileSlice(segment.log, start, size)

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        """Keep where the log ends now: the next batch will start there, and waiting readers want it."""
        hints = self._hints
        if len(hints) >= HINTS_KEPT:
            del hints[next(iter(hints))]
        hints[offset] = (segment, position)

    # Aborted transactions

    def aborted_transactions(
        self, offset: int, found: FileSlice, *, nowait: bool
    ) -> list[AbortedTransaction]:
        """Return what a reader of committed records must leave out of the bytes that `read` found from `offset` on.

        As in Kafka, the end is taken from the index, so some may be named that lie a little behind the bytes. WouldBlock
        if `nowait` and an index is not in memory.
        """
        segments = self._segments
        number = self._segment_number(segments, offset)
        end_offset = self._upper_bound(segments, number, found, nowait=nowait)
        aborted: list[AbortedTransaction] = []
        for segment in segments[number:]:
            entries, complete = segment.aborted.find(offset, end_offset, nowait=nowait)
            aborted += entries
            if complete:
                break
        return aborted

    def _upper_bound(
        self, segments: tuple[Segment, ...], number: int, found: FileSlice, *, nowait: bool
    ) -> int:
        """Return an offset that is not below the end of the bytes found: what the index leads to says it itself."""
        while segments[number].log is not found.file and number + 1 < len(segments):
            number += 1
        segment = segments[number]
        entry = segment.offset_index.find_value(found.position + found.size, nowait=nowait)
        behind = None if entry is None else segment.read_base_offset(entry[1], nowait=nowait)
        if behind is not None:
            return behind
        if number + 1 < len(segments):
            return segments[number + 1].base_offset
        return self.log_end_offset

    # From the background

    def steadily(self, look: Callable[[], _T]) -> _T:
        """Return what a look at the files finds. It is begun again if it fails while something of the log goes.

        Its errors are the disk's, or of damage; LogChanged if every look met a removal. Blocks.
        """
        for _ in range(LOOKS_MAX):
            before = self.removals
            try:
                return look()
            except (OSError, BatchError):
                if self.removals == before:
                    raise
        raise LogChanged(EAGAIN, "the log goes on changing while it is read")

    def read_bytes(self, offset: int, max_bytes: int, *, end_offset: int) -> bytes | None:
        """Return the bytes that `read` finds, at least one batch whole; None if there are none. Blocks."""

        def look() -> bytes | None:
            found = self.read(offset, max_bytes, end_offset=end_offset, min_one=True, nowait=False)
            return None if found is None else found.read()

        return self.steadily(look)

    def confirm_largest(self, segment: Segment) -> None:
        """Make sure of the largest timestamp of a segment, as long as it is this log's. DamagedBatch if it is wrong. Blocks."""

        def look() -> None:
            if segment in self._segments:
                segment.confirm_largest()

        self.steadily(look)

    def offset_for_timestamp(self, timestamp: int) -> Found | None:
        """Return the first record whose timestamp is not below; BatchError if it lies in damage. Blocks."""

        def look() -> Found | None:
            start_offset = self.log_start_offset
            for segment in self._segments:
                segment.confirm_largest()
                if segment.largest[0] >= timestamp:
                    found = segment.find_timestamp(timestamp, start_offset)
                    if found is not None:
                        record, epoch = found
                        return Found(record.timestamp, record.offset, epoch)
            return None

        return self.steadily(look)

    def max_timestamp(self) -> Found | None:
        """Return the first record with the largest timestamp; None if none has one. Blocks."""

        def look() -> Found | None:
            segments = self._segments
            for segment in segments:
                segment.confirm_largest()
            latest = max(segments, key=lambda segment: segment.largest[0])
            found = latest.find_largest() if latest.largest[0] >= 0 else None
            if found is None:
                return None
            record, epoch = found
            return Found(record.timestamp, record.offset, epoch)

        return self.steadily(look)

    # Size

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """Count the segments; the last one is the active one."""
        return len(self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All of them, in order; the last one is the active one."""
        return self._segments

    @property
    def closed_segments(self) -> tuple[Segment, ...]:
        """The segments before the active one: what they hold never changes."""
        return self._segments[:-1]

    @property
    def base_offsets(self) -> list[int]:
        """Base offsets of the segments."""
        return [segment.base_offset for segment in self._segments]


def base_offset_of(segment: Segment) -> int:
    """Return a segment's place in the order of the log."""
    return segment.base_offset
