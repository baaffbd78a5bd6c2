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
from barnabas.broker.edge import call_all
from barnabas.broker.quiet import Quiet
from barnabas.runtime.acceptor import Acceptor
from barnabas.runtime.connection import Connection
from barnabas.runtime.disk import max_connections
from barnabas.runtime.loop import HANGUP, READ
from barnabas.runtime.outbox import SharedReads
from barnabas.runtime.receive_memory import TURN_BYTES, FramePool, TurnMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.ports import Timer
    from barnabas.runtime.loop import Loop
    from barnabas.runtime.receive_memory import FrameMemory
    from barnabas.runtime.tls import TlsListener

#: What a read is given at least: with less left, what lies there is handled first.
RECEIVE_ROOM_BYTES: Final = 64 * 1024
#: Many that are ready share a buffer's worth, so that a turn stays short: but each may send this much in it.
READ_BYTES_MIN: Final = 16 * 1024
#: When a turn has taken this long, each connection gets one more request in it and no second one.
LONG_TURN_NS: Final = 50_000_000
#: How long readers are held at most while producers send on; a turn that takes longer has gathered enough.
HOLD_READERS_NS: Final = 2_000_000
#: How often memory for long frames that is not needed any more is let go.
TRIM_MS: Final = 30_000
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
        self._turn_memory = TurnMemory()
        self.frame_pool = FramePool()
        #: Whose inbox holds a piece that is to be handled, in the order in which they came.
        self.received: list[Connection] = []
        #: Memory of frames that are done with; it is used again after this turn.
        self.spent: list[FrameMemory] = []
        #: The most that one read takes.
        self.read_bytes = READ_BYTES_MIN
        self.dirty: list[Connection] = []
        self.shared_reads = SharedReads()
        self._held_since_ns: int | None = None
        self.now_ms = loop.clock.monotonic_ms()
        self.is_stopping = False
        self._next_turn: list[Connection] = []
        self._acceptors: list[Acceptor] = []
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
        standstill_ms = node.standstill_ms
        if standstill_ms is not None:
            loop.watch_standstill(standstill_ms, node.on_stood_still)
        self._book_idle_check()
        self._book_trim()

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
        self._acceptors.append(
            Acceptor(
                self.loop,
                sock,
                partial(self._adopt, name),
                self._why_full,
                lambda count: self.make_way(count),
            )
        )
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
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

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

    def _why_full(self) -> str | None:
        """Tell why no connection can be taken; None if one can."""
        if len(self._connections) < self._connections_max:
            return None
        return f"there are {self._connections_max}"

    def _adopt(self, name: str, sock: socket.socket) -> int:
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
        try:
            self.node.authentication.begin(connection)
        except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
            connection.on_fault(fault)
        else:
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
        late: list[Connection] = []
        for connection, deadline_ms in self._unproven.items():
            if deadline_ms > now_ms:
                self._look_at_unproven(deadline_ms)
                break
            late.append(connection)
        for connection in late:
            del self._unproven[connection]
        call_all([connection.close_unproven for connection in late if not connection.is_proven])

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

    def make_room(self) -> TurnMemory:
        """Give the memory of the turn with room for a read in it: what fills it is handled first."""
        turn = self._turn_memory
        if turn.position == 0:
            share = TURN_BYTES // (self.loop.ready_count or 1)
            self.read_bytes = max(share, READ_BYTES_MIN)
        elif turn.position > TURN_BYTES - RECEIVE_ROOM_BYTES:
            self._handle_received()
            self.node.staging.write()  # it lies in this memory
            self._take_memory_back()
        return turn

    def _handle_received(self) -> None:
        """Handle what connections have sent, once all that were ready have been read."""
        received, self.received = self.received, []
        for connection in received:
            if connection.is_open:
                try:
                    connection.handle_received()
                except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                    connection.on_fault(fault)

    def _take_memory_back(self) -> None:
        """End the time for which memory was lent: everything is handled, and what was staged is written."""
        turn, pool = self._turn_memory, self.frame_pool
        if turn.position and not turn.take_back():
            self._tell_kept("a turn", turn.kept_count)
        if self.spent:
            spent, self.spent = self.spent, []
            kept_before = pool.kept_count
            for frame in spent:
                pool.give_back(frame)
            if pool.kept_count != kept_before:
                self._tell_kept("a request", pool.kept_count)

    def _tell_kept(self, whose: str, times: int) -> None:
        """Report a fault of a handler: it reads memory that is no longer lent to it. It gets that memory for itself, so nothing is mixed up."""
        ending = self._quiet.ending(whose, self.now_ms)
        if ending is not None:
            log.error(
                "memory of %s was still in use after its end, %d times so far%s",
                whose, times, ending,
            )  # fmt: skip

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
            try:
                connection.go_on_at_last()
            except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                connection.on_fault(fault)

    def _on_turn_end(self) -> None:
        """Finish what waited for this turn's appends, then send everything that is ready.

        Whatever fails, what is ready is sent, and memory comes back: the edge is the loop's.
        """
        self.now_ms = self.loop.clock.monotonic_ms()
        try:
            self._handle_received()
            self._answer_readers()
            while self.dirty:
                self._flush_dirty()
                self._answer_readers()
        finally:
            self._flush_dirty()
            self.shared_reads.forget()
            self._take_memory_back()

    def _flush_dirty(self) -> None:
        dirty, self.dirty = self.dirty, []
        for connection in dirty:
            if connection.is_open:
                try:
                    connection.flush()
                except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                    connection.on_fault(fault)

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

    def _book_trim(self) -> None:
        self.loop.call_at(self.loop.clock.monotonic_ms() + TRIM_MS, self._trim)

    def _trim(self) -> None:
        self._book_trim()  # first: whatever becomes of this round, there is a next one
        self.frame_pool.trim()

    def _book_idle_check(self) -> None:
        if self._idle_ms_max < 0:
            return
        pause_ms = max(self._idle_ms_max // 4, 1)
        self.loop.call_at(self.loop.clock.monotonic_ms() + pause_ms, self._close_idle)

    def _close_idle(self) -> None:
        self._book_idle_check()
        limit = self.loop.clock.monotonic_ms() - self._idle_ms_max
        # A reply that nobody takes is no excuse: Kafka closes such a connection, too.
        idle = [
            connection
            for connection in self._connections.values()
            if connection.last_used_ms < limit and not connection.is_waiting
        ]
        call_all([connection.close for connection in idle])
