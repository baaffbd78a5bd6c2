"""Threads for jobs that the loop must not wait for, one pool for each kind of waiting.

| pool      | waits for                                     | threads | a queue that grows                                         |
|-----------|-----------------------------------------------|---------|------------------------------------------------------------|
| disk      | fsync, cold reads, opening and deleting logs   | 4       | is bounded by the callers: one job per log or request      |
| processor | TLS handshakes, opening batches, long requests | 4       | the same; handshakes and batches are two at a time each    |
| network   | names to be looked up, keys of tokens          | 8       | more than 256 are refused: whoever asked tries again later |

What waits for a network may wait for minutes, and what computes may take as long as a client likes: neither must hold up a flush, on which
producers wait. A pool more costs a few threads that sleep.

Job: run jobs, and post what came of each. Must not know what they do. Invariant: every job is answered once, on the loop; a thread survives
whatever its job raises.
"""

from __future__ import annotations

import threading
from collections import deque
from errno import ENOMEM
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Done = Callable[[Any, BaseException | None], None]
    Job = tuple[Callable[[], Any], Done]


class TooManyJobs(OSError):
    """The job was not begun: too many wait already."""


class NoThread(OSError):
    """The job was not begun: the system gives the process no thread, and the pool has none."""


class Pool:
    """See the module."""

    def __init__(
        self,
        name: str,
        threads_max: int,
        post: Callable[[Callable[[], None]], None],
        waiting_max: int | None = None,
    ) -> None:
        """Start without a thread. `post` makes a call on the loop; with `waiting_max` no more jobs than that wait."""
        self.name = name
        self.threads_max = threads_max
        self._post = post
        self._waiting_max = waiting_max
        self._threads: list[threading.Thread] = []
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._is_closed = False
        #: Jobs that threads have now.
        self.running = 0
        #: Jobs that were not begun because too many waited.
        self.refused = 0

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return len(self._jobs)

    def run(self, job: Callable[[], Any], done: Done) -> None:
        """Run `job` on a thread, then `done(result, error)` on the loop. A closed pool does neither. On the loop only."""
        problem: OSError | None = None
        with self._changed:
            if self._is_closed:
                return
            if self._waiting_max is not None and len(self._jobs) >= self._waiting_max:
                self.refused += 1
                problem = TooManyJobs(f"{self._waiting_max} jobs wait for the {self.name} already")
            else:
                self._jobs.append((job, done))
                if self._idle >= len(self._jobs):
                    self._changed.notify()
                elif len(self._threads) < self.threads_max:
                    problem = self._start_thread()
        if problem is not None:
            self._post(partial(done, None, problem))

    def _start_thread(self) -> OSError | None:
        """Start one more. If the system gives none, those that there are take the job; without any it is taken back: why."""
        name = f"barnabas-{self.name}-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as problem:
            if self._threads:
                return None
            self._jobs.pop()
            return NoThread(ENOMEM, f"no thread for the {self.name}: {problem}")
        self._threads.append(thread)
        return None

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            job, done = taken
            result: Any = None
            error: BaseException | None = None
            try:
                result = job()
            except BaseException as caught:  # noqa: BLE001  (an edge: the caller gets it, and this thread lives)
                error = caught
            with self._changed:
                self.running -= 1
            answer = [done, result, error]
            # Before it is posted: the loop may be done with the request, and take its memory back, while this thread is held up.
            del taken, job, done, result, error
            self._post(partial(_give, answer))

    def _take(self) -> Job | None:
        """Wait for a job; None at the end."""
        with self._changed:
            self._idle += 1
            while not self._jobs and not self._is_closed:
                self._changed.wait()
            self._idle -= 1
            if not self._jobs:
                return None
            self.running += 1
            return self._jobs.popleft()

    def close(self, *, finish: bool) -> None:
        """End the threads: once every job is done, or, without `finish`, leave those that are under way to themselves and drop the others."""
        with self._changed:
            self._is_closed = True
            if not finish:
                self._jobs.clear()
            is_busy = self.running > 0
            self._changed.notify_all()
        if finish or not is_busy:
            for thread in self._threads:
                thread.join()


def _give(answer: list[Any]) -> None:
    """Give the answer on the loop. The thread that posted it may still hold the list: it is left empty."""
    done, result, error = answer
    answer.clear()
    done(result, error)
