"""The process that compacts logs: `python -m barnabas.runtime.cleaner_worker`, started by a broker.

Job: drive `storage.cleaner` over the real disk, as told on standard input, in the words of `cleaner_messages.py`. It
is polite (nice 10), and as slow as it is told to be. It ends when its broker does: by the end of its input, or, while
it is busy, because it finds that it has another parent; so it never writes beside the next broker's own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from barnabas.runtime import cleaner_messages as messages
from barnabas.runtime.disk import RealDisk
from barnabas.storage.cleaner import Cleaning
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.storage.cleaned_segment import CleanedSegment

NICENESS: Final = 10
#: A pause in the work this long is not made up for.
_BURST_S: Final = 0.3


class Throttle:
    """Called with every number of bytes read or written: waits where that is more than allowed."""

    def __init__(self, max_bytes_per_second: float, parent: int) -> None:
        """Start counting now."""
        self._rate = max_bytes_per_second
        self._parent = parent
        self._due = time.monotonic()

    def __call__(self, size_bytes: int) -> None:
        """Count, and wait until it may go on."""
        if os.getppid() != self._parent:
            sys.exit(1)
        now = time.monotonic()
        self._due = max(self._due, now - _BURST_S) + size_bytes / self._rate
        if self._due > now:
            time.sleep(self._due - now)


class Worker:
    """One cleaning after another."""

    def __init__(self) -> None:
        """Start with nothing to do."""
        self._disk = RealDisk()
        self._parent = os.getppid()
        self._cleaning: Cleaning | None = None
        self._segments: Iterator[CleanedSegment] = iter(())

    def answer(self, line: bytes) -> bytes:
        """Do what one line says."""
        message = messages.decode(line)
        try:
            answer = self._next() if message == messages.NEXT else self._begin(message)
        except (OSError, BatchError) as problem:
            answer = messages.problem_message(problem)
        return messages.encode(answer)

    def _begin(self, message: dict[str, Any]) -> dict[str, Any]:
        order, rate = messages.read_order(message)
        # What was opened for the last log is closed: its files have other names by now.
        self._disk.close()
        self._disk = RealDisk()
        self._cleaning = Cleaning(self._disk, order, Throttle(rate, self._parent))
        self._cleaning.build_map()
        self._segments = self._cleaning.segments()
        return messages.MAPPED

    def _next(self) -> dict[str, Any]:
        assert self._cleaning is not None
        found = next(self._segments, None)
        if found is None:
            return messages.stats_message(self._cleaning.stats)
        return messages.segment_message(found)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer line by line until there are no more, or nobody takes the answers: then the broker was killed."""
    worker = Worker()
    with contextlib.suppress(BrokenPipeError):
        for line in iter(source.readline, b""):
            sink.write(worker.answer(line))
            sink.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # an answer that nobody took would be written again at an ordinary end
