"""One listener: taking connections, leaving them in the backlog for a while, and refusing those that are too many.

Job: what `accept` brings goes to the server, a bounded number a turn; while there is no room, or connections come faster than allowed, nobody
is taken. Must not know what a connection is made of. Invariant: a listener that pauses can be closed, and one that was closed
does not go on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.quiet import Quiet
from barnabas.ports import READ
from barnabas.runtime.disk import descriptor_limit

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from barnabas.runtime.loop import BookedCall, Loop

#: Connections taken per turn, so that a storm of them does not starve the others.
ACCEPTS_PER_TURN: Final = 64
#: How long to leave the backlog alone when descriptors have run out.
ACCEPT_PAUSE_MS: Final = 100

log = logging.getLogger(__name__)


class Acceptor:
    """One bound socket."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        adopt: Callable[[socket.socket], int],
        why_full: Callable[[], str | None],
        make_way: Callable[[int], int],
    ) -> None:
        """Take connections from now on.

        `adopt` takes one and says for how many milliseconds no more are to come; `why_full` says why none can be taken, None if one
        can; `make_way` frees descriptors for so many and says how many.
        """
        self._loop = loop
        self._sock = sock
        self._adopt = adopt
        self._why_full = why_full
        self._make_way = make_way
        self._quiet = Quiet()
        #: The end of the pause, if there is one: then nothing is watched.
        self._pause: BookedCall | None = None
        self._is_closed = False
        loop.watch(sock.fileno(), READ, self._accept)

    def close(self) -> None:
        """Take no more connections."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pause is None:
            self._loop.unwatch(self._sock.fileno())
        else:
            self._pause.cancel()
        self._sock.close()

    def _accept(self, _events: int) -> None:
        try:
            self._take_some()
        except Exception as fault:  # noqa: BLE001  (an edge: whatever becomes of one client, others can connect)
            self._loop.faults.tell("taking a connection", fault)
            if self._pause is None and not self._is_closed:
                self._wait(ACCEPT_PAUSE_MS)

    def _take_some(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            full = self._why_full()
            if full is not None:
                self._tell_full(full)
                return
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as problem:  # out of descriptors
                if not self._make_way(ACCEPTS_PER_TURN):
                    self._tell_full(str(problem))
                    return
                continue
            try:
                pause_ms = self._adopt(sock)
            except Exception:
                sock.close()
                raise
            if pause_ms:
                self._wait(pause_ms)
                return

    def _tell_full(self, problem: str) -> None:
        """Wait, and say now and then that clients must."""
        ending = self._quiet.ending("full", self._loop.clock.monotonic_ms())
        if ending is not None:
            log.error(
                "cannot accept connections now: %s; clients wait until others go. The limit of open files (ulimit -n) is %d%s",
                problem, descriptor_limit(), ending,
            )  # fmt: skip
        self._wait(ACCEPT_PAUSE_MS)

    def _wait(self, pause_ms: int) -> None:
        """Leave clients in the backlog for a while."""
        self._loop.unwatch(self._sock.fileno())
        self._pause = self._loop.call_at(self._loop.clock.monotonic_ms() + pause_ms, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.watch(self._sock.fileno(), READ, self._accept)
