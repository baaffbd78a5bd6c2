"""Virtual time and chance: one heap of events, from which a whole run follows.

Job: call what is booked in order of time, hand out chance by name, and keep a digest of everything that happens.
Must not know: brokers, clients, faults.
Invariants: time never goes back; events of one moment run in the order in which they were booked; the same seed gives
the same digest in every process (nothing here depends on `hash()` or the order of a set).

A `Life` is one run of a process. What was booked in a life is not called once it is over, but is kept until
the run ends: a generator that is thrown away would run its `finally` clauses at a moment of Python's choosing.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Wall clock of a run's start: any fixed moment will do.
START_MS: Final = 1_700_000_000_000
MS: Final = 1000
SECOND: Final = 1_000_000


class ProcessKilled(BaseException):
    """Raised out of a call at which the process dies. No code of the node may catch it."""


class Booked:
    """An event in the heap; it is the node's Timer, too."""

    __slots__ = ("call", "label")

    def __init__(self, call: Callable[[], None], label: str) -> None:
        """Book a call under a name for the trace."""
        self.call: Callable[[], None] | None = call
        self.label = label

    def cancel(self) -> None:
        """Do not call any more."""
        self.call = None


class Scheduler:
    """The heap, the clock, the digest."""

    def __init__(self, seed: int, on_note: Callable[[int, str], None] | None = None) -> None:
        """Start at time 0; `on_note` gets (microseconds, text) of everything that happens."""
        self.seed = seed
        self.now_us = 0
        self.events = 0
        self._heap: list[tuple[int, int, Booked]] = []
        self._count = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._on_note = on_note
        self._graveyard: list[Any] = []

    def chance(self, name: str) -> random.Random:
        """Return a stream of its own for one part, so that a change in one part leaves the others alone."""
        return random.Random(f"{self.seed}/{name}")

    def after(self, delay_us: int, label: str, call: Callable[[], None]) -> Booked:
        """Book a call."""
        booked = Booked(call, label)
        self._count += 1
        heapq.heappush(self._heap, (self.now_us + max(0, delay_us), self._count, booked))
        return booked

    def run(self, finished: Callable[[], bool], end_us: int) -> bool:
        """Run events until `finished` or the time is over; tell whether it finished."""
        while not finished():
            if not self._heap or self._heap[0][0] > end_us:
                self.now_us = max(self.now_us, end_us)
                return False
            self.now_us, _, booked = heapq.heappop(self._heap)
            call, booked.call = booked.call, None
            if call is not None:
                self.events += 1
                self.note(booked.label)
                call()
        return True

    def note(self, text: str, data: bytes = b"") -> None:
        """Add to the digest, and to the trace."""
        self._digest.update(f"{self.now_us} {text}\n".encode())
        if data:
            self._digest.update(data)
        if self._on_note is not None:
            self._on_note(self.now_us, f"{text} ({len(data)} bytes)" if data else text)

    def keep(self, what: Any) -> None:  # noqa: ANN401
        """Hold something that belongs to a dead life until the run is over."""
        self._graveyard.append(what)

    @property
    def digest(self) -> str:
        """Everything that has happened so far, in 32 characters."""
        return self._digest.hexdigest()


class SimClock:
    """A machine's clocks: the wall clock may be set, the other one never jumps."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Start with a wall clock that is right."""
        self._scheduler = scheduler
        self.wrong_by_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970, as this machine believes."""
        return START_MS + self._scheduler.now_us // MS + self.wrong_by_ms

    def monotonic_ms(self) -> int:
        """Milliseconds since the run started."""
        return self._scheduler.now_us // MS

    def monotonic_ns(self) -> int:
        """Nanoseconds since the run started."""
        return self._scheduler.now_us * 1000


class SimRng:
    """Ids that do not repeat within a run, the same in every run of a seed."""

    def __init__(self, chance: random.Random) -> None:
        """Draw from this stream."""
        self._chance = chance

    def random_bytes(self, size: int) -> bytes:
        """Return `size` bytes."""
        return self._chance.randbytes(size)


class Life:
    """One run of a process on a machine."""

    __slots__ = ("is_over", "number", "was_up")

    def __init__(self, number: int) -> None:
        """Begin."""
        self.number = number
        self.is_over = False
        #: Whether the node came so far as to take requests.
        self.was_up = False


#: Makes a call on the thread of decision and ends the turn after it.
Enter = "Callable[[Callable[[], None]], None]"


class SimTimers:
    """The Timers port of one life."""

    def __init__(
        self, scheduler: Scheduler, life: Life, enter: Callable[[Callable[[], None]], None]
    ) -> None:
        """Calls go through `enter`."""
        self._scheduler = scheduler
        self._life = life
        self._enter = enter

    def call_at(self, deadline_ms: int, call: Callable[[], None]) -> Booked:
        """Make the call at this time of the monotonic clock."""

        def due() -> None:
            if self._life.is_over:
                self._scheduler.keep(call)
            else:
                self._enter(call)

        return self._scheduler.after(deadline_ms * MS - self._scheduler.now_us, "timer", due)


class SimBackground:
    """The Background port of one life: each job takes its time, and they end in any order.

    A job does all its work at one moment between its start and its end: a crash hits before it, after it,
    or, by `MachineDisk.kill_at_call`, within it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        life: Life,
        enter: Callable[[Callable[[], None]], None],
        machine: str = "",
    ) -> None:
        """Answers go through `enter`."""
        self._scheduler = scheduler
        self._life = life
        self._enter = enter
        self._chance = scheduler.chance(f"{machine}background/{life.number}")
        #: Jobs take up to this long.
        self.longest_us = 3 * MS

    def run(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run `job` later, and later still call `done(result, error)`."""

        def work() -> None:
            if self._life.is_over:
                self._scheduler.keep((job, done))
                return
            self._enter(lambda: self._work(job, done))

        self._scheduler.after(self._chance.randint(20, self.longest_us), "job", work)

    def compute(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a job as any other."""
        self.run(job, done)

    def ask_network(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a job as any other."""
        self.run(job, done)

    def _work(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = job()
        except Exception as caught:  # noqa: BLE001  (an edge: the caller gets it)
            error = caught

        def deliver() -> None:
            if self._life.is_over:
                self._scheduler.keep(done)
            else:
                self._enter(lambda: done(result, error))

        self._scheduler.after(self._chance.randint(20, self.longest_us), "job done", deliver)
