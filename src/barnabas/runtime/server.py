"""Listeners and their connections, turn by turn.

A turn goes in steps: read every connection that is ready, handle what was read, write what was staged, send. Not one
connection after the other: on a processor whose kernel forgets branch predictions at each system call, Python
between two of them runs at half its speed (docs/adr/0004).

Replies of one turn leave in one system call. What a connection is, `connection.py` knows.
"""

from __future__ import annotations

import logging
import socket
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from barnabas.broker.connection_limits import ConnectionLimits
from barnabas.broker.quiet import Quiet
from barnabas.runtime.connection import Connection
from barnabas.runtime.disk import descriptor_limit, max_connections
from barnabas.runtime.loop import HANGUP, READ
from barnabas.runtime.outbox import SharedReads

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.ports import Timer
    from barnabas.runtime.loop import Loop
    from barnabas.runtime.tls import TlsListener

#: One for all connections: frames that came whole are handled where they lie.
RECEIVE_BUFFER_BYTES: Final = 256 * 1024
#: What a read is given at least: with less left, what lies there is handled first.
RECEIVE_ROOM_BYTES: Final = 64 * 1024
#: Many that are ready share a buffer's worth, so that a turn stays short: but each may send this much in it.
READ_BYTES_MIN: Final = 16 * 1024
#: When a turn has taken this long, each connection gets one more request in it and no second one.
LONG_TURN_NS: Final = 50_000_000
#: How long readers are held at most while producers send on; a turn that takes longer has gathered enough.
HOLD_READERS_NS: Final = 2_000_000
#: Connections taken per turn, so that a storm of them does not starve the others.
ACCEPTS_PER_TURN: Final = 64
#: How long to leave the backlog alone when descriptors have run out.
ACCEPT_PAUSE_MS: Final = 100
#: Connections of addresses above their rate that are closed later; more are closed at once.
REFUSED_MAX: Final = 1000
#: How long a client may take for its handshake and its login.
PROOF_MS_MAX: Final = 30_000

log = logging.getLogger(__name__)


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
        self._connections_max = max_connections()
        self._quiet = Quiet()
        #: Frees descriptors for so many connections, if it can; tells how many.
        self.make_way: Callable[[int], int] = lambda _count: 0
        #: Connections that were not taken, and when they are closed.
        self._refused: dict[socket.socket, Timer] = {}
        #: The TLS of each listener that speaks it.
        self._tls: dict[str, TlsListener] = {}
        #: Connections that have yet to prove themselves, by a handshake or a login, and until when; oldest first.
        self._unproven: dict[Connection, int] = {}
        self._looks_at_unproven = False
        loop.at_turn_end(self._on_turn_end)
        self._book_idle_check()

    def listen(
        self, name: str, host: str, port: int, tls: TlsListener | None = None
    ) -> tuple[str, int]:
        """Bind one listener, with TLS or without; port 0 takes a free one. Returns the address. OSError if it is taken."""
        if tls is not None:
            self._tls[name] = tls
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
        self._unproven.pop(connection, None)
        self._limits.give(connection.listener, connection.peer_host)
        self.node.on_disconnect(connection)

    def _acceptor(self, listening: socket.socket, name: str) -> Callable[[int], None]:
        def accept(_events: int) -> None:
            for _ in range(ACCEPTS_PER_TURN):
                if len(self._connections) >= self._connections_max:
                    why = f"there are {self._connections_max}"
                    self._pause_accepting(listening, accept, self._tell_full(why))
                    return
                try:
                    sock, _address = listening.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    return
                except OSError as problem:  # out of descriptors
                    if not self.make_way(ACCEPTS_PER_TURN):
                        self._pause_accepting(listening, accept, self._tell_full(str(problem)))
                        return
                    continue
                pause_ms = self._adopt(sock, name)
                if pause_ms:
                    self._pause_accepting(listening, accept, pause_ms)
                    return

        return accept

    def _tell_full(self, problem: str) -> int:
        """Say now and then that clients must wait; return for how long."""
        ending = self._quiet.ending("full", self.loop.clock.monotonic_ms())
        if ending is not None:
            log.error(
                "cannot accept connections now: %s; clients wait until others go. The limit of open files (ulimit -n) is %d%s",
                problem, descriptor_limit(), ending,
            )  # fmt: skip
        return ACCEPT_PAUSE_MS

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
            connection = self._connect(sock, name)
        except OSError:  # gone between accept and here
            self._limits.give(name, host)
            sock.close()
            return 0
        self._connections[sock.fileno()] = connection
        self.loop.watch(sock.fileno(), READ | HANGUP, connection.on_event)
        self.node.authentication.begin(connection)
        if not connection.is_proven:
            self._give_time(connection)
        return verdict.delay_ms

    def _connect(self, sock: socket.socket, name: str) -> Connection:
        tls = self._tls.get(name)
        if tls is None:
            return Connection(self, sock, name, self.now_ms)
        # Imported here: a broker without TLS does without.
        from barnabas.runtime.tls_connection import TlsConnection

        tls.look(self.node.config, self.now_ms)
        return TlsConnection(self, sock, name, self.now_ms, tls)

    def _give_time(self, connection: Connection) -> None:
        """Have a client prove itself within a while: who sends a byte now and then would keep its place for ever."""
        deadline_ms = self._unproven[connection] = self.loop.clock.monotonic_ms() + PROOF_MS_MAX
        self._look_at_unproven(deadline_ms)

    def _look_at_unproven(self, at_ms: int) -> None:
        """Book the next look; there is one at most, however many come and go."""
        if not self._looks_at_unproven:
            self._looks_at_unproven = True
            self.loop.call_at(at_ms, self._close_unproven)

    def _close_unproven(self) -> None:
        self._looks_at_unproven = False
        now_ms = self.loop.clock.monotonic_ms()
        for connection, deadline_ms in list(self._unproven.items()):
            if deadline_ms > now_ms:
                self._look_at_unproven(deadline_ms)
                return
            del self._unproven[connection]
            if not connection.is_proven:
                log.info("closing: no login in time", extra={"peer": connection.peer_host})
                connection.close()

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
                try:
                    connection.handle_frames(self.receive_view, start, end)
                except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                    connection.on_fault(fault)

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
                    try:
                        connection.flush()
                    except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                        connection.on_fault(fault)
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
