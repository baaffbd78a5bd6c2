"""A few places for work that may take long, shared so that those whose work does take long hold up each other only.

Job: decide who goes next. Who has held a place for long the last time is *slow*: the slow ones share all places but one, and
wait while anybody else does. Must not know: what is done at a place, or the time: who gives one back says how long it took.

Invariants: among the slow, and among the others, first come, first served. Whoever is slow is remembered until it is quick
again or forgotten, so there are no more of them than connections; each of those has at most one request under way.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.broker.tasks import Done

#: From this on it was long: an honest batch of a megabyte takes a tenth of it, the worst ones up to a second.
SLOW_MS: Final = 100


class _Visit:
    """One wait for a place, and the time at it."""

    __slots__ = ("done", "is_forgotten", "is_slow")

    def __init__(self, done: Done, *, is_slow: bool) -> None:
        self.done = done
        self.is_slow = is_slow
        self.is_forgotten = False


class FairTurns:
    """Held by as many as there are places: `yield partial(turns.take, who)`, then `turns.give(who, took_ms)` in a `finally`."""

    __slots__ = ("_free", "_passing", "_slow", "_slow_free", "_visits", "_waiting", "_waiting_slow")

    def __init__(self, places: int) -> None:
        """Start with nobody holding any; with one place there is none to keep for those who are quick."""
        self._free = places
        self._slow_free = max(places - 1, 1)
        self._slow: dict[object, None] = {}
        self._visits: dict[object, _Visit] = {}
        self._waiting: deque[_Visit] = deque()
        self._waiting_slow: deque[_Visit] = deque()
        self._passing = False

    def take(self, who: object, done: Done) -> None:
        """Call `done` when there is a place for it: at once, or when others have given theirs back."""
        assert who not in self._visits, "one at a time"
        visit = self._visits[who] = _Visit(done, is_slow=who in self._slow)
        (self._waiting_slow if visit.is_slow else self._waiting).append(visit)
        self._pass_on()

    def give(self, who: object, took_ms: int) -> None:
        """Give the place back after so long, and let the next one go on."""
        visit = self._visits.pop(who)
        self._free += 1
        self._slow_free += visit.is_slow
        self._slow.pop(who, None)
        if took_ms >= SLOW_MS and not visit.is_forgotten:
            self._slow[who] = None
        self._pass_on()

    def forget(self, who: object) -> None:
        """It has gone. A place that it holds or waits for is still to be given back."""
        self._slow.pop(who, None)
        visit = self._visits.get(who)
        if visit is not None:
            visit.is_forgotten = True

    def _pass_on(self) -> None:
        if self._passing:
            return  # called from below the loop here, which goes on: no recursion, however many wait
        self._passing = True
        try:
            while self._free and (visit := self._next()) is not None:
                self._free -= 1
                self._slow_free -= visit.is_slow
                visit.done(None, None)
        finally:
            self._passing = False

    def _next(self) -> _Visit | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._waiting_slow and self._slow_free:
            return self._waiting_slow.popleft()
        return None
