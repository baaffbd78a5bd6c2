"""Which leader epoch began at which offset of one log: the history by which logs find where they part.

Job: KIP-101 and KIP-279 on one partition. Must not know: files, replicas, requests.
Invariants: epochs and start offsets both rise strictly from entry to entry; none is negative; `latest` is the
last entry's epoch, or -1 while there is none.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The history of one log. Callers write it to its file when a method says that it changed."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """Take entries in order, as they stand in the file; later ones cut what contradicts them."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, oldest first."""
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` starts at `start_offset`; False if nothing changed.

        Entries that the new one contradicts (not a lower epoch at a lower offset) are cut off the end.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} cannot start at offset {start_offset}")
        if epoch == self.latest and start_offset >= self._starts[-1]:
            return False
        keep = len(self._epochs)
        while keep and (self._epochs[keep - 1] >= epoch or self._starts[keep - 1] >= start_offset):
            keep -= 1
        self._cut(keep)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        assert keep == 0 or self._epochs[-2] < epoch
        assert keep == 0 or self._starts[-2] < start_offset
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch`, and the offset where it ends.

        (-1, -1) for epoch -1 and for one later than all known. An epoch before all known ones answers
        itself with the first known start: its records are gone, and a follower goes on from there.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def epoch_at(self, offset: int) -> int:
        """Return the epoch in which the record at `offset` was written; -1 before the first entry."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop entries that start at or after `end_offset`, the new end of the log; False if none."""
        if end_offset < 0 or not self._starts or self._starts[-1] < end_offset:
            return False
        keep = len(self._starts)
        while keep and self._starts[keep - 1] >= end_offset:
            keep -= 1
        self._cut(keep)
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop what ended before `start_offset`, the new start of the log; False if nothing changed.

        The epoch in force at that offset stays, starting there now.
        """
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:index], self._starts[:index]
        self._starts[0] = start_offset
        return True

    def clear(self) -> bool:
        """Drop all; False if there was nothing."""
        had_entries = bool(self._epochs)
        self._cut(0)
        return had_entries

    def _cut(self, keep: int) -> None:
        del self._epochs[keep:], self._starts[keep:]
        self.latest = self._epochs[-1] if keep else UNDEFINED_EPOCH
