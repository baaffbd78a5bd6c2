"""Connections that this broker opens to others: the Peers port over sockets.

Job: connect without waiting, send in order, cut replies out of the stream. Must not know what is in them. A peer's bad
lengths close its connection and nothing else.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.loop import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from barnabas.ports import PeerEvents
    from barnabas.runtime.loop import Loop

#: What a reply is given room for before more of it has come; a longer one grows with what really comes.
ROOM_BYTES: Final = 256 * 1024
#: No broker answers with more.
FRAME_BYTES_MAX: Final = 1 << 30
#: Buffers per sendmsg.
_SEND_PARTS_MAX: Final = 128
_SIZE_BYTES: Final = 4


class RealPeers:
    """The port."""

    def __init__(self, loop: Loop) -> None:
        """Start with no connection."""
        self._loop = loop
        self._open: dict[_Connection, None] = {}

    def connect(self, host: str, port: int, events: PeerEvents) -> _Connection:
        """Begin to connect. Names are looked up in the background."""
        connection = _Connection(self._loop, events, self._open)
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

    def __init__(self, loop: Loop, events: PeerEvents, registry: dict[_Connection, None]) -> None:
        self._loop = loop
        self._events = events
        self._registry = registry
        registry[self] = None
        self._addresses: list[Any] = []
        self._sock: socket.socket | None = None
        self._is_watched = False
        self._is_connected = False
        self._is_closed = False
        self._out: deque[memoryview] = deque()
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
        self._flush()
        if not self._is_closed:
            self._events.on_connected()

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a request whole, after those before it."""
        if self._is_closed:
            return
        was_idle = not self._out
        self._out.extend(memoryview(each) for each in buffers)
        if was_idle and self._is_connected:
            self._flush()

    def _flush(self) -> None:
        sock = self._sock
        assert sock is not None
        try:
            while self._out:
                some = [self._out[n] for n in range(min(len(self._out), _SEND_PARTS_MAX))]
                self._take(sock.sendmsg(some))
        except BlockingIOError:
            pass
        except OSError as problem:
            self._fail(str(problem))
            return
        self._loop.rewatch(sock.fileno(), READ | WRITE if self._out else READ)

    def _take(self, sent: int) -> None:
        while sent:
            first = self._out[0]
            if sent < len(first):
                self._out[0] = first[sent:]
                return
            sent -= len(first)
            self._out.popleft()

    def _receive(self) -> None:
        sock = self._sock
        assert sock is not None
        try:
            count = sock.recv_into(memoryview(self._room)[self._filled :])
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
            self._events.on_frame(memoryview(self._room)[start : start + size])
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
