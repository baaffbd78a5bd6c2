"""The thread of decision: one poll, callbacks, timers, and jobs that come back from other threads.

Why not asyncio: the server needs a poll, a table of callbacks and a heap; that costs what uvloop costs
and a quarter of asyncio's protocols, without a dependency (docs/adr/0002). What may block runs in a small pool of threads
and its answer is posted back. Nothing here knows about Kafka.

Every callback has an edge here: what one does not catch is told (`faults.py`), and the next one is called (docs/adr/0011).
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import select
import selectors
import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.pace import Pace
from barnabas.ports import READ, WRITE
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.faults import Faults
from barnabas.runtime.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

#: fsync, cold reads and deletions: they wait for a disk, not for a processor.
DISK_THREADS: Final = 4
#: What computes for long; more would only take turns with the loop at the interpreter.
PROCESSOR_THREADS: Final = 4
#: What waits for an answer out of a network, which may never come.
NETWORK_THREADS: Final = 8
#: More do not wait for it: who asks for them connects again after a pause.
NETWORK_WAITING_MAX: Final = 256
#: Cancelled timers that the heap may hold before it is looked through.
CANCELLED_KEPT: Final = 1000
_IDLE_WAIT_S: Final = 60.0

log = logging.getLogger(__name__)


class SystemRng:
    """The machine's source of random bytes."""

    def random_bytes(self, size: int) -> bytes:
        """Return random bytes fit for ids."""
        return os.urandom(size)


class BookedCall:
    """A timer. A cancelled one stays in the heap for a while, holding nothing."""

    __slots__ = ("_loop", "call", "deadline_ms")

    def __init__(self, loop: Loop, deadline_ms: int, call: Callable[[], None]) -> None:
        """Book a call."""
        self._loop = loop
        self.deadline_ms = deadline_ms
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do not call any more."""
        if self.call is not None:
            self.call = None
            self._loop.on_cancelled()

    def __lt__(self, other: BookedCall) -> bool:
        """Sort by deadline."""
        return self.deadline_ms < other.deadline_ms


class _SelectorPoll:
    """`select.epoll`'s few calls on systems without it.

    A selector can watch for reading and writing only: one that hangs up while it is not read is noticed when it is.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._watched: set[int] = set()

    def register(self, fd: int, events: int) -> None:
        self.modify(fd, events)

    def modify(self, fd: int, events: int) -> None:
        mask = selectors.EVENT_READ if events & READ else 0
        mask |= selectors.EVENT_WRITE if events & WRITE else 0
        if not mask:
            self.unregister(fd)
        elif fd in self._watched:
            self._selector.modify(fd, mask)
        else:
            self._selector.register(fd, mask)
            self._watched.add(fd)

    def unregister(self, fd: int) -> None:
        if fd in self._watched:
            self._watched.remove(fd)
            self._selector.unregister(fd)

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        found = []
        for key, events in self._selector.select(timeout)[:maxevents]:
            mask = READ if events & selectors.EVENT_READ else 0
            found.append((key.fd, mask | (WRITE if events & selectors.EVENT_WRITE else 0)))
        return found

    def close(self) -> None:
        self._selector.close()


class Loop:
    """Run callbacks of descriptors, timers and posted calls, one after another.

    It is the Timers port (`call_at`) and the Background port (`run`, `compute`, `ask_network`) of the real world.
    """

    def __init__(self, *, portable: bool = False) -> None:
        """Open the poll and the pipe that wakes it; `portable` does without epoll."""
        self.clock = SystemClock()
        self.faults = Faults(self.clock)
        use_epoll = hasattr(select, "epoll") and not portable
        self._poll: Any = select.epoll() if use_epoll else _SelectorPoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[BookedCall] = []
        self._cancelled = 0
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._turn_end: list[Callable[[], None]] = []
        self._on_standstill: Callable[[], None] | None = None
        self._standstill_ns = 2**62
        self._idle_wait_s = _IDLE_WAIT_S
        self._stopping = False
        #: Re-entrant, because a signal handler may post while its thread is posting.
        self._closing = threading.RLock()
        self._closed = False
        self._disk = Pool("disk", DISK_THREADS, self.post)
        self._processor = Pool("processor", PROCESSOR_THREADS, self.post)
        self._network = Pool("network", NETWORK_THREADS, self.post, NETWORK_WAITING_MAX)
        self.pace = Pace(time.monotonic_ns())
        self._idle_ns = 0
        self._idle_since_ns = time.monotonic_ns()
        self.watch(self._wake_read, READ, self._on_wake)

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler(events)` whenever the descriptor is ready."""
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def rewatch(self, fd: int, events: int) -> None:
        """Change what a watched descriptor is watched for. Harmless if its handler has failed."""
        if fd in self._handlers:
            self._poll.modify(fd, events)

    def unwatch(self, fd: int) -> None:
        """Stop watching; call before the descriptor is closed. Harmless if its handler has failed."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def call_at(self, deadline_ms: int, call: Callable[[], None]) -> BookedCall:
        """Book a call at a time of the monotonic clock."""
        booked = BookedCall(self, deadline_ms, call)
        heapq.heappush(self._timers, booked)
        return booked

    def on_cancelled(self) -> None:
        """Sweep the heap once most of it was cancelled, so that far deadlines cannot pile up."""
        self._cancelled += 1
        if self._cancelled > max(CANCELLED_KEPT, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if timer.call is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made on the loop's thread. Safe from any thread and from a signal handler.

        A call to a closed loop is not made.
        """
        with self._closing:
            if self._closed:
                return
            self._posted.append(call)
            with contextlib.suppress(BlockingIOError):  # a pipe full of wake-ups wakes as well
                os.write(self._wake_write, b"\0")

    def at_turn_end(self, call: Callable[[], None]) -> None:
        """Make this call once after the events of every turn."""
        self._turn_end.append(call)

    def watch_standstill(self, limit_ms: int, call: Callable[[], None]) -> None:
        """Make this call first in a turn that begins so long after the one before: the process was stopped, or a call took as long."""
        self._standstill_ns, self._on_standstill = limit_ms * 1_000_000, call
        # An idle loop turns often enough not to be taken for one that stands still.
        self._idle_wait_s = min(_IDLE_WAIT_S, limit_ms / 4000)

    def run(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a `job` that waits for a disk beside the loop, then `done(result, error)` on the loop's thread."""
        self._disk.run(job, done)

    def compute(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a `job` that computes for long beside the loop."""
        self._processor.run(job, done)

    def ask_network(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run a `job` that waits for a network beside the loop; OSError at once if too many do."""
        self._network.run(job, done)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The threads, for the metrics."""
        return self._disk, self._processor, self._network

    def run_forever(self) -> None:
        """Run until `stop`, on the calling thread."""
        if threading.current_thread() is not threading.main_thread():
            self._run()
            return
        # Python hands a signal to its handler between two of its instructions. Compiled code has none (docs/adr/0010), so a signal that
        # comes right before the poll would be seen when that ends: it ends at once, and `_on_wake` calls what is not compiled.
        before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            self._run()
        finally:
            signal.set_wakeup_fd(before)

    def _run(self) -> None:
        poll, handlers, turn_end = self._poll.poll, self._handlers, self._turn_end
        now_ns, pace = time.monotonic_ns, self.pace
        last_ns = now_ns()
        while not self._stopping:
            wait_s = 0.0 if pace.is_restless else self._wait_s()
            pace.is_restless = False
            before = now_ns()
            ready = poll(wait_s, 256)
            start_ns = pace.start_ns = now_ns()
            pace.ready_count = len(ready)
            if start_ns - last_ns > self._standstill_ns and self._on_standstill:
                try:
                    self._on_standstill()
                except Exception as fault:  # noqa: BLE001  (an edge)
                    self.faults.tell_uncaught("a standstill", fault)
            last_ns = start_ns
            self._idle_ns += start_ns - before
            for fd, events in ready:
                handler = handlers.get(fd)
                if handler is not None:  # closed by an earlier callback of this turn
                    try:
                        handler(events)
                    except Exception as fault:  # noqa: BLE001  (an edge)
                        self._on_handler_fault(fd, handler, fault)
            if self._timers:
                self._run_timers()
            for call in turn_end:
                try:
                    call()
                except Exception as fault:  # noqa: BLE001  (an edge)
                    self.faults.tell_uncaught("the end of a turn", fault)

    def take_idle_ratio(self) -> float:
        """Return the share of time since the last call in which there was nothing to do."""
        now_ns = time.monotonic_ns()
        ratio = self._idle_ns / max(now_ns - self._idle_since_ns, 1)
        self._idle_ns, self._idle_since_ns = 0, now_ns
        return min(ratio, 1.0)

    def stop(self) -> None:
        """End `run_forever` after this turn. Safe from any thread."""

        def end() -> None:
            self._stopping = True

        self.post(end)

    def close(self) -> None:
        """Wait for background jobs and give the descriptors back; their answers are still delivered.

        What waits for a network may wait for ever, and is left.
        """
        self._network.close(finish=False)
        self._disk.close(finish=True)
        self._processor.close(finish=True)
        with self._closing:
            self._closed = True
        if not self.faults.is_state_broken:
            self._run_posted()
        self._poll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wait_s(self) -> float:
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return self._idle_wait_s
        wait_ms = self._timers[0].deadline_ms - self.clock.monotonic_ms()
        return min(max(wait_ms, 0) / 1000, self._idle_wait_s)

    def _run_timers(self) -> None:
        now_ms = self.clock.monotonic_ms()
        while self._timers and self._timers[0].deadline_ms <= now_ms:
            booked = heapq.heappop(self._timers)
            call, booked.call = booked.call, None  # cancelling it from now on means nothing
            if call is not None:
                try:
                    call()
                except Exception as fault:  # noqa: BLE001  (an edge)
                    self.faults.tell_uncaught("a timer", fault)

    def _on_handler_fault(self, fd: int, handler: Callable[[int], None], fault: Exception) -> None:
        """Log the fault, and stop watching the descriptor: it would be ready again at once, for ever. Its owner should have closed it."""
        self.faults.tell_uncaught(f"the handler of descriptor {fd}", fault)
        if self._handlers.get(fd) == handler:
            self.unwatch(fd)

    def _on_wake(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        self._run_posted()

    def _run_posted(self) -> None:
        for _ in range(len(self._posted)):
            call = self._posted.popleft()
            try:
                call()
            except Exception as fault:  # noqa: BLE001  (an edge)
                self.faults.tell_uncaught("a posted call", fault)
