"""One client's connection: frames in, replies out in order, back-pressure.

One request per connection is under way at a time, as in Kafka: while one waits, or while replies
do not drain, the connection is not read. That keeps replies in order and bounds what a client can make
the broker hold: one receive buffer's worth of requests.

What was received, and in which order, is the `Inbox`'s; what is to be sent, the `Outbox`'s. Knows frames and buffers, not what is in them: the node
does. Reads and writes what it is given as a socket: a real one, one with TLS on top, or a simulated one. A client's bad bytes close its connection and
nothing else.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.inbox import SIZE_BYTES, Inbox
from barnabas.broker.outcomes import GoElsewhere
from barnabas.model.principal import ANONYMOUS
from barnabas.ports import HANGUP, READ, WRITE, FileSlice

if TYPE_CHECKING:
    from barnabas.broker.outbox import Outbox
    from barnabas.broker.receive_memory import FrameMemory
    from barnabas.broker.repeats import Repeats
    from barnabas.broker.turn import Turn
    from barnabas.ports import Timer

#: No more requests are read from a connection that has so many reply parts unsent.
UNSENT_PARTS_MAX: Final = 256
#: Nor from one that has so many bytes of replies in memory; slices of files do not count.
UNSENT_BYTES_MAX: Final = 1024 * 1024

_GONE: Final = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError, TimeoutError)
_SIZE: Final = struct.Struct(">i")

log = logging.getLogger(__name__)


class Ends(NamedTuple):
    """Between whom a connection is."""

    listener: str
    local_host: str
    local_port: int
    peer_host: str


class ClientLink:
    """One client. It is the node's Link."""

    __slots__ = (
        "_closes", "_events", "_fd", "_frame", "_kept", "_muted", "_out", "_postponed", "_sock",
        "_turn", "_waiting", "authenticator", "frame_bytes_max", "has_staged", "inbox",
        "is_open", "lanes", "last_used_ms", "listener", "local_host", "local_port", "peer_host",
        "principal",
    )  # fmt: skip

    def __init__(
        self,
        turn: Turn,
        sock: Any,  # noqa: ANN401  (a socket, or what reads and sends as one)
        out: Outbox,
        ends: Ends,
    ) -> None:
        """Take over a fresh socket, which never waits; what is to be sent goes through `out`."""
        self._turn = turn
        self._sock = sock
        self._fd = sock.fileno()
        self.listener, self.local_host, self.local_port, self.peer_host = ends
        self.is_open = True
        self.last_used_ms = turn.now_ms
        self.lanes: Repeats | None = None
        self.principal = ANONYMOUS
        self.authenticator: Any = None
        self.frame_bytes_max = turn.request_bytes_max
        #: No more is read, and it closes once everything is sent.
        self._closes = False
        self._events = READ | HANGUP
        #: No request is taken: one is under way, or the client is throttled.
        self._waiting = False
        self._muted: Timer | None = None
        #: Requests went a lane, and their replies come when what is staged is written.
        self.has_staged = False
        #: What the request at hand lies in, if it is its own memory.
        self._frame: FrameMemory | None = None
        #: That of a request which waits.
        self._kept: FrameMemory | None = None
        #: Requests lie in the backlog that are to be handled in the next turn.
        self._postponed = False
        self._out = out
        self.inbox = Inbox(turn.frame_pool)

    def on_event(self, events: int) -> None:
        """React to what the poll says."""
        try:
            if events == READ:
                self._on_readable()
                return
            if events & WRITE:
                self.flush()
            if self.is_open and events & READ:
                self._on_readable()
            elif self.is_open and events & ~(READ | WRITE) and not self._goes_on:
                self.close()  # hung up or broken, and nothing left to read
        except Exception as fault:  # noqa: BLE001  (an edge: see on_fault)
            self.on_fault(fault)

    def on_fault(self, fault: BaseException) -> None:
        """Tell of a fault of ours, and close: whatever a client brings about, it does to itself alone."""
        self._turn.events.on_fault(self, fault)
        self.close()

    def reply(self, buffers: list[Any]) -> None:
        """Answer the request that was waiting."""
        assert self._waiting or not self.is_open, "a reply without a request that waits for it"
        if not self.is_open:
            return
        self._waiting = self._muted is not None
        self._end_frame()
        self.last_used_ms = self._turn.clock.monotonic_ms()
        self._out.extend(buffers)
        self._turn.dirty.append(self)

    def mute(self, delay_ms: int) -> None:
        """Answer the request at hand, then take none for a while."""
        if self.is_open and self._muted is None:
            turn = self._turn
            self._waiting = True
            self._muted = turn.loop.call_at(turn.clock.monotonic_ms() + delay_ms, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._waiting = False
        self._turn.dirty.append(self)

    @property
    def has_work(self) -> bool:
        """Tell whether a request waits or a reply is unsent."""
        is_under_way = self._waiting and self._muted is None
        return is_under_way or self.has_staged or bool(self._out)

    @property
    def owns_frame(self) -> bool:
        """Tell whether the request at hand lies in memory that stays as it is until the answer; else it is lent for this turn."""
        return self._frame is not None

    @property
    def is_proven(self) -> bool:
        """Tell whether the client has done what its listener asks for before anything else."""
        return self.authenticator is None or bool(self.authenticator.is_done)

    @property
    def is_waiting(self) -> bool:
        """Tell whether the client has reason to be silent: its request is under way. That it is throttled is none, as in Kafka."""
        return self._waiting and self._muted is None

    @property
    def _goes_on(self) -> bool:
        """Tell whether requests that were read are handled soon, and nothing need come before that."""
        return (
            len(self.inbox.rest) >= SIZE_BYTES
            and not (self._waiting or self._out)
            and not self._turn.is_stopping
        )

    def close_unproven(self) -> None:
        """Close: the client has not proven itself in time."""
        log.info("closing: no login in time", extra={"peer": self.peer_host})
        self.close()

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
        self._turn.events.on_closed(self, self._fd)
        self._sock.close()
        self._out.clear()
        self.lanes = None  # they know this link: a circle that only the collector would find
        self.inbox.clear()
        self._kept = None  # its request may be under way still, and reads it until its end: no memory for others

    def _end_frame(self) -> None:
        """Give the memory of the request that was under way back, once this turn is over."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._turn.spent.append(kept)

    def _on_readable(self) -> None:
        inbox = self.inbox
        if inbox.has_piece():
            return
        if self._waiting or self._out or self._turn.is_stopping or self._goes_on:
            self._watch(HANGUP | (WRITE if self._out else 0))
            return
        turn = self._turn
        memory = turn.make_room()
        if not self.is_open:
            return
        try:
            count = inbox.receive(self._sock, memory, turn.read_bytes)
        except BlockingIOError:
            return
        except OSError as problem:
            # Besides the usual ways to go: no route to the host any more, the network is down.
            if not isinstance(problem, _GONE):
                log.warning("closing: cannot receive: %s", problem, extra={"peer": self.peer_host})
            self.close()
            return
        if count == 0:
            self.close()
            return
        self.last_used_ms = turn.now_ms
        if inbox.has_piece():
            turn.received.append(self)

    def handle_received(self) -> None:
        """Handle what was received in this turn."""
        view, start, end, self._frame = self.inbox.take()
        self._handle_frames(view, start, end)
        frame, self._frame = self._frame, None
        if frame is not None:
            self._turn.spent.append(frame)

    def _handle_frames(self, view: memoryview, position: int, end: int) -> None:
        """Handle every whole frame in view[position:end], keep the rest."""
        taken = self._take_repeated(view, position, end)
        if taken < end:
            self._handle_others(view, position, taken, end)

    def _handle_others(self, view: memoryview, start: int, position: int, end: int) -> None:
        """Handle frames from `position` on one by one; from `start` on they are of one connection and turn."""
        turn = self._turn
        out_before = len(self._out)
        held_bytes, is_cut_short = 0, False
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 < size <= self.frame_bytes_max:
                log.warning(
                    "closing: a frame claims %d bytes, allowed are 1 to %d (%s)",
                    size, self.frame_bytes_max, turn.size_setting(self), extra={"peer": self.peer_host},
                )  # fmt: skip
                self.close()
                return
            frame_end = position + 4 + size
            if frame_end > end:
                break
            if self._waiting or self._closes or turn.is_stopping:
                break
            if position > start and (
                len(self._out) > UNSENT_PARTS_MAX or held_bytes > UNSENT_BYTES_MAX or turn.is_long()
            ):
                is_cut_short = True  # and goes on, also if there is no reply to send before
                break
            held_bytes += self._handle(view[position + 4 : frame_end])
            if not self.is_open:
                return
            position = self._take_repeated(view, frame_end, end)
        if position < end:
            is_frame = end - position >= SIZE_BYTES and frame_end > end and not self._waiting
            self.inbox.keep(view, position, end, is_frame=is_frame)
        if is_cut_short or len(self._out) != out_before:
            turn.dirty.append(self)

    def _take_repeated(self, view: memoryview, position: int, end: int) -> int:
        """Let requests that repeat go their short way; return where they end."""
        turn, lanes = self._turn, self.lanes
        if lanes is None or self._waiting or turn.is_stopping or turn.is_long():
            return position
        return lanes.take(view, position, end)

    def reply_repeated(self, answers: bytes) -> None:
        """Answer requests that went their short way."""
        self.has_staged = False
        if self.is_open:
            self._out.append(answers)
            self._turn.dirty.append(self)

    def _handle(self, frame: memoryview) -> int:
        """Let the node handle one request; the bytes that its reply holds in memory."""
        if self.has_staged:
            self._turn.node.staging.write()  # replies in order
        try:
            parts = self._turn.node.on_request(self, frame)
        except GoElsewhere:
            self.close()
            return 0
        except ValueError as problem:
            # WireError and its kin: bytes that are no request. Kafka closes without a word, too.
            self._turn.events.on_bad_request(self, problem)
            self.close()
            return 0
        if parts is None:
            self._waiting = True
            self._kept, self._frame = self._frame, None
            return 0
        self._out.extend(parts)
        return sum(len(part) for part in parts if type(part) is not FileSlice)

    def _go_on(self) -> None:
        """Handle requests that came behind one that waited."""
        if self._waiting or self._postponed:
            return
        if self._turn.is_long():
            self._postponed = True
            self._turn.go_on_next_turn(self)
        else:
            self._handle_backlog()

    def go_on_at_last(self) -> None:
        """Handle requests that a long turn left: one at least, since this turn may be long already, and the next."""
        if self.is_open:
            self._postponed = False
            self._watch(READ | HANGUP)
            self._handle_backlog()

    def _handle_backlog(self) -> None:
        rest = bytearray(self.inbox.take_rest())
        self._handle_frames(memoryview(rest), 0, len(rest))

    def flush(self) -> None:
        """Send what can be sent, the rest when the socket takes more; then go on with requests that were left."""
        try:
            takes_more = True
            while takes_more and self._out:
                takes_more = self._out.send_some(self._sock)
                self.last_used_ms = self._turn.now_ms
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
        if self.inbox.rest:
            self._go_on()

    def _watch(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self._turn.loop.rewatch(self._fd, events)
