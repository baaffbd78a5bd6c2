"""The node's end of a simulated connection: what the turn reads and sends as if it were a socket.

Job: keep bytes that came until they are read, cut answers into frames for the client, and be as awkward as sockets are: reads that end anywhere,
sends that take a part or nothing for a while. `SimTls` decrypts before it gives: what it has decrypted makes no poll return. Must not know what is in
the frames. Invariants: bytes come out in the order in which they came in; nothing of a life that is over leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.broker.outbox import Outbox
from barnabas.ports import HANGUP, READ, WRITE, FileSlice
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, ProcessKilled

if TYPE_CHECKING:
    import random

    from barnabas.broker.client_link import ClientLink
    from barnabas.sim.loop import SimLoop
    from barnabas.sim.network import Connection

#: How often a read ends in the middle of what is there, and a send takes a part and then nothing for a while.
CUT_READ_LIKELIHOOD = 0.15
FULL_LIKELIHOOD = 0.03
_LENGTH_BYTES = 4
#: No answer is longer: what claims to be has lost its place in the stream.
_ANSWER_BYTES_MAX = 1 << 30


class SimStream:
    """See the module."""

    def __init__(self, loop: SimLoop, chance: random.Random, fd: int) -> None:
        """Begin with nothing on its way; `connection` and `link` are the ends."""
        self.loop = loop
        self.life = loop.life
        self.connection: Connection | None = None
        self.link: ClientLink | None = None
        self.is_open = True
        self._chance = chance
        self._fd = fd
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._is_full = False
        #: The client has gone; or the connection was reset.
        self._has_ended = False
        self._is_reset = False

    # What the network does

    def deliver(self, frame: bytes) -> None:
        """Take a request from the network."""
        if self.is_open and not self.life.is_over:
            self._incoming += len(frame).to_bytes(_LENGTH_BYTES) + frame
            self.loop.look(self._fd)

    def on_peer_closed(self, *, is_reset: bool = False) -> None:
        """See the client go."""
        if self.is_open and not self.life.is_over:
            self._has_ended = True
            self._is_reset = is_reset
            self.loop.look(self._fd)

    # What the turn does

    def fileno(self) -> int:
        """Give the number by which the loop knows it."""
        return self._fd

    @property
    def events(self) -> int:
        """What a poll would say of it now."""
        readable = READ if self._incoming or self._has_ended else 0
        return readable | (0 if self._is_full else WRITE) | (HANGUP if self._has_ended else 0)

    def recv_into(self, view: memoryview) -> int:
        """Read some of what came."""
        if self._is_reset:
            raise ConnectionResetError
        if not self._incoming:
            if self._has_ended:
                return 0
            raise BlockingIOError
        count = min(len(view), len(self._incoming))
        if self._chance.random() < CUT_READ_LIKELIHOOD:
            count = self._chance.randint(1, count)
        view[:count] = self._incoming[:count]
        del self._incoming[:count]
        return count

    def send(self, data: Any, _flags: int = 0) -> int:  # noqa: ANN401
        """Take what is sent, or a part, or nothing while the client is slow."""
        if self.life.is_over:
            raise ProcessKilled
        if self._is_reset:
            raise BrokenPipeError
        if self._is_full:
            raise BlockingIOError
        size = len(data)
        if size and self._chance.random() < FULL_LIKELIHOOD:
            size = self._chance.randint(0, size)
            self._is_full = True
            self.loop.scheduler.after(
                self._chance.randint(MS, 50 * MS), "slow reader", self._on_drained
            )
            if not size:
                raise BlockingIOError
        self._outgoing += data[:size]
        self._carry_answers()
        return size

    def sendmsg(self, parts: list[Any], _ancillary: tuple[()], _flags: int = 0) -> int:
        """Send several parts as one."""
        return self.send(b"".join(parts))

    def close(self) -> None:
        """End the connection from the node's side."""
        self.is_open = False
        if not self._has_ended and self.connection is not None and not self.life.is_over:
            self.connection.on_link_closed(silently=False)

    def _on_drained(self) -> None:
        self._is_full = False
        if self.is_open and not self.life.is_over:
            self.loop.look(self._fd)

    def _carry_answers(self) -> None:
        assert self.connection is not None
        outgoing = self._outgoing
        while len(outgoing) >= _LENGTH_BYTES:
            size = int.from_bytes(outgoing[:_LENGTH_BYTES])
            if size > _ANSWER_BYTES_MAX:
                raise Violation("replies are whole", f"a reply claims to have {size} bytes")
            end = _LENGTH_BYTES + size
            if len(outgoing) < end:
                return
            self.connection.carry_reply(bytes(outgoing[_LENGTH_BYTES:end]))
            del outgoing[:end]


class SimTls(SimStream):
    """One that is encrypted: it does as `runtime.tls_socket.TlsSocket`, without OpenSSL."""

    def __init__(self, loop: SimLoop, chance: random.Random, fd: int) -> None:
        """Begin before the handshake."""
        super().__init__(loop, chance, fd)
        self.has_more = False
        self._decrypted = bytearray()
        self._steps_left = chance.randint(1, 2)

    def receive_handshake(self) -> bool:
        """Take what has come, requests behind the handshake's last message among it."""
        if self._is_reset:
            raise ConnectionResetError
        if not self._incoming:
            if self._has_ended:
                return False
            raise BlockingIOError
        self._steps_left -= 1
        if not self._steps_left:
            self._decrypt()
        return True

    def shake(self) -> bool:
        """Compute a step; True once the handshake is done."""
        self.has_more = not self._steps_left
        return self.has_more

    def take_outgoing(self) -> bytes:
        """Send nothing: messages of the handshake are not simulated."""
        return b""

    def peer_subject(self) -> None:
        """Show no certificate."""

    def recv_into(self, view: memoryview) -> int:
        """Read what is decrypted; if nothing is, receive once and decrypt that."""
        self.has_more = False
        if not self._decrypted:
            if self._is_reset:
                raise ConnectionResetError
            if not self._incoming:
                if self._has_ended:
                    return 0
                raise BlockingIOError
            self._decrypt()
        count = min(len(view), len(self._decrypted))
        if self._chance.random() < CUT_READ_LIKELIHOOD:  # a record's end, with others behind it
            count = self._chance.randint(1, count)
            self.has_more = True
        view[:count] = self._decrypted[:count]
        del self._decrypted[:count]
        self.has_more = self.has_more or count == len(view)
        return count

    def _decrypt(self) -> None:
        """Receive what is there, or the first records of it."""
        count = len(self._incoming)
        if self._chance.random() < CUT_READ_LIKELIHOOD:
            count = self._chance.randint(1, count)
        self._decrypted += self._incoming[:count]
        del self._incoming[:count]


class SimOutbox(Outbox):
    """What a simulated connection has to be sent."""

    __slots__ = ()

    def send_file(self, sock: SimStream, part: FileSlice) -> int:
        """Send a large slice: there are no descriptors here."""
        return sock.send(self._reads.read(part))
