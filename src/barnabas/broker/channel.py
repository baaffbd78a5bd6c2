"""Requests to one other broker over one connection, answered in order.

Job: connect when somebody asks, encode, match replies, give up what takes too long. Must not know what is asked or why, and
never asks twice by itself: who asked decides whether to ask again.

| state      | asked                         | connection lost or refused                       |
|------------|-------------------------------|--------------------------------------------------|
| idle       | connects, after a pause if the last attempt failed | -                           |
| connecting | queues                        | everybody who asked hears of it; idle            |
| open       | sends                         | everybody who asked hears of it; idle            |
| closed     | hears that it is closed       | -                                                |

Invariants: every `ask` is answered once; replies are matched in the order of the requests; what is queued is bounded by those who ask: each has
one request under way. Answers come from the loop alone: a reply from the connection, everything else from a timer. So no call of a
method here answers anybody before it returns. A reply that cannot be used, for whatever reason, ends the connection.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from barnabas.wire import frame
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.tasks import Done, Start
    from barnabas.ports import Peer, Timer, World
    from barnabas.wire.primitives import Message

log = logging.getLogger(__name__)

#: How long to leave a broker alone that could not be reached: as Kafka's reconnect.backoff.ms, growing to ..max.ms.
BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000
_CORRELATION_IDS: Final = 0x7FFFFFFF


class Unreachable(ConnectionError):
    """The other broker did not answer: whether it did what was asked is not known."""


class _Asked:
    """One request under way."""

    __slots__ = ("api_key", "buffers", "correlation_id", "deadline_ms", "done", "version")

    def __init__(self, request: Message, version: int, deadline_ms: int, done: Done) -> None:
        self.api_key = request.API_KEY
        self.version = version
        #: What is to be sent, without its header.
        self.buffers: list[Any] = []
        self.deadline_ms = deadline_ms
        self.done = done
        self.correlation_id = 0


class Channel:
    """See the module. `address` tells where the broker is now; None if that is not known."""

    def __init__(
        self,
        world: World,
        broker_id: int,
        address: Callable[[], tuple[str, int] | None],
        client_id: str,
        timeout_ms: int,
    ) -> None:
        """Start idle."""
        self.broker_id = broker_id
        self._world = world
        self._address = address
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._peer: Peer | None = None
        #: Which attempt to connect is the present one: what older ones still tell is not heard.
        self._attempt = 0
        self._is_open = False
        self._is_closed = False
        self._waiting: deque[_Asked] = deque()
        self._sent: deque[_Asked] = deque()
        #: Who is still to hear that there will be no answer.
        self._lost: deque[tuple[_Asked, Exception]] = deque()
        self._timer: Timer | None = None
        self._retry: Timer | None = None
        self._correlation_id = 0
        self._failures = 0
        self._retry_at_ms = 0

    def asking(self, request: Message, version: int) -> Start:
        """Ask from within a task: `response = yield channel.asking(request, version)`."""
        return lambda done: self.ask(request, version, done)

    def ask(self, request: Message, version: int, done: Done) -> None:
        """Send a request; `done(response, error)` is called once, later. The error is Unreachable, or WireError if it cannot be encoded."""
        now_ms = self._world.clock.monotonic_ms()
        asked = _Asked(request, version, now_ms + self._timeout_ms, done)
        if self._is_closed:
            self._lose([(asked, Unreachable("the channel is closed"))])
            return
        try:
            asked.buffers = request.encode(version)
        except WireError as problem:
            self._lose([(asked, problem)])
            return
        self._waiting.append(asked)
        self._book_timeout()
        if self._is_open:
            self._send_waiting()
        elif self._peer is None and self._retry is None:
            self._connect_when_due()

    def close(self) -> None:
        """Hang up; everybody who asked hears of it, later."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._hang_up("the channel was closed")

    def drop(self, reason: str) -> None:
        """Hang up, and connect again when next asked: the broker may be another one now."""
        self._hang_up(reason)
        self._failures = 0
        self._retry_at_ms = 0

    # The connection

    def _connect_when_due(self) -> None:
        wait_ms = self._retry_at_ms - self._world.clock.monotonic_ms()
        self._retry = self._world.timers.call_at(
            self._world.clock.monotonic_ms() + max(0, wait_ms), self._connect
        )

    def _connect(self) -> None:
        self._retry = None
        if self._is_closed or self._peer is not None:
            return
        address = self._address()
        if address is None:
            self._fail("where it is is not known")
            return
        assert self._world.peers is not None
        self._attempt += 1
        self._peer = self._world.peers.connect(*address, _Attempt(self, self._attempt))

    def on_connected(self, attempt: int) -> None:
        """Send what waited."""
        if attempt != self._attempt or self._peer is None:
            return
        self._is_open = True
        self._failures = 0
        self._send_waiting()

    def on_frame(self, attempt: int, reply: memoryview) -> None:
        """Match a reply with its request."""
        if attempt != self._attempt or self._peer is None:
            return
        if not self._sent:
            self._fail("it sent a reply that nobody asked for")
            return
        asked = self._sent[0]
        try:
            response = _decode(asked, reply)
        except ValueError as problem:
            self._fail(f"its reply cannot be read: {problem}")
            return
        self._sent.popleft()
        self._book_timeout()
        try:
            asked.done(response, None)
        except Exception as fault:
            # Who asked has the answer and failed with it. The others may ask again over a new connection. The loop logs the fault.
            self._fail(f"its reply cannot be used: {fault!r}")
            raise

    def on_closed(self, attempt: int, reason: str) -> None:
        """Tell everybody who asked."""
        if attempt == self._attempt and self._peer is not None:
            self._peer = None
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        wait_ms = min(BACKOFF_MS << min(self._failures, 8), BACKOFF_MAX_MS)
        self._failures += 1
        self._retry_at_ms = self._world.clock.monotonic_ms() + wait_ms
        self._hang_up(reason)

    def _hang_up(self, reason: str) -> None:
        peer, self._peer = self._peer, None
        self._is_open = False
        self._attempt += 1
        if peer is not None:
            peer.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lost = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._lose([(one, Unreachable(f"broker {self.broker_id}: {reason}")) for one in lost])

    def _lose(self, lost: list[tuple[_Asked, Exception]]) -> None:
        """Have those who asked hear that there is no answer: each in a call of its own."""
        if lost and not self._lost:
            self._book_telling()
        self._lost.extend(lost)

    def _book_telling(self) -> None:
        self._world.timers.call_at(self._world.clock.monotonic_ms(), self._tell_next)

    def _tell_next(self) -> None:
        asked, problem = self._lost.popleft()
        if self._lost:
            self._book_telling()
        asked.done(None, problem)

    # Requests

    def _send_waiting(self) -> None:
        while self._waiting and self._peer is not None:
            asked = self._waiting.popleft()
            self._correlation_id = (self._correlation_id + 1) & _CORRELATION_IDS
            asked.correlation_id = self._correlation_id
            header = frame.request_header(
                asked.api_key, asked.version, asked.correlation_id, self._client_id
            )
            buffers, asked.buffers = frame.finish(asked.buffers, header), []
            self._sent.append(asked)
            self._peer.send(buffers)

    def _book_timeout(self) -> None:
        oldest = self._sent[0] if self._sent else self._waiting[0] if self._waiting else None
        if self._timer is not None:
            if oldest is not None:
                return  # it looks again when it is due
            self._timer.cancel()
            self._timer = None
        elif oldest is not None:
            self._timer = self._world.timers.call_at(oldest.deadline_ms, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timer = None
        oldest = self._sent[0] if self._sent else self._waiting[0] if self._waiting else None
        if oldest is not None and self._world.clock.monotonic_ms() >= oldest.deadline_ms:
            self._fail(f"no answer within {self._timeout_ms} ms")
        else:
            self._book_timeout()


class _Attempt:
    """One connection of a channel, as the Peers port knows it."""

    __slots__ = ("_channel", "_number")

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number

    def on_connected(self) -> None:
        self._channel.on_connected(self._number)

    def on_frame(self, frame: memoryview) -> None:
        self._channel.on_frame(self._number, frame)

    def on_closed(self, reason: str) -> None:
        self._channel.on_closed(self._number, reason)


def _decode(asked: _Asked, reply: memoryview) -> Any:  # noqa: ANN401
    key, version = asked.api_key, asked.version
    header = frame.response_header(asked.correlation_id, key, version)
    if reply[: len(header)] != header:
        raise WireError("it is no answer to what was asked")
    _request, response_type = frame.message_types(key)
    return response_type.decode(reply, version, len(header))
