"""The Peers port in the simulation: connections that one life of a node opens to other machines.

Job: be a client of the other machine's `Network`, and tell the node what becomes of it on its thread of decision. Must not
know what is asked. Invariants: as the port has it, nothing is told before `connect` returns or after `close`; nothing of
a life that is over is told or sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.sim.lent import take_back

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Buffer

    from barnabas.ports import PeerEvents
    from barnabas.sim.network import Connection, Network
    from barnabas.sim.world import Life, Scheduler

    #: Where each machine is reached, by its host name.
    Routes = Mapping[str, Network]

_LENGTH_BYTES = 4


class SimPeer:
    """One connection, at the end of the broker that opened it."""

    def __init__(self, peers: SimPeers, name: str, events: PeerEvents) -> None:
        """Begin without a connection."""
        self.name = name
        self._peers = peers
        self._events = events
        self._connection: Connection | None = None
        self.is_closed = False

    # What the node does

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a request whole."""
        connection = self._connection
        if connection is not None and not connection.is_closed and not self._peers.life.is_over:
            frame = b"".join(bytes(part) for part in buffers)
            assert int.from_bytes(frame[:_LENGTH_BYTES]) == len(frame) - _LENGTH_BYTES
            connection.send(frame[_LENGTH_BYTES:])

    def close(self) -> None:
        """End the connection; nothing is told any more."""
        self.is_closed = True
        self._peers.open.pop(self, None)
        if self._connection is not None:
            self._connection.close()

    # What the network tells

    def on_connected(self, connection: Connection) -> None:
        """Have the connection, unless nobody wants it any more."""
        self._connection = connection
        if self.is_closed or self._peers.life.is_over:
            connection.close()
        else:
            self._tell(self._events.on_connected)

    def on_refused(self) -> None:
        """Learn that nobody listens."""
        self._end("connection refused")

    def on_frame(self, _connection: Connection, frame: bytes) -> None:
        """Hand a reply over; its memory is lent for that time."""

        def take() -> None:
            memory = bytearray(frame)
            with memoryview(memory) as lent:  # released at the end: only parts of it can be kept
                self._events.on_frame(lent)
            take_back(memory)

        self._tell(take)

    def on_closed(self, _connection: Connection) -> None:
        """Learn that the other side closed."""
        self._end("connection lost")

    def _end(self, reason: str) -> None:
        def tell() -> None:
            self.is_closed = True
            self._peers.open.pop(self, None)
            self._events.on_closed(reason)

        self._tell(tell)

    def _tell(self, call: Callable[[], None]) -> None:
        def unless_closed() -> None:
            if not self.is_closed:
                call()

        if self._peers.life.is_over:
            self._peers.scheduler.keep(call)
        elif not self.is_closed:
            self._peers.enter(unless_closed)


class SimPeers:
    """The port, as one life of a node has it."""

    def __init__(
        self,
        scheduler: Scheduler,
        life: Life,
        enter: Callable[[Callable[[], None]], None],
        name: str,
        routes: Routes,
    ) -> None:
        """Calls go through `enter`; `name` is who connects."""
        self.scheduler = scheduler
        self.life = life
        self.enter = enter
        self.open: dict[SimPeer, None] = {}
        self._name = name
        self._routes = routes

    def connect(self, host: str, port: int, events: PeerEvents) -> SimPeer:
        """Begin to connect."""
        peer = SimPeer(self, self._name, events)
        self.open[peer] = None
        self._routes[host].connect(peer)
        return peer

    def on_node_gone(self) -> None:
        """See the process end: its kernel closes what it had open."""
        self.scheduler.keep(dict(self.open))
        for peer in list(self.open):
            peer.close()
