"""Connections that this broker opens to others: the Peers port over sockets.

Job: connect without waiting, prove to be a broker where the other one asks for that, send in order, cut replies out of the stream.
Must not know what is in them. A peer's bad lengths close its connection and nothing else.

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
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.sasl.mechanism import LoginRefused
from barnabas.runtime.loop import READ, WRITE
from barnabas.runtime.outbox import Outbox, SharedReads
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from barnabas.broker.peer_login import PeerLogin
    from barnabas.ports import PeerEvents
    from barnabas.runtime.loop import BookedCall, Loop
    from barnabas.runtime.peer_security import PeerSecurity
    from barnabas.runtime.tls_socket import TlsSocket

#: What a reply is given room for before more of it has come; a longer one grows with what really comes.
ROOM_BYTES: Final = 256 * 1024
#: No broker answers with more.
FRAME_BYTES_MAX: Final = 1 << 30
_SIZE_BYTES: Final = 4


class RealPeers:
    """The port."""

    def __init__(self, loop: Loop, security: PeerSecurity) -> None:
        """Start with no connection."""
        self._loop = loop
        self._security = security
        self._open: dict[_Connection, None] = {}

    def connect(self, host: str, port: int, events: PeerEvents) -> _Connection:
        """Begin to connect. Names are looked up in the background."""
        connection = _Connection(self._loop, host, self._security, events, self._open)
        self._loop.run(
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM),
            lambda found, error: connection.on_resolved(found, error),
        )
        return connection

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in list(self._open):
            connection.close()


class _Connection:
    """One connection, from its address to its end."""

    def __init__(
        self,
        loop: Loop,
        host: str,
        security: PeerSecurity,
        events: PeerEvents,
        registry: dict[_Connection, None],
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
        self._out = Outbox(SharedReads())
        self._room = bytearray(ROOM_BYTES)
        self._filled = 0

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
        self._loop.run(self._tls.shake, self._on_shaken)

    def _on_shaken(self, is_done: bool | None, problem: BaseException | None) -> None:
        if self._is_closed:
            return
        assert self._tls is not None
        self._out.append_sealed(self._tls.take_outgoing())
        self._flush()
        if problem is not None:
            self._fail(f"TLS handshake failed: {problem}")
        elif is_done and not self._is_closed:
            self._is_shaking = False
            self._log_in()

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
        source = self._tls or self._sock
        assert source is not None
        try:
            count = source.recv_into(memoryview(self._room)[self._filled :])
        except BlockingIOError:
            return
        except OSError as problem:
            self._fail(str(problem))
            return
        if not count:
            self._fail("it closed the connection")
            return
        self._filled += count
        self._cut_frames()
        if self._tls is not None and self._tls.has_more and not self._is_closed:
            self._receive()  # no poll tells of what is decrypted already

    def _cut_frames(self) -> None:
        start = 0
        while not self._is_closed:
            left = self._filled - start
            if left < _SIZE_BYTES:
                break
            size = int.from_bytes(self._room[start : start + _SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= FRAME_BYTES_MAX:
                self._fail(f"it announced a reply of {size} bytes")
                return
            if left < _SIZE_BYTES + size:
                break
            start += _SIZE_BYTES
            reply = memoryview(self._room)[start : start + size]
            try:
                if self._login is None:
                    self._events.on_frame(reply)
                else:
                    self._on_login_reply(self._login, reply)
            finally:
                reply.release()  # its bytes are overwritten by what comes next
            start += size
        if start or self._filled == len(self._room):
            self._make_room(start)

    def _make_room(self, start: int) -> None:
        """Move what is left to the front, into room that fits what is coming as far as that can be trusted."""
        left = self._filled - start
        size = ROOM_BYTES
        if left >= _SIZE_BYTES:
            announced = _SIZE_BYTES + int.from_bytes(self._room[start : start + _SIZE_BYTES], "big")
            size = max(size, min(announced, 4 * max(left, ROOM_BYTES)))
        rest = self._room[start : self._filled]
        if size != len(self._room):
            self._room = bytearray(size)
        self._room[:left] = rest
        self._filled = left

    def close(self) -> None:
        """End the connection; nothing is told any more."""
        self._is_closed = True
        self._out.clear()
        self._waiting.clear()
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
