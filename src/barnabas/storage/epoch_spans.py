"""Which leader epoch each offset of a log was written in, as it stood at one moment.

Job: offsets -> epochs, for those who hold batches against them or fill in for batches that are gone. Must not know files. It never
changes, so background threads may ask, too.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.core.epochs import EpochEntry

#: Nothing tells the epoch.
UNKNOWN: Final = -1
NO_END: Final = 2**63 - 1


class EpochSpans:
    """See the module."""

    __slots__ = ("_end", "_epochs", "_starts")

    def __init__(self, entries: Sequence[EpochEntry] = (), end_offset: int = NO_END) -> None:
        """Take the epochs with the offsets where they begin, both rising; from `end_offset` on nobody knows."""
        self._end = end_offset
        self._epochs = tuple(entry.epoch for entry in entries)
        self._starts = tuple(entry.start_offset for entry in entries)

    def __bool__(self) -> bool:
        """Tell whether anything is known."""
        return bool(self._epochs)

    @property
    def start(self) -> int | None:
        """Where the first epoch begins; None if nothing is known."""
        return self._starts[0] if self._starts else None

    def at(self, offset: int) -> tuple[int, int]:
        """Return the epoch of an offset, or UNKNOWN, and the offset up to which it is the same."""
        if offset >= self._end:
            return UNKNOWN, NO_END
        number = bisect_right(self._starts, offset)
        end = self._starts[number] if number < len(self._starts) else self._end
        return (self._epochs[number - 1] if number else UNKNOWN), min(end, self._end)

    def split(self, first_offset: int, last_offset: int) -> Iterator[tuple[int, int, int]]:
        """Cut a range of offsets where epochs begin: first, last, epoch. Where none is known, there is the next or the last one."""
        while first_offset <= last_offset:
            epoch, end = self.at(first_offset)
            if epoch == UNKNOWN:
                epoch = self._epochs[-1] if first_offset >= self._end else self._epochs[0]
            last = min(last_offset, end - 1)
            yield first_offset, last, epoch
            first_offset = last + 1


#: Of a log whose epochs nothing vouches for.
NO_EPOCHS: Final = EpochSpans()
