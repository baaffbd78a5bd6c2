"""Connections between clients and the node: order within a connection is kept, everything else may happen.

Job: carry frames with a delay; cut connections, seen at once or only by a time-out; lose replies while requests still
arrive (half open); refuse connections. In a cluster each machine has one, and the others are among its clients: all of it may then
happen between two of them only (`Barrier`). Must not know what is in the frames.
Invariant: a byte that arrives is the byte that was sent, in order.

The node's end is a `SimStream`, which the real turn reads and writes (`broker/turn.py`).
"""

from __future__ import annotations

from enum import Enum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

from barnabas.sim.world import MS, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.sim.machine import Machine
    from barnabas.sim.stream import SimStream
    from barnabas.sim.world import Life, Scheduler


class Peer(Protocol):
    """The client at the other end."""

    name: str

    def on_connected(self, connection: Connection) -> None:
        """Take the connection that was asked for."""

    def on_refused(self) -> None:
        """Learn that nobody listens."""

    def on_frame(self, connection: Connection, frame: bytes) -> None:
        """Take a reply, without its length."""

    def on_closed(self, connection: Connection) -> None:
        """Learn that the other side closed."""


class Barrier(Enum):
    """What stands between a machine and one of those who connect to it."""

    #: Connections break, and new ones cannot be had; each end learns of it soon, late or never.
    CUT = "cut"
    #: Nothing gets through, and all of it arrives in the end, as when TCP sends again.
    LATE = "late"
    #: What is sent to the machine is lost, or what it sends; nobody is told.
    DEAF = "deaf"
    MUTE = "mute"


class Network:
    """What lies between the clients and the machine."""

    def __init__(self, scheduler: Scheduler, machine: Machine) -> None:
        """Start with everything in order."""
        self.scheduler = scheduler
        self.machine = machine
        self.chance = scheduler.chance(f"{machine.prefix}network")
        self.is_cut = False
        self.longest_us = 2 * MS
        self.connections: list[Connection] = []
        self._barriers: dict[str, tuple[Barrier, int]] = {}

    def delay_us(self, peer: str = "") -> int:
        """Draw how long a frame is on its way."""
        delay_us = self.chance.randint(50, self.longest_us)
        found = self._barriers.get(peer)
        if found is not None and found[0] is Barrier.LATE:
            delay_us += max(0, found[1] - self.scheduler.now_us)
        return delay_us

    def raise_barrier(self, peer: str, barrier: Barrier, end_us: int) -> None:
        """Disturb what is between the machine and one of those who connect, up to a time."""
        self._barriers[peer] = (barrier, end_us)
        for connection in self.connections:
            if connection.peer_name == peer:
                connection.on_barrier(barrier)

    def drop_barriers(self) -> None:
        """Let everybody through."""
        self._barriers.clear()

    def barrier(self, peer: str) -> Barrier | None:
        """Return what stands between the machine and somebody."""
        found = self._barriers.get(peer)
        if found is not None and found[1] <= self.scheduler.now_us:
            del self._barriers[peer]
            return None
        return None if found is None else found[0]

    def connect(self, peer: Peer) -> None:
        """Answer with `on_connected` or `on_refused`."""

        def arrive() -> None:
            barrier = self.barrier(peer.name)
            if barrier not in (None, Barrier.LATE):
                self.scheduler.after(
                    self.chance.randint(MS, SECOND), f"{peer.name} gives up", peer.on_refused
                )
                return
            if self.is_cut or not self.machine.is_up:
                peer.on_refused()
                return
            connection = Connection(self, peer, self.machine.accept(_address(peer.name)))
            self.connections = [one for one in self.connections if not one.is_closed]
            self.connections.append(connection)
            peer.on_connected(connection)

        self.scheduler.after(self.delay_us(peer.name), f"{peer.name} connects", arrive)


class Connection:
    """One connection, at the client's end."""

    def __init__(self, network: Network, peer: Peer, stream: SimStream) -> None:
        """Join the client with a stream at the node."""
        self._network = network
        self._peer = peer
        self._stream = stream
        stream.connection = self
        self.is_closed = False
        #: Frames to the node vanish; frames from the node vanish.
        self.loses_requests = False
        self.loses_replies = False
        self._sent_until_us = 0
        self._received_until_us = 0

    @property
    def life(self) -> Life:
        """The life of the node at the other end."""
        return self._stream.life

    @property
    def peer_name(self) -> str:
        """Who connected."""
        return self._peer.name

    def on_barrier(self, barrier: Barrier) -> None:
        """Be disturbed from now on; what was lost does not come any more when it is over."""
        if barrier is Barrier.CUT:
            self.cut()
        elif barrier is Barrier.DEAF:
            self.loses_requests = True
        elif barrier is Barrier.MUTE:
            self.loses_replies = True

    def send(self, frame: bytes) -> None:
        """Send a frame, without its length."""
        assert not self.is_closed
        self._sent_until_us = self._book(
            self._sent_until_us, f"{self._peer.name} -> node", lambda: self._arrive(frame)
        )

    def _arrive(self, frame: bytes) -> None:
        if not self.loses_requests:
            self._network.scheduler.note("request", frame)
            if self.life.is_over:
                self.on_link_closed(silently=not self._network.machine.is_up)
            else:
                self._stream.deliver(frame)

    def carry_reply(self, frame: bytes) -> None:
        """Bring a reply to the client."""

        def arrive() -> None:
            if not (self.is_closed or self.loses_replies):
                self._network.scheduler.note("reply", frame)
                self._peer.on_frame(self, frame)

        self._received_until_us = self._book(
            self._received_until_us, f"node -> {self._peer.name}", arrive
        )

    def close(self) -> None:
        """Close from the client's side: what was sent may still arrive, then the node learns of it."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._network.chance.random() < 0.3:
            self.loses_requests = True
        self._book(self._sent_until_us, f"{self._peer.name} hangs up", self._stream.on_peer_closed)

    def on_link_closed(self, *, silently: bool) -> None:
        """Tell the client, after what was sent to it, that the node's end is gone."""
        if silently:
            return
        self._book(self._received_until_us, f"node hangs up on {self._peer.name}", self._hang_up)

    def cut(self) -> None:
        """Break it: each end learns of it soon, late or never."""
        chance = self._network.chance
        self.loses_requests = self.loses_replies = True
        scheduler = self._network.scheduler
        if chance.random() < 0.5:
            scheduler.after(chance.randint(1, 100 * MS), "reset", self._hang_up)
        late_us = chance.randint(1, 2 * SECOND)
        is_reset = chance.random() < 0.5
        scheduler.after(
            late_us, "link reset", lambda: self._stream.on_peer_closed(is_reset=is_reset)
        )

    def _hang_up(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._peer.on_closed(self)

    def _book(self, after_us: int, label: str, call: Callable[[], None]) -> int:
        scheduler = self._network.scheduler
        at_us = max(after_us, scheduler.now_us + self._network.delay_us(self._peer.name))
        scheduler.after(at_us - scheduler.now_us, label, call)
        return at_us


def _address(name: str) -> str:
    """Give somebody an address, the same in every run."""
    return str(ip_address(crc32(name.encode())))
