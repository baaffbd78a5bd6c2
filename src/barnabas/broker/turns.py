"""One after another: tasks that read something, wait, and write it back.

Kafka's controller makes one change at a time; a change here waits for the coordination store and for disks, so two
that overlap would each start from what they both saw and the later would undo the earlier.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.tasks import Done


class Turns:
    """Held by one task, or as many as there are places: `yield turns.take`, then `turns.give()` in a `finally`.

    Bounded by the number of connections: each has at most one request under way.
    """

    __slots__ = ("_free", "_passing", "_places", "_waiting")

    def __init__(self, places: int = 1) -> None:
        """Start with nobody holding it."""
        self._places = self._free = places
        self._passing = False
        self._waiting: deque[Done] = deque()

    def take(self, done: Done) -> None:
        """Call `done` when it is the caller's turn: at once, or when all before it have given theirs back."""
        if not self._free or self._waiting:
            self._waiting.append(done)
            return
        self._free -= 1
        done(None, None)

    def give(self) -> None:
        """Let the next one go on."""
        assert self._free < self._places
        self._free += 1
        if self._passing:
            return  # called from below the loop here, which goes on: no recursion, however many wait
        self._passing = True
        try:
            while self._waiting and self._free:
                self._free -= 1
                self._waiting.popleft()(None, None)
        finally:
            self._passing = False
