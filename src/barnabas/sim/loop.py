"""The loop of one life: which streams are ready, and when the next turn begins and ends.

Job: do for the turn (`broker/turn.py`) as `runtime.loop.Loop` does: call the handlers of streams that are ready, as long as they are; make posted calls. A turn
begins with the first thing that happens and ends a little later (`sim/machine.py`); what happens in between belongs to it, as timers and answers
from threads do that come between two reads. Must not know what a handler does. Invariants: a stream is read once in a turn, unless
somebody posts; nothing of a life that is over is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.broker.pace import Pace
from barnabas.sim.world import ProcessKilled

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.ports import Timer
    from barnabas.sim.stream import SimStream
    from barnabas.sim.world import Life, Scheduler, SimTimers

    Enter = Callable[[Callable[[], None]], None]

#: A poll comes back this long after something is ready, and posted calls are made as late.
LONGEST_US = 200
#: How often a turn takes longer than `broker.turn.LONG_TURN_NS`, and how much longer.
LONG_LIKELIHOOD = 0.03
LONG_NS = 60_000_000


class SimLoop:
    """See the module."""

    def __init__(
        self,
        scheduler: Scheduler,
        life: Life,
        timers: SimTimers,
        clock: Any,  # noqa: ANN401
        enter: Enter,
        name: str,
    ) -> None:
        """Start idle; calls go through `enter`."""
        self.scheduler = scheduler
        self.life = life
        self.clock = clock
        self.pace = Pace(0)
        self._timers = timers
        self._enter = enter
        self._chance = scheduler.chance(f"{name}loop/{life.number}")
        #: By descriptor: the stream, what it is watched for, and who is called.
        self._watched: dict[int, tuple[SimStream, int, Callable[[int], None]]] = {}
        self._ready: dict[int, None] = {}
        #: Whom this turn has called: they are looked at again at its end.
        self._served: dict[int, None] = {}
        self._is_booked = False
        self._is_begun = False
        self._late_ns = 0

    def watch(self, stream: SimStream, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler(events)` whenever the stream is ready."""
        self._watched[stream.fileno()] = stream, events, handler

    def rewatch(self, fd: int, events: int) -> None:
        """Change what a stream is watched for."""
        if self.life.is_over:
            raise ProcessKilled
        found = self._watched.get(fd)
        if found is not None:
            self._watched[fd] = found[0], events, found[2]
            self.look(fd)

    def unwatch(self, fd: int) -> None:
        """Stop watching."""
        self._watched.pop(fd, None)
        self._ready.pop(fd, None)
        self._served.pop(fd, None)

    def call_at(self, deadline_ms: int, call: Callable[[], None]) -> Timer:
        """Book a call."""
        return self._timers.call_at(deadline_ms, call)

    def post(self, call: Callable[[], None]) -> None:
        """Make a call soon."""

        def due() -> None:
            if self.life.is_over:
                self.scheduler.keep(call)
            else:
                self._enter(call)

        self.scheduler.after(self._chance.randint(1, LONGEST_US), "posted", due)

    def now_ns(self) -> int:
        """Tell the time by which a turn is long; some are."""
        if self.life.is_over:
            raise ProcessKilled
        return self.scheduler.now_us * 1000 + self._late_ns

    def look(self, fd: int) -> None:
        """See whether a stream is ready, and have it served if it is."""
        found = self._watched.get(fd)
        if found is None or fd in self._served or not found[0].events & found[1]:
            return
        self._ready[fd] = None
        if not self._is_booked:
            self._is_booked = True
            self.scheduler.after(self._chance.randint(0, LONGEST_US), "poll", self._on_poll)

    def _on_poll(self) -> None:
        self._is_booked = False
        if not self.life.is_over:
            self._enter(self._serve)

    def _serve(self) -> None:
        ready, self._ready = self._ready, {}
        self.pace.ready_count += len(ready)
        for fd in ready:
            found = self._watched.get(fd)
            if found is not None:
                stream, watched, handler = found
                events = stream.events & watched
                if events:
                    self._served[fd] = None
                    handler(events)

    def begin_turn(self) -> None:
        """Begin a turn, unless one has begun."""
        if not self._is_begun:
            self._is_begun = True
            pace = self.pace
            pace.is_restless = False
            pace.ready_count = 0
            pace.start_ns = self.scheduler.now_us * 1000
            self._late_ns = LONG_NS if self._chance.random() < LONG_LIKELIHOOD else 0

    def end_turn(self) -> None:
        """Serve again who is still ready, in the next turn."""
        self._is_begun = False
        served, self._served = self._served, {}
        for fd in served:
            self.look(fd)
        if self.pace.is_restless:
            self.post(lambda: None)
