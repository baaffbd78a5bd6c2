"""Sockets: frames in, replies out in order, back-pressure, sendfile.

One request per connection is under way at a time, as in Kafka: while one waits, or while replies
do not drain, the connection is not read. That keeps replies in order and bounds what a client can make
the broker hold: one receive buffer's worth of requests. Replies of one turn leave in one system call.

A turn goes in steps: read every connection that is ready, handle what was read, write what was staged, send. Not one
connection after the other: on a processor whose kernel forgets branch predictions at each system call, Python
between two of them runs at half its speed (docs/adr/0004).

Knows frames and buffers, not what is in them: the node does. A client's bad bytes close its connection
and nothing else.
"""

from __future__ import annotations

import logging
import socket
import struct
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.connection_limits import ConnectionLimits
from barnabas.model.principal import ANONYMOUS
from barnabas.ports import FileSlice
from barnabas.runtime.loop import HANGUP, READ, WRITE
from barnabas.runtime.outbox import Outbox, SharedReads

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.broker.repeats import Repeats
    from barnabas.ports import Timer
    from barnabas.runtime.loop import Loop

#: One for all connections: frames that came whole are handled where they lie.
RECEIVE_BUFFER_BYTES: Final = 256 * 1024
#: What a read is given at least: with less left, what lies there is handled first.
RECEIVE_ROOM_BYTES: Final = 64 * 1024
#: Many that are ready share a buffer's worth, so that a turn stays short: but each may send this much in it.
READ_BYTES_MIN: Final = 16 * 1024
#: A frame is given this much room at once; a longer one grows as its bytes really come.
FRAME_ROOM_BYTES: Final = 64 * 1024
#: By how much the room grows: few copies for a frame of a megabyte, little room for one that never comes.
FRAME_GROWTH: Final = 4
#: When a turn has taken this long, each connection gets one more request in it and no second one.
LONG_TURN_NS: Final = 50_000_000
#: No more requests are read from a connection that has so many reply parts unsent.
UNSENT_PARTS_MAX: Final = 256
#: Nor from one that has so many bytes of replies in memory; slices of files do not count.
UNSENT_BYTES_MAX: Final = 1024 * 1024
#: How long readers are held at most while producers send on; a turn that takes longer has gathered enough.
HOLD_READERS_NS: Final = 2_000_000
#: Connections taken per turn, so that a storm of them does not starve the others.
ACCEPTS_PER_TURN: Final = 64
#: How long to leave the backlog alone when descriptors have run out.
ACCEPT_PAUSE_MS: Final = 100
#: Connections of addresses above their rate that are closed later; more are closed at once.
REFUSED_MAX: Final = 1000

_GONE: Final = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError, TimeoutError)
_SIZE: Final = struct.Struct(">i")

log = logging.getLogger(__name__)


class Connection:
    """One client. It is the node's Link."""

    __slots__ = (
        "_backlog", "_closes", "_events", "_fd", "_filled", "_frame", "_muted", "_out", "_postponed", "_server",
        "_sock", "_staged", "_waiting", "authenticator", "frame_bytes_max",
        "is_open", "lanes", "last_used_ms", "listener", "local_host", "local_port", "peer_host",
        "principal",
    )  # fmt: skip

    def __init__(self, server: Server, sock: socket.socket, listener: str, now_ms: int) -> None:
        """Take over a fresh socket."""
        self._server = server
        self._sock = sock
        self._fd = sock.fileno()
        self.listener = listener
        self.local_host, self.local_port = sock.getsockname()[:2]
        self.peer_host = sock.getpeername()[0]
        self.is_open = True
        self.last_used_ms = now_ms
        self.lanes: Repeats | None = None
        self.principal = ANONYMOUS
        self.authenticator: Any = None
        self.frame_bytes_max = server.request_bytes_max
        #: No more is read, and it closes once everything is sent.
        self._closes = False
        self._events = READ | HANGUP
        #: No request is taken: one is under way, or the client is throttled.
        self._waiting = False
        self._muted: Timer | None = None
        #: Requests went a lane, and their replies come when what is staged is written.
        self._staged = False
        #: Requests lie in the backlog that are to be handled in the next turn.
        self._postponed = False
        self._out = Outbox(server.shared_reads)
        #: A frame that is still coming, and how much of it is here.
        self._frame: bytearray | None = None
        self._filled = 0
        #: Bytes read but not looked at: less than four, or requests behind one that waits.
        self._backlog = b""

    def on_event(self, events: int) -> None:
        """React to what the poll says."""
        if events == READ:
            self._on_readable()
            return
        if events & WRITE:
            self.flush()
        if self.is_open and events & READ:
            self._on_readable()
        elif self.is_open and events & ~(READ | WRITE) and not self._goes_on:
            self.close()  # hung up or broken, and nothing left to read

    def reply(self, buffers: list[Any]) -> None:
        """Answer the request that was waiting."""
        assert self._waiting or not self.is_open, "a reply without a request that waits for it"
        if not self.is_open:
            return
        self._waiting = self._muted is not None
        self.last_used_ms = self._server.loop.clock.monotonic_ms()
        self._out.extend(buffers)
        self._server.dirty.append(self)

    def mute(self, delay_ms: int) -> None:
        """Answer the request at hand, then take none for a while."""
        if self.is_open and self._muted is None:
            loop = self._server.loop
            self._waiting = True
            self._muted = loop.call_at(loop.clock.monotonic_ms() + delay_ms, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._waiting = False
        self._server.dirty.append(self)

    @property
    def has_work(self) -> bool:
        """Tell whether a request waits or a reply is unsent."""
        is_under_way = self._waiting and self._muted is None
        return is_under_way or self._staged or bool(self._out)

    @property
    def is_waiting(self) -> bool:
        """Tell whether the client has reason to be silent: its request is under way."""
        return self._waiting

    @property
    def _goes_on(self) -> bool:
        """Tell whether requests that were read are handled soon, and nothing need come before that."""
        return (
            len(self._backlog) >= _SIZE.size
            and not (self._waiting or self._out)
            and not self._server.is_stopping
        )

    def close_when_sent(self) -> None:
        """Read no more, and close once the request under way is answered."""
        self._closes = True

    def close(self) -> None:
        """Close, drop what is unsent, tell the node. Harmless if closed."""
        if not self.is_open:
            return
        self.is_open = False
        if self._muted is not None:
            self._muted.cancel()
        self._server.forget(self, self._fd)
        self._sock.close()
        self._out.clear()
        self.lanes = None  # they know this link: a circle that only the collector would find
        self._frame = None
        self._backlog = b""

    def _on_readable(self) -> None:
        if (
            self._waiting
            or self._out
            or self._server.is_stopping
            or (self._backlog and self._goes_on)
        ):
            self._watch(HANGUP | (WRITE if self._out else 0))
            return
        try:
            if self._frame is None:
                self._read_frames()
            else:
                self._read_more_of_frame()
        except BlockingIOError:
            return
        except OSError as problem:
            # Besides the usual ways to go: no route to the host any more, the network is down.
            if not isinstance(problem, _GONE):
                log.warning("closing: cannot receive: %s", problem, extra={"peer": self.peer_host})
            self.close()

    def _read_frames(self) -> None:
        server, backlog = self._server, self._backlog
        position = start = server.find_room()
        view = server.receive_view
        if backlog:
            position += len(backlog)
            view[start:position] = backlog
        count = self._sock.recv_into(view[position : position + server.read_bytes])
        if count == 0:
            self.close()
            return
        self._backlog = b""
        server.received.append((self, start, position + count))
        server.receive_at = position + count

    def _read_more_of_frame(self) -> None:
        frame = self._frame
        assert frame is not None
        with memoryview(frame) as room:
            count = self._sock.recv_into(room[self._filled :])
        if count == 0:
            self.close()
            return
        self._filled += count
        self.last_used_ms = self._server.now_ms
        if self._filled < len(frame):
            return
        size = _SIZE.unpack_from(frame)[0] + 4
        if len(frame) < size:
            frame.extend(bytes(min((FRAME_GROWTH - 1) * len(frame), size - len(frame))))
            return
        self._frame = None
        self.handle_frames(memoryview(frame), 0, size)

    def handle_frames(self, view: memoryview, position: int, end: int) -> None:
        """Handle every whole frame in view[position:end], keep the rest."""
        self.last_used_ms = self._server.now_ms
        taken = self._take_repeated(view, position, end)
        if taken < end:
            self._handle_others(view, position, taken, end)

    def _handle_others(self, view: memoryview, start: int, position: int, end: int) -> None:
        """Handle frames from `position` on one by one; from `start` on they are of one connection and turn."""
        server = self._server
        out_before = len(self._out)
        held_bytes, is_cut_short = 0, False
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 < size <= self.frame_bytes_max:
                log.warning(
                    "closing: a frame claims %d bytes, allowed are 1 to %d (%s)",
                    size, self.frame_bytes_max, server.size_setting(self), extra={"peer": self.peer_host},
                )  # fmt: skip
                self.close()
                return
            frame_end = position + 4 + size
            if frame_end > end:
                break
            if self._waiting or self._closes or server.is_stopping:
                break
            if position > start and (
                len(self._out) > UNSENT_PARTS_MAX
                or held_bytes > UNSENT_BYTES_MAX
                or server.is_turn_long()
            ):
                is_cut_short = True  # and goes on, also if there is no reply to send before
                break
            held_bytes += self._handle(view[position + 4 : frame_end])
            if not self.is_open:
                return
            position = self._take_repeated(view, frame_end, end)
        if position < end:
            self._keep(view, position, end)
        if is_cut_short or len(self._out) != out_before:
            server.dirty.append(self)

    def _take_repeated(self, view: memoryview, position: int, end: int) -> int:
        """Let requests that repeat go their short way; return where they end."""
        server, lanes = self._server, self.lanes
        if lanes is None or self._waiting or server.is_stopping or server.is_turn_long():
            return position
        taken = lanes.take(view, position, end)
        if taken > position:
            self._staged = True
        return taken

    def reply_repeated(self, answers: bytes) -> None:
        """Answer requests that went their short way."""
        self._staged = False
        if self.is_open:
            self._out.append(answers)
            self._server.dirty.append(self)

    def _handle(self, frame: memoryview) -> int:
        """Let the node handle one request; the bytes that its reply holds in memory."""
        if self._staged:
            self._server.node.staging.write()  # replies in order
        try:
            parts = self._server.node.on_request(self, frame)
        except ValueError as problem:
            # WireError and its kin: bytes that are no request. Kafka closes without a word, too.
            log.warning("closing: %s", problem, extra={"peer": self.peer_host})
            self.close()
            return 0
        if parts is None:
            self._waiting = True
            return 0
        self._out.extend(parts)
        return sum(len(part) for part in parts if type(part) is not FileSlice)

    def _keep(self, view: memoryview, position: int, end: int) -> None:
        rest = end - position
        whole = rest >= 4 and _SIZE.unpack_from(view, position)[0] + 4 <= rest
        if rest < 4 or whole or self._waiting:
            self._backlog = bytes(view[position:end])
            return
        size = _SIZE.unpack_from(view, position)[0] + 4
        self._frame = bytearray(min(size, max(FRAME_ROOM_BYTES, FRAME_GROWTH * rest)))
        self._frame[:rest] = view[position:end]
        self._filled = rest

    def _go_on(self) -> None:
        """Handle requests that came behind one that waited."""
        if self._waiting or self._postponed:
            return
        if self._server.is_turn_long():
            self._postponed = True
            self._server.go_on_next_turn(self)
        else:
            self._handle_backlog()

    def go_on_at_last(self) -> None:
        """Handle requests that a long turn left: one at least, since this turn may be long already, and the next."""
        if self.is_open:
            self._postponed = False
            self._watch(READ | HANGUP)
            self._handle_backlog()

    def _handle_backlog(self) -> None:
        backlog = bytearray(self._backlog)
        self._backlog = b""
        self.handle_frames(memoryview(backlog), 0, len(backlog))

    def flush(self) -> None:
        """Send what can be sent, the rest when the socket takes more; then go on with requests that were left."""
        try:
            takes_more = True
            while takes_more and self._out:
                takes_more = self._out.send_some(self._sock)
                self.last_used_ms = self._server.now_ms
        except BlockingIOError:
            takes_more = False
        except _GONE:
            self.close()
            return
        except OSError as problem:
            log.error("closing: cannot send: %s", problem, extra={"peer": self.peer_host})
            self.close()
            return
        if not takes_more:
            self._watch(WRITE | HANGUP)
            return
        if self._closes and not self._waiting:
            self.close()
            return
        self._watch(READ | HANGUP if not self._waiting else HANGUP)
        if self._backlog:
            self._go_on()

    def _watch(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self._server.loop.rewatch(self._fd, events)


class Server:
    """The listeners and their connections."""

    def __init__(self, loop: Loop, node: Node) -> None:
        """Serve this node on this loop; nothing is bound yet."""
        self.loop = loop
        self.node = node
        config = node.config
        self.request_bytes_max = config.get_int("socket.request.max.bytes")
        self._idle_ms_max = config.get_int("connections.max.idle.ms")
        self._send_buffer = config.get_int("socket.send.buffer.bytes")
        self._receive_buffer = config.get_int("socket.receive.buffer.bytes")
        self._backlog_size = config.get_int("socket.listen.backlog.size")
        self.receive_view = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        #: Who sent what in this turn, and where the next read goes.
        self.received: list[tuple[Connection, int, int]] = []
        self.receive_at = 0
        #: The most that one read takes.
        self.read_bytes = READ_BYTES_MIN
        self.dirty: list[Connection] = []
        self.shared_reads = SharedReads()
        self._held_since_ns: int | None = None
        self.now_ms = loop.clock.monotonic_ms()
        self.is_stopping = False
        self._next_turn: list[Connection] = []
        self._listeners: list[socket.socket] = []
        self._connections: dict[int, Connection] = {}
        self._limits = ConnectionLimits(node)
        #: Connections that were not taken, and when they are closed.
        self._refused: dict[socket.socket, Timer] = {}
        loop.at_turn_end(self._on_turn_end)
        self._book_idle_check()

    def listen(self, name: str, host: str, port: int) -> tuple[str, int]:
        """Bind one listener; port 0 takes a free one. Returns the address. OSError if it is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._receive_buffer > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        try:
            sock.bind((host, port))
            sock.listen(self._backlog_size)
        except OSError:
            sock.close()
            raise
        sock.setblocking(False)
        self._listeners.append(sock)
        self.loop.watch(sock.fileno(), READ, self._acceptor(sock, name))
        bound: tuple[str, int] = sock.getsockname()[:2]
        return bound

    def size_setting(self, connection: Connection) -> str:
        """Name the setting that bounds a connection's requests now."""
        if connection.frame_bytes_max == self.request_bytes_max:
            return "socket.request.max.bytes"
        return "sasl.server.max.receive.size, before a login is done"

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self._connections)

    def stop_listening(self) -> None:
        """Take no more connections and no more requests."""
        self.is_stopping = True
        for sock in self._listeners:
            if sock.fileno() >= 0:
                self.loop.unwatch(sock.fileno())
                sock.close()
        self._listeners.clear()

    @property
    def is_quiet(self) -> bool:
        """Tell whether every request taken has been answered and sent."""
        return not any(connection.has_work for connection in self._connections.values())

    def close(self) -> None:
        """Close everything."""
        self.stop_listening()
        for connection in list(self._connections.values()):
            connection.close()
        for sock, timer in self._refused.items():
            timer.cancel()
            sock.close()
        self._refused.clear()

    def forget(self, connection: Connection, fd: int) -> None:
        """A connection is closing."""
        self.loop.unwatch(fd)
        del self._connections[fd]
        self._limits.give(connection.listener, connection.peer_host)
        self.node.on_disconnect(connection)

    def _acceptor(self, listening: socket.socket, name: str) -> Callable[[int], None]:
        def accept(_events: int) -> None:
            for _ in range(ACCEPTS_PER_TURN):
                try:
                    sock, _address = listening.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    return
                except OSError as problem:  # out of descriptors
                    log.error("cannot accept connections now: %s", problem)
                    self._pause_accepting(listening, accept, ACCEPT_PAUSE_MS)
                    return
                pause_ms = self._adopt(sock, name)
                if pause_ms:
                    self._pause_accepting(listening, accept, pause_ms)
                    return

        return accept

    def _pause_accepting(
        self, listening: socket.socket, accept: Callable[[int], None], pause_ms: int
    ) -> None:
        """Leave clients in the backlog for a while."""
        self.loop.unwatch(listening.fileno())

        def resume() -> None:
            if listening in self._listeners:
                self.loop.watch(listening.fileno(), READ, accept)

        self.loop.call_at(self.loop.clock.monotonic_ms() + pause_ms, resume)

    def _adopt(self, sock: socket.socket, name: str) -> int:
        """Take a connection, if there is room for it; how long the next one is to wait."""
        try:
            host = sock.getpeername()[0]
        except OSError:
            sock.close()
            return 0
        verdict = self._limits.take(name, host)
        if not verdict.is_taken:
            self._refuse(sock, verdict.delay_ms)
            return 0
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
            connection = Connection(self, sock, name, self.now_ms)
        except OSError:  # gone between accept and here
            self._limits.give(name, host)
            sock.close()
            return 0
        self._connections[sock.fileno()] = connection
        self.loop.watch(sock.fileno(), READ | HANGUP, connection.on_event)
        return verdict.delay_ms

    def _refuse(self, sock: socket.socket, delay_ms: int) -> None:
        """Close a connection that is not taken; later, if that keeps its client from trying again at once."""
        if not delay_ms or len(self._refused) >= REFUSED_MAX:
            sock.close()
            return
        self._refused[sock] = self.loop.call_at(
            self.loop.clock.monotonic_ms() + delay_ms, partial(self._close_refused, sock)
        )

    def _close_refused(self, sock: socket.socket) -> None:
        del self._refused[sock]
        sock.close()

    def find_room(self) -> int:
        """Return where in the receive buffer there is room for a read."""
        at = self.receive_at
        if at == 0:
            share = RECEIVE_BUFFER_BYTES // (self.loop.ready_count or 1)
            self.read_bytes = max(share, READ_BYTES_MIN)
        elif at > RECEIVE_BUFFER_BYTES - RECEIVE_ROOM_BYTES:
            self._handle_received()
            self.node.staging.write()  # it lies in the buffer
            at = 0
        return at

    def _handle_received(self) -> None:
        """Handle what connections have sent, once all that were ready have been read."""
        received, self.received = self.received, []
        self.receive_at = 0
        for connection, start, end in received:
            if connection.is_open:
                connection.handle_frames(self.receive_view, start, end)

    def is_turn_long(self) -> bool:
        """Tell whether others have waited long enough for this turn to end."""
        return monotonic_ns() - self.loop.turn_start_ns > LONG_TURN_NS

    def go_on_next_turn(self, connection: Connection) -> None:
        """Handle what a connection has sent already once the others had their turn."""
        if not self._next_turn:
            self.loop.post(self._go_on_all)
        self._next_turn.append(connection)

    def _go_on_all(self) -> None:
        connections, self._next_turn = self._next_turn, []
        for connection in connections:
            connection.go_on_at_last()

    def _on_turn_end(self) -> None:
        """Finish what waited for this turn's appends, then send everything that is ready."""
        self.now_ms = self.loop.clock.monotonic_ms()
        self._handle_received()
        self._answer_readers()
        while self.dirty:
            dirty, self.dirty = self.dirty, []
            for connection in dirty:
                if connection.is_open:
                    connection.flush()
            self._answer_readers()
        self.shared_reads.forget()

    def _answer_readers(self) -> None:
        """Write what was staged, and answer who waited for it: when nothing else is to be done, or has been for a while.

        As long as producers send on, what they send goes into the same answers: those cost by the answer, not by the byte.
        """
        self.node.staging.write()
        loop = self.loop
        if loop.ready_count and self.node.is_feeding_readers:
            if self._held_since_ns is None:
                self._held_since_ns = loop.turn_start_ns
            if monotonic_ns() - self._held_since_ns < HOLD_READERS_NS:
                loop.poll_again()
                return
        self._held_since_ns = None
        self.node.on_turn_end()

    def _book_idle_check(self) -> None:
        if self._idle_ms_max < 0:
            return
        pause_ms = max(self._idle_ms_max // 4, 1)
        self.loop.call_at(self.loop.clock.monotonic_ms() + pause_ms, self._close_idle)

    def _close_idle(self) -> None:
        limit = self.loop.clock.monotonic_ms() - self._idle_ms_max
        for connection in list(self._connections.values()):
            # A reply that nobody takes is no excuse: Kafka closes such a connection, too.
            if connection.last_used_ms < limit and not connection.is_waiting:
                connection.close()
        self._book_idle_check()
