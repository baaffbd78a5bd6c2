"""Background work on the log directories, one job at a time, in the order it was asked for.

Why an order: a `LogDirectory` is not made for two callers at once, and a topic that is deleted and created again
must have its old folder out of the way before the new one is made. It is a Background for whoever needs one. A job may have to
wait for something when it is its turn; those behind it wait, too.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.broker.tasks import begin

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.tasks import Done, Start
    from barnabas.ports import Background

Job = tuple["Callable[[], Any]", "Done", "Start | None"]


class DirectoryJobs:
    """See the module. Bounded by the callers: each has one job per topic, directory or request under way."""

    __slots__ = ("_background", "_queue", "_running")

    def __init__(self, background: Background) -> None:
        """Start with nothing to do."""
        self._background = background
        self._queue: deque[Job] = deque()
        self._running = False

    def run(self, job: Callable[[], Any], done: Done, *, after: Start | None = None) -> None:
        """Run `job` in the background after all jobs before it, then call `done(result, error)`.

        `after` is started when it is the job's turn, and the job runs when that has answered. If `after` fails, the job fails with its error.
        """
        self._queue.append((job, done, after))
        if not self._running:
            self._start_next()

    def _start_next(self) -> None:
        job, done, after = self._queue.popleft()
        self._running = True

        def finished(result: Any, error: BaseException | None) -> None:  # noqa: ANN401
            self._running = False
            if self._queue:
                self._start_next()
            done(result, error)

        run = partial(begin, partial(self._background.run, job), finished)
        if after is None:
            run()
            return

        def waited(_result: Any, error: BaseException | None) -> None:  # noqa: ANN401
            if error is None:
                run()
            else:
                finished(None, error)

        begin(after, waited)
