"""Connections that this broker opens to others: the Peers port over sockets.

Job: connect without waiting, prove to be a broker where the other one asks for that, send in order, cut replies out of the stream.
Must not know what is in them. A peer's bad lengths, and whatever else nobody foresaw of what it sends, close its connection and nothing else.

What was received, and in which order, is the `Inbox`'s. A reply is lent for the time of `on_frame`: it cannot be read after that, and
what was cut out of it and kept owns its bytes (`receive_memory.py`). Memory of long replies is used again.

| step       | goes on when                                             |
|------------|----------------------------------------------------------|
| address    | its name was looked up                                   |
| connecting | the other side took the connection                       |
| handshake  | TLS is set up, if brokers use it among themselves        |
| login      | the other side took the login, if brokers log in         |
| open       | only now `on_connected` is told, and anything else sent  |
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.inbox import SIZE_BYTES, Inbox
from barnabas.broker.outbox import Outbox, SharedReads
from barnabas.broker.quiet import Quiet
from barnabas.broker.receive_memory import TURN_BYTES, FramePool, TurnMemory
from barnabas.core.sasl.mechanism import LoginRefused
from barnabas.ports import READ, WRITE
from barnabas.runtime.socket_outbox import SocketOutbox
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from barnabas.broker.peer_login import PeerLogin
    from barnabas.broker.receive_memory import FrameMemory
    from barnabas.ports import PeerEvents
    from barnabas.runtime.loop import BookedCall, Loop
    from barnabas.runtime.peer_security import PeerSecurity
    from barnabas.runtime.tls_socket import TlsSocket

log = logging.getLogger(__name__)

#: How often memory of long replies that is not needed any more is let go.
TRIM_MS: Final = 30_000
#: No broker answers with more.
FRAME_BYTES_MAX: Final = 1 << 30
_SIZE: Final = struct.Struct(">i")


class RealPeers:
    """The port."""

    def __init__(self, loop: Loop, security: PeerSecurity) -> None:
        """Start with no connection."""
        self._loop = loop
        self._security = security
        self._open: dict[_Connection, None] = {}
        self._memory = _Memory(loop)
        self._book_trim()

    def connect(self, host: str, port: int, events: PeerEvents) -> _Connection:
        """Begin to connect. Names are looked up in the background."""
        memory = self._memory
        connection = _Connection(self._loop, host, self._security, events, self._open, memory)
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:  # an address needs no looking up, and none of the threads that wait for others
            found = look_up(flags=socket.AI_NUMERICHOST)
        except OSError:
            self._loop.ask_network(look_up, connection.on_resolved)
        else:
            self._loop.post(partial(connection.on_resolved, found, None))
        return connection

    def _book_trim(self) -> None:
        self._loop.call_at(self._loop.clock.monotonic_ms() + TRIM_MS, self._trim)

    def _trim(self) -> None:
        self._book_trim()
        self._memory.pool.trim()

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in list(self._open):
            connection.close()


class _Memory:
    """What replies are received in: one read at a time, so that all connections share the memory of a turn."""

    def __init__(self, loop: Loop) -> None:
        self.turn = TurnMemory()
        self.pool = FramePool()
        self._loop = loop
        self._quiet = Quiet()
        self._kept_count = 0

    def take_back(self, frame: FrameMemory | None) -> None:
        """End the time for which a reply was lent: the frame's own memory, or else that of the turn."""
        if frame is None:
            self.turn.take_back()
        else:
            self.pool.give_back(frame)
        kept = self.turn.kept_count + self.pool.kept_count
        if kept == self._kept_count:
            return
        self._kept_count = kept
        ending = self._quiet.ending("kept", self._loop.clock.monotonic_ms())
        if ending is not None:
            log.error(
                "memory of a reply was still in use after its end, %d times so far%s", kept, ending
            )


class _Connection:
    """One connection, from its address to its end."""

    def __init__(
        self,
        loop: Loop,
        host: str,
        security: PeerSecurity,
        events: PeerEvents,
        registry: dict[_Connection, None],
        memory: _Memory,
    ) -> None:
        self._loop = loop
        self._host = host
        self._security = security
        self._events = events
        self._registry = registry
        registry[self] = None
        self._addresses: list[Any] = []
        self._sock: socket.socket | None = None
        self._tls: TlsSocket | None = None
        self._login: PeerLogin | None = None
        self._login_end: BookedCall | None = None
        self._is_watched = False
        self._is_connected = False
        self._is_shaking = False
        self._is_open = False
        self._is_closed = False
        #: What is to be sent once it is open.
        self._waiting: list[Buffer] = []
        self._out: Outbox = SocketOutbox(SharedReads())
        self._memory = memory
        self._inbox = Inbox(memory.pool)
        #: The next read is booked already.
        self._is_booked = False

    def _on_fault(self, fault: Exception) -> None:
        """Tell of a fault of ours, and close: who asked over this connection hears of it as of any other end."""
        self._loop.faults.tell(f"the connection to {self._host}", fault)
        self._fail(f"a fault of this broker: {fault!r}")

    def on_resolved(self, found: list[Any] | None, error: BaseException | None) -> None:
        """Try the addresses one after another."""
        if self._is_closed:
            return
        if found is None:
            self._fail(str(error))
            return
        self._addresses = list(found)
        self._try_next("no address")

    def _try_next(self, problem: str) -> None:
        if not self._addresses:
            self._fail(problem)
            return
        family, kind, protocol, _name, address = self._addresses.pop(0)
        try:
            self._sock = sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            outcome = sock.connect_ex(address)
        except OSError as refused:
            self._forget_socket()
            self._try_next(str(refused))
            return
        if outcome not in (0, errno.EINPROGRESS):
            self._forget_socket()
            self._try_next(os.strerror(outcome))
            return
        self._loop.watch(sock.fileno(), WRITE, self._on_event)
        self._is_watched = True

    def _on_event(self, events: int) -> None:
        try:
            self._react(events)
        except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
            self._on_fault(fault)

    def _react(self, events: int) -> None:
        if not self._is_connected:
            self._on_connect_outcome()
            return
        if self._is_shaking:
            self._on_handshake_event(events)
            return
        if events & WRITE:
            self._flush()
        if events & ~WRITE and not self._is_closed:
            self._receive()

    def _on_connect_outcome(self) -> None:
        assert self._sock is not None
        outcome = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if outcome:
            self._forget_socket()
            self._try_next(os.strerror(outcome))
            return
        self._is_connected = True
        try:
            context = self._security.tls()
        except OSError as problem:
            self._fail(str(problem))
            return
        if context is None:
            self._log_in()
        else:
            self._begin_handshake(context)

    # Proving to be a broker

    def _begin_handshake(self, context: ssl.SSLContext) -> None:
        # Imported here: brokers without TLS do without.
        from barnabas.runtime.tls_socket import TlsOutbox, TlsSocket

        assert self._sock is not None
        self._tls = TlsSocket(self._sock, context, self._host)
        self._out = TlsOutbox(SharedReads(), self._tls)
        self._is_shaking = True
        self._shake()

    def _shake(self) -> None:
        """Have the next step computed beside the loop; nothing is read meanwhile."""
        assert self._sock is not None
        assert self._tls is not None
        self._loop.rewatch(self._sock.fileno(), 0)
        self._loop.compute(self._tls.shake, self._on_shaken)

    def _on_shaken(self, is_done: bool | None, problem: BaseException | None) -> None:
        if self._is_closed:
            return
        try:
            self._take_step(is_done, problem)
        except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
            self._on_fault(fault)

    def _take_step(self, is_done: bool | None, problem: BaseException | None) -> None:
        assert self._tls is not None
        self._out.append_sealed(self._tls.take_outgoing())
        self._flush()
        if problem is not None:
            self._fail(f"TLS handshake failed: {problem}")
        elif is_done and not self._is_closed:
            self._is_shaking = False
            self._log_in()
            self._book_read()

    def _on_handshake_event(self, events: int) -> None:
        assert self._tls is not None
        if events & WRITE:
            self._flush()
        if not events & ~WRITE or self._is_closed:
            return
        try:
            if self._tls.receive_handshake():
                self._shake()
            else:
                self._fail("it closed the connection")
        except BlockingIOError:
            return
        except OSError as problem:
            self._fail(str(problem))

    def _log_in(self) -> None:
        self._login = self._security.login()
        if self._login is None:
            self._open()
            return
        self._out.extend(self._login.first_request())
        self._flush()

    def _on_login_reply(self, login: PeerLogin, reply: memoryview) -> None:
        try:
            self._out.extend(login.on_reply(reply))
        except (LoginRefused, WireError) as problem:
            self._fail(str(problem))
            return
        if login.is_done:
            self._login = None
            self._open()
            if login.lifetime_ms:
                end_ms = self._loop.clock.monotonic_ms() + login.lifetime_ms * 85 // 100
                self._login_end = self._loop.call_at(
                    end_ms, lambda: self._fail("its login is about to end")
                )
        else:
            self._flush()

    def _open(self) -> None:
        self._is_open = True
        self._out.extend(self._waiting)
        self._waiting.clear()
        self._flush()
        if not self._is_closed:
            self._events.on_connected()

    # Requests and replies

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a request whole, after those before it."""
        if self._is_closed:
            return
        if not self._is_open:
            self._waiting.extend(buffers)
            return
        was_idle = not self._out
        self._out.extend(buffers)
        if was_idle:
            self._flush()

    def _flush(self) -> None:
        sock = self._sock
        assert sock is not None
        try:
            while self._out and self._out.send_some(sock):
                pass
        except BlockingIOError:
            pass
        except OSError as problem:
            self._fail(str(problem))
            return
        self._loop.rewatch(sock.fileno(), READ | WRITE if self._out else READ)

    def _receive(self) -> None:
        """Read once, and handle what came: nothing else is read before that."""
        source = self._tls or self._sock
        assert source is not None
        try:
            count = self._inbox.receive(source, self._memory.turn, TURN_BYTES)
        except BlockingIOError:
            return
        except OSError as problem:
            self._fail(str(problem))
            return
        if not count:
            self._fail("it closed the connection")
            return
        if self._inbox.has_piece():
            self._handle_piece()
        self._book_read()

    def _book_read(self) -> None:
        """Read on in the next turn if there is more that no poll tells of: it is decrypted already."""
        has_more = self._tls is not None and self._tls.has_more
        if has_more and not self._is_booked and not self._is_closed:
            self._is_booked = True
            self._loop.post(self._read_on)

    def _read_on(self) -> None:
        self._is_booked = False
        if not self._is_closed:
            self._on_event(READ)

    def _handle_piece(self) -> None:
        view, start, end, frame = self._inbox.take()
        try:
            self._cut_frames(view, start, end)
        finally:
            self._memory.take_back(frame)

    def _cut_frames(self, view: memoryview, start: int, end: int) -> None:
        """Hand over every whole reply in view[start:end], keep the rest."""
        while not self._is_closed and end - start >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(view, start)
            if not 0 <= size <= FRAME_BYTES_MAX:
                self._fail(f"it announced a reply of {size} bytes")
                return
            reply_end = start + SIZE_BYTES + size
            if reply_end > end:
                break
            with view[start + SIZE_BYTES : reply_end] as reply:
                if self._login is None:
                    self._events.on_frame(reply)
                else:
                    self._on_login_reply(self._login, reply)
            start = reply_end
        if start < end and not self._is_closed:
            self._inbox.keep(view, start, end, is_frame=end - start >= SIZE_BYTES)

    def close(self) -> None:
        """End the connection; nothing is told any more."""
        self._is_closed = True
        self._out.clear()
        self._waiting.clear()
        self._inbox.clear()
        if self._login_end is not None:
            self._login_end.cancel()
        self._registry.pop(self, None)
        self._forget_socket()

    def _fail(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._events.on_closed(reason)

    def _forget_socket(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            if self._is_watched:
                self._loop.unwatch(sock.fileno())
                self._is_watched = False
            sock.close()
