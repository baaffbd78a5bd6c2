"""A cleaner that is a process of its own, so that compaction never holds the loop's interpreter.

Job: start `cleaner_worker`, pass it orders, bring its answers to the loop. One thread waits for the answers; it
computes nothing. The process is started with the first order and ended by `close`: a broker without compacted topics
never has one.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.cleaners import CleanerGone
from barnabas.runtime import cleaner_messages as messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.storage.cleaner import CleaningOrder

    Done = Callable[[Any, BaseException | None], None]

_WORKER: Final = "barnabas.runtime.cleaner_worker"


class ProcessCleaner:
    """See `broker.cleaners.Cleaner`. `post` brings a call to the loop's thread."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        """Start nothing yet."""
        self._post = post
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._requests: queue.SimpleQueue[tuple[dict[str, Any], Done] | None] = queue.SimpleQueue()
        self._closed = False

    def begin(self, order: CleaningOrder, max_bytes_per_second: float, done: Done) -> None:
        """Read the keys."""
        self._ask(messages.order_message(order, max_bytes_per_second), done)

    def next_segment(self, done: Done) -> None:
        """Write the next new segment."""
        self._ask(messages.NEXT, done)

    def close(self) -> None:
        """End the process at once; what it was writing is removed when the log is opened or cleaned again."""
        self._closed = True
        self._requests.put(None)
        if self._process is not None:
            self._process.kill()

    def _ask(self, message: dict[str, Any], done: Done) -> None:
        if self._closed:
            gone = CleanerGone("the cleaner was closed")
            self._post(lambda: done(None, gone))
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="barnabas-cleaner", daemon=True
            )
            self._thread.start()
        self._requests.put((message, done))

    def _serve(self) -> None:
        """Pass on one request after another, on the thread of this cleaner."""
        while (request := self._requests.get()) is not None:
            message, done = request
            result: Any = None
            error: BaseException | None = None
            try:
                result = messages.read_answer(self._exchange(message))
            except Exception as caught:  # noqa: BLE001  (an edge: the caller gets it)
                error = caught
            self._post(lambda done=done, result=result, error=error: done(result, error))  # type: ignore[misc]
        self._end()

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(messages.encode(message))
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise CleanerGone(f"the cleaner process ended with status {process.wait()}")
        return messages.decode(line)

    def _start(self) -> subprocess.Popen[bytes]:
        # The child must find this package where this process found it.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = process = subprocess.Popen(  # noqa: S603  (our own interpreter and module)
            [sys.executable, "-m", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C is for the broker
        )
        if self._closed:
            process.kill()
        return process

    def _end(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe and pipe.close()
            process.wait()
