"""Listeners, and who is connected to them.

Job: take connections and let go of those that may not stay (too many, idle, not proven in time), and give the turn its sockets and clocks. What happens
in a turn, `broker/turn.py` knows; what a connection is, `broker/client_link.py`.
"""

from __future__ import annotations

import logging
import socket
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from barnabas.broker.client_link import ClientLink, Ends
from barnabas.broker.connection_limits import ConnectionLimits
from barnabas.broker.edge import call_all
from barnabas.broker.quiet import Quiet
from barnabas.broker.turn import Turn
from barnabas.ports import HANGUP, READ
from barnabas.runtime.acceptor import Acceptor
from barnabas.runtime.disk import max_connections
from barnabas.runtime.socket_outbox import SocketOutbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.ports import Timer
    from barnabas.runtime.loop import Loop
    from barnabas.runtime.tls import TlsListener

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
        self._idle_ms_max = config.get_int("connections.max.idle.ms")
        self._send_buffer = config.get_int("socket.send.buffer.bytes")
        self._receive_buffer = config.get_int("socket.receive.buffer.bytes")
        self._backlog_size = config.get_int("socket.listen.backlog.size")
        self.turn = Turn(node, loop, monotonic_ns, self)
        self._acceptors: list[Acceptor] = []
        self._connections: dict[int, ClientLink] = {}
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
        self._unproven: dict[ClientLink, int] = {}
        self._looks_at_unproven = False
        loop.at_turn_end(self.turn.end_turn)
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

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self._connections)

    def stop_listening(self) -> None:
        """Take no more connections and no more requests."""
        self.turn.is_stopping = True
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

    def on_closed(self, link: ClientLink, fd: int) -> None:
        """Forget a connection that is closing."""
        self.loop.unwatch(fd)
        del self._connections[fd]
        self._unproven.pop(link, None)
        self._limits.give(link.listener, link.peer_host)
        self.node.on_disconnect(link)

    def on_fault(self, link: ClientLink, fault: BaseException) -> None:
        """Tell of a fault of ours."""
        log.error("closing: a fault of the broker", exc_info=fault, extra={"peer": link.peer_host})

    def on_bad_request(self, link: ClientLink, problem: ValueError) -> None:
        """Tell of bytes that are no request."""
        log.warning("closing: %s", problem, extra={"peer": link.peer_host})

    def on_kept(self, whose: str, times: int) -> None:
        """Report a fault of a handler, which kept what was only lent to it."""
        ending = self._quiet.ending(whose, self.turn.now_ms)
        if ending is not None:
            log.error(
                "memory of %s was still in use after its end, %d times so far%s",
                whose, times, ending,
            )  # fmt: skip

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

    def _connect(self, sock: socket.socket, name: str) -> ClientLink:
        turn, tls = self.turn, self._tls.get(name)
        host, port = sock.getsockname()[:2]
        ends = Ends(name, host, port, sock.getpeername()[0])
        if tls is None:
            return ClientLink(turn, sock, SocketOutbox(turn.shared_reads), ends)
        # Imported here: a broker without TLS does without.
        from barnabas.broker.tls_link import TlsLink
        from barnabas.runtime.tls_socket import TlsOutbox, TlsSocket

        tls.look(self.node.config, turn.now_ms)
        secure = TlsSocket(sock, tls.context)
        return TlsLink(turn, secure, TlsOutbox(turn.shared_reads, secure), ends, tls)

    def _give_time(self, connection: ClientLink) -> None:
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
        late: list[ClientLink] = []
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

    def _book_trim(self) -> None:
        self.loop.call_at(self.loop.clock.monotonic_ms() + TRIM_MS, self._trim)

    def _trim(self) -> None:
        self._book_trim()  # first: whatever becomes of this round, there is a next one
        self.turn.frame_pool.trim()

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
