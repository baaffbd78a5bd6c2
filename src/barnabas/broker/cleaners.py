"""Who does the reading and writing of compaction, away from the loop.

`Cleaner` is what `compaction.py` asks for; `BackgroundCleaner` does it with the background jobs that every world has.
A thread that computes holds the interpreter, and so the loop: the real broker has a process for it instead
(`runtime/cleaner_process.py`), and this one is for the simulator and for where no process can be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.storage.cleaner import Cleaning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.tasks import Done
    from barnabas.ports import Background, Disk
    from barnabas.storage.cleaned_segment import CleanedSegment
    from barnabas.storage.cleaner import CleaningOrder


class CleanerGone(Exception):
    """The cleaner ended before its work did; the log is as it was, and may be tried again."""


class Cleaner(Protocol):
    """Does one cleaning at a time: `begin`, then `next_segment` until it answers None.

    Answers come later, on the thread of decision. Errors are those of `storage.cleaner.Cleaning`, and CleanerGone.
    """

    def begin(self, order: CleaningOrder, max_bytes_per_second: float, done: Done) -> None:
        """Read the keys; answers None. Gives up what was not ended before."""

    def next_segment(self, done: Done) -> None:
        """Write the next new segment; answers it, or the CleaningStats if there is none left."""

    def close(self) -> None:
        """Give memory and processes back; what is under way ends soon, and answers."""


class BackgroundCleaner:
    """See the module. It is as fast as it can be: there is no clock to throttle by."""

    def __init__(self, disk: Disk, background: Background) -> None:
        """Start with nothing to do."""
        self._disk = disk
        self._background = background
        self._cleaning: Cleaning | None = None
        self._segments: Iterator[CleanedSegment] = iter(())

    def begin(self, order: CleaningOrder, max_bytes_per_second: float, done: Done) -> None:
        """Read the keys."""

        def build() -> None:
            cleaning = Cleaning(self._disk, order)
            cleaning.build_map()
            self._cleaning, self._segments = cleaning, cleaning.segments()

        self._cleaning = None
        self._background.run(build, done)

    def next_segment(self, done: Done) -> None:
        """Write the next new segment."""
        cleaning, segments = self._cleaning, self._segments
        if cleaning is None:
            done(None, CleanerGone("the cleaner was closed"))
            return
        self._background.run(lambda: next(segments, cleaning.stats), done)

    def close(self) -> None:
        """Drop the map."""
        self._cleaning, self._segments = None, iter(())
