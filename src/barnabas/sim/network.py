"""Connections between clients and the node: order within a connection is kept, everything else may happen.

Job: carry frames with a delay; cut connections, seen at once or only by a time-out; lose replies while requests still
arrive (half open); refuse connections. In a cluster each machine has one, and the others are among its clients: all of it may then
happen between two of them only (`Barrier`). Must not know what is in the frames.
Invariants: a byte that arrives is the byte that was sent, in order; what was handed to `on_request` belongs to the
link again when that returns, and is overwritten to prove it.

The node's end does as `runtime.server.Connection`: one request under way at a time, replies in order at the end of a turn,
no further request read while a reply is unsent.
"""

from __future__ import annotations

import errno
from collections import deque
from enum import Enum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

from barnabas.broker.outcomes import CloseLink
from barnabas.model.principal import ANONYMOUS
from barnabas.ports import FileSlice
from barnabas.sim.lent import take_back
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.repeats import Repeats
    from barnabas.sim.machine import Machine
    from barnabas.sim.world import Life, Scheduler

#: No simulated client sends more in one request.
FRAME_BYTES_MAX = 100 * 1024 * 1024
#: Longer requests have memory of their own.
OWN_FRAME_BYTES = 64 * 1024


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
            connection = Connection(self, peer, SimLink(self.machine, self, _address(peer.name)))
            self.connections = [one for one in self.connections if not one.is_closed]
            self.connections.append(connection)
            peer.on_connected(connection)

        self.scheduler.after(self.delay_us(peer.name), f"{peer.name} connects", arrive)


class Connection:
    """One connection, at the client's end."""

    def __init__(self, network: Network, peer: Peer, link: SimLink) -> None:
        """Join the client with a link at the node."""
        self._network = network
        self._peer = peer
        self._link = link
        link.connection = self
        self.is_closed = False
        #: Frames to the node vanish; frames from the node vanish.
        self.loses_requests = False
        self.loses_replies = False
        self._sent_until_us = 0
        self._received_until_us = 0

    @property
    def life(self) -> Life:
        """The life of the node at the other end."""
        return self._link.life

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
            self._link.deliver(frame)

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
        self._book(self._sent_until_us, f"{self._peer.name} hangs up", self._link.on_peer_closed)

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
        scheduler.after(late_us, "link reset", self._link.on_peer_closed)

    def _hang_up(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._peer.on_closed(self)

    def _book(self, after_us: int, label: str, call: Callable[[], None]) -> int:
        scheduler = self._network.scheduler
        at_us = max(after_us, scheduler.now_us + self._network.delay_us(self._peer.name))
        scheduler.after(at_us - scheduler.now_us, label, call)
        return at_us


class SimLink:
    """One connection, at the node's end: the node's Link."""

    listener = "PLAINTEXT"
    local_port = 9092

    def __init__(self, machine: Machine, network: Network, peer_host: str) -> None:
        """Accept a connection in the node's present life."""
        self.local_host = machine.host
        self.peer_host = peer_host
        self.lanes: Repeats | None = None
        self.has_staged = False
        self.owns_frame = False
        self.principal = ANONYMOUS
        self.authenticator: Any = None
        self.frame_bytes_max = FRAME_BYTES_MAX
        self._closes = False
        self.life = machine.life
        self.connection: Connection | None = None
        self._machine = machine
        self._network = network
        self.is_open = True
        self._waiting = False
        self._is_muted = False
        self._backlog: deque[bytes] = deque()
        self._out: list[Any] = []
        self._is_slow = False
        machine.links[self] = None
        if machine.node is not None:
            machine.node.authentication.begin(self)

    @property
    def has_work(self) -> bool:
        """Tell whether a request waits or a reply is unsent."""
        return (self._waiting and not self._is_muted) or bool(self._out)

    def deliver(self, frame: bytes) -> None:
        """Take a request from the network."""
        if self.is_open:
            self._backlog.append(frame)
            self._machine.enter(self._go_on)
        elif self.life.is_over and self.connection is not None:
            self.connection.on_link_closed(silently=not self._machine.is_up)

    def _go_on(self) -> None:
        """Handle all that came, up to a request that waits; nothing while a reply is unsent."""
        if self._out or self._closes:
            return
        while self._backlog and self.is_open and not self._waiting:
            if not self._take_repeated():
                self._handle(bytearray(self._backlog.popleft()))

    def _take_repeated(self) -> bool:
        """Hand over what came as one stream, as the real server does; False if it does not begin with a repetition."""
        if self.lanes is None:
            return False
        stream = bytearray().join(len(one).to_bytes(4) + one for one in self._backlog)
        taken = self.lanes.take(memoryview(stream), 0, len(stream))
        assert self._machine.node is not None
        self._machine.node.staging.write()
        take_back(stream)
        is_repeated = taken > 0
        while taken:
            taken -= len(self._backlog.popleft()) + 4
        return is_repeated

    def reply_repeated(self, answers: bytes) -> None:
        """Answer requests that went a lane."""
        self.has_staged = False
        if self.is_open:
            for reply in _frames(answers):
                self._queue([reply])

    def _handle(self, frame: bytearray) -> None:
        node = self._machine.node
        assert node is not None
        # As in the real server a long frame has memory of its own; that of others is lent until the node returns.
        self.owns_frame = len(frame) > OWN_FRAME_BYTES
        try:
            parts = node.on_request(self, memoryview(frame))
        except CloseLink:
            self.close()
            return
        except ValueError as problem:
            raise Violation(
                "the node understands", f"a good request was refused: {problem!r}"
            ) from problem
        if not self.owns_frame:
            take_back(frame)
        if parts is None:
            self._waiting = True
        else:
            self._queue(parts)

    def reply(self, buffers: list[Any]) -> None:
        """Answer the request that was waiting."""
        if not self.is_open or self.life.is_over:
            return
        assert self._waiting, "a reply without a request that waits for it"
        self._waiting = self._is_muted
        self._queue(buffers)
        if not buffers:
            self._machine.dirty.append(self)

    def mute(self, delay_ms: int) -> None:
        """Answer the request at hand, then take none for a while."""
        self._waiting = self._is_muted = True
        self._network.scheduler.after(delay_ms * MS, "throttled", self._unmute)

    def _unmute(self) -> None:
        self._waiting = self._is_muted = False
        if self.is_open and not self.life.is_over:
            self._machine.enter(self._go_on)

    def _queue(self, parts: list[Any]) -> None:
        if parts:
            self._out.append(parts)
            self._machine.dirty.append(self)

    def flush(self) -> None:
        """Send what is ready; sometimes the client is slow and it waits, file slices unread."""
        if not self.is_open or self._is_slow:
            return
        if self._out and self._network.chance.random() < 0.03:
            self._is_slow = True
            delay_us = self._network.chance.randint(MS, 50 * MS)
            self._network.scheduler.after(delay_us, "slow reader", self._flush_late)
            return
        self._send()

    def _flush_late(self) -> None:
        self._is_slow = False
        if self.is_open and not self.life.is_over:
            self._machine.enter(self._send)

    def _send(self) -> None:
        replies, self._out = self._out, []
        for parts in replies:
            try:
                frame = b"".join(_bytes(part) for part in parts)
            except OSError:
                self.close()
                return
            size = int.from_bytes(frame[:4])
            if size != len(frame) - 4:
                raise Violation(
                    "replies are whole", f"a reply of {len(frame) - 4} bytes claims to have {size}"
                )
            assert self.connection is not None
            self.connection.carry_reply(frame[4:])
        if self._closes and not self._waiting:
            self.close()
        self._go_on()

    def close_when_sent(self) -> None:
        """End the connection once the request under way is answered."""
        self._closes = True

    def close(self) -> None:
        """End the connection from the node's side."""
        if self.is_open:
            self._forget()
            assert self.connection is not None
            self.connection.on_link_closed(silently=False)

    def on_peer_closed(self) -> None:
        """See the client go."""
        if self.is_open and not self.life.is_over:
            self._machine.enter(self._forget)

    def on_node_gone(self) -> None:
        """See the process die: its kernel may tell the client, or the machine is gone and nobody does."""
        self.is_open = False
        self._network.scheduler.keep((self._backlog, self._out))
        assert self.connection is not None
        self.connection.on_link_closed(silently=self._network.chance.random() < 0.3)

    def _forget(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._backlog.clear()
        self._out = []
        self._machine.links.pop(self, None)
        assert self._machine.node is not None
        self._machine.node.on_disconnect(self)


def _bytes(part: Any) -> bytes:  # noqa: ANN401
    """Read a part of a reply. OSError, which ends the link as in the real server, if a log was cut under a client that is slow to read."""
    if not isinstance(part, FileSlice):
        return bytes(part)
    data = part.read()
    if len(data) < part.size:
        raise OSError(errno.EIO, f"{part.file.path} ends before {part.position + part.size}")
    return data


def _frames(stream: bytes) -> Iterator[bytes]:
    """Cut replies apart, each with its length."""
    while stream:
        size = int.from_bytes(stream[:4]) + 4
        yield stream[:size]
        stream = stream[size:]


def _address(name: str) -> str:
    """Give somebody an address, the same in every run."""
    return str(ip_address(crc32(name.encode())))
