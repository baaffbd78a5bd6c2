"""The transactions on one partition that readers of committed records must not pass yet.

Job: say where the first undecided record is. Must not know producers' sequences, files or who decides.

A transaction is *open* from its first record to its marker, and *unreplicated* from then on until the marker is below the
high watermark: a marker that a new leader may not have decides nothing.

Invariants: transactions begin at the log's end, so the open ones stand in order of their first offsets.
"""

from __future__ import annotations

from typing import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction with records here that a marker at `last_offset` has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class OpenTransactions:
    """See the module."""

    __slots__ = ("_open", "_unreplicated")

    def __init__(self) -> None:
        """Start without any."""
        #: First offset -> producer id.
        self._open: dict[int, int] = {}
        #: First offset -> offset of the marker.
        self._unreplicated: dict[int, int] = {}

    def __len__(self) -> int:
        """Count the open ones."""
        return len(self._open)

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Note the first record of a transaction; first offsets rise."""
        assert not self._open or next(reversed(self._open)) < first_offset
        self._open[first_offset] = producer_id

    def complete(self, completed: CompletedTransaction) -> None:
        """Note a marker."""
        del self._open[completed.first_offset]
        self._unreplicated[completed.first_offset] = completed.last_offset

    def stable_after(self, completed: CompletedTransaction) -> int:
        """Return where the first undecided record will be once this one, which is still open, has ended."""
        for first_offset in self._open:
            if first_offset != completed.first_offset:
                return first_offset
        return completed.last_offset + 1

    def first_unstable(self, high_watermark: int) -> int:
        """Return the first offset that readers of committed records must not see: at most the high watermark."""
        if not self._open and not self._unreplicated:
            return high_watermark
        self._forget_replicated(high_watermark)
        first = min(self._unreplicated, default=high_watermark)
        if self._open:
            first = min(first, next(iter(self._open)))
        return min(first, high_watermark)

    def oldest_producer_id(self) -> int | None:
        """Return whose transaction has been open for longest."""
        return next(iter(self._open.values()), None)

    def clear(self) -> None:
        """Forget all: before a replay."""
        self._open.clear()
        self._unreplicated.clear()

    def _forget_replicated(self, high_watermark: int) -> None:
        replicated = [
            first for first, marker in self._unreplicated.items() if marker < high_watermark
        ]
        for first in replicated:
            del self._unreplicated[first]
