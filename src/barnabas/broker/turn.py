"""One turn of the thread of decision, as clients' connections see it.

A turn goes in steps: read every connection that is ready, handle what was read, write what was staged, answer who waited, send. Not one
connection after the other: on a processor whose kernel forgets branch predictions at each system call, Python between two of them runs at
half its speed (docs/adr/0004). Replies of one turn leave in one system call.

Job: the order of these steps, the memory that all reads of a turn share, and how long others wait for one connection. What a connection
is, `client_link.py` knows. Must not know sockets, polls or clocks: who drives it (`runtime/server.py`, `sim/machine.py`) hands them over.
Invariants: what was read is handled before its memory is used again; what was staged is written before; nothing is sent before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.broker.outbox import SharedReads
from barnabas.broker.receive_memory import TURN_BYTES, FramePool, TurnMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.client_link import ClientLink
    from barnabas.broker.node import Node
    from barnabas.broker.pace import Pace
    from barnabas.broker.receive_memory import FrameMemory
    from barnabas.ports import Clock, Timer

#: What a read is given at least: with less left, what lies there is handled first.
RECEIVE_ROOM_BYTES: Final = 64 * 1024
#: Many that are ready share a buffer's worth, so that a turn stays short: but each may send this much in it.
READ_BYTES_MIN: Final = 16 * 1024
#: When a turn has taken this long, each connection gets one more request in it and no second one.
LONG_TURN_NS: Final = 50_000_000
#: How long readers are held at most while producers send on; a turn that takes longer has gathered enough.
HOLD_READERS_NS: Final = 2_000_000


class TurnLoop(Protocol):
    """What calls: polls, timers, and calls in the next turn."""

    clock: Any
    pace: Pace

    def rewatch(self, fd: int, events: int) -> None:
        """Change what a descriptor is watched for."""

    def call_at(self, deadline_ms: int, call: Callable[[], None]) -> Timer:
        """Book a call at a time of the monotonic clock."""

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made in the next turn."""


class TurnEvents(Protocol):
    """Who drives the turn, and hears what becomes of connections and of memory."""

    def on_closed(self, link: ClientLink, fd: int) -> None:
        """Forget a connection that is closing; its descriptor is closed after this."""

    def on_fault(self, link: ClientLink, fault: BaseException) -> None:
        """Tell of a fault of ours, which closes the connection that brought it about."""

    def on_bad_request(self, link: ClientLink, problem: ValueError) -> None:
        """Tell of bytes that are no request, which close their connection."""

    def on_kept(self, whose: str, times: int) -> None:
        """Tell of a handler that reads memory which is no longer lent to it. It gets that memory for itself, so nothing is mixed up."""


class Turn:
    """See the module."""

    def __init__(
        self, node: Node, loop: TurnLoop, now_ns: Callable[[], int], events: TurnEvents
    ) -> None:
        """Serve this node; `now_ns` is the clock by which a turn is long."""
        self.node = node
        self.loop = loop
        self.events = events
        self.clock: Clock = loop.clock
        self._pace = loop.pace
        self._now_ns = now_ns
        self.request_bytes_max = node.config.get_int("socket.request.max.bytes")
        self._memory = TurnMemory()
        self.frame_pool = FramePool()
        #: Whose inbox holds a piece that is to be handled, in the order in which they came.
        self.received: list[ClientLink] = []
        #: Memory of frames that are done with; it is used again after this turn.
        self.spent: list[FrameMemory] = []
        #: The most that one read takes.
        self.read_bytes = READ_BYTES_MIN
        self.dirty: list[ClientLink] = []
        self.shared_reads = SharedReads()
        self.now_ms = self.clock.monotonic_ms()
        #: No more requests are taken.
        self.is_stopping = False
        self._held_since_ns: int | None = None
        self._next_turn: list[ClientLink] = []

    def size_setting(self, link: ClientLink) -> str:
        """Name the setting that bounds a connection's requests now."""
        if link.frame_bytes_max == self.request_bytes_max:
            return "socket.request.max.bytes"
        return "sasl.server.max.receive.size, before a login is done"

    def make_room(self) -> TurnMemory:
        """Give the memory of the turn with room for a read in it: what fills it is handled first."""
        memory = self._memory
        if memory.position == 0:
            share = TURN_BYTES // (self._pace.ready_count or 1)
            self.read_bytes = max(share, READ_BYTES_MIN)
        elif memory.position > TURN_BYTES - RECEIVE_ROOM_BYTES:
            self._handle_received()
            self.node.staging.write()  # it lies in this memory
            self._take_memory_back()
        return memory

    def is_long(self) -> bool:
        """Tell whether others have waited long enough for this turn to end."""
        return self._now_ns() - self._pace.start_ns > LONG_TURN_NS

    def go_on_next_turn(self, link: ClientLink) -> None:
        """Handle what a connection has sent already once the others had their turn."""
        if not self._next_turn:
            self.loop.post(self._go_on_all)
        self._next_turn.append(link)

    def _go_on_all(self) -> None:
        links, self._next_turn = self._next_turn, []
        for link in links:
            try:
                link.go_on_at_last()
            except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                link.on_fault(fault)

    def end_turn(self) -> None:
        """Finish what waited for this turn's appends, then send everything that is ready.

        Whatever fails, what is ready is sent, and memory comes back: the edge is the loop's.
        """
        self.now_ms = self.clock.monotonic_ms()
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

    def _handle_received(self) -> None:
        """Handle what connections have sent, once all that were ready have been read."""
        received, self.received = self.received, []
        for link in received:
            if link.is_open:
                try:
                    link.handle_received()
                except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                    link.on_fault(fault)

    def _answer_readers(self) -> None:
        """Write what was staged, and answer who waited for it: when nothing else is to be done, or has been for a while.

        As long as producers send on, what they send goes into the same answers: those cost by the answer, not by the byte.
        """
        self.node.staging.write()
        pace = self._pace
        if pace.ready_count and self.node.is_feeding_readers:
            if self._held_since_ns is None:
                self._held_since_ns = pace.start_ns
            if self._now_ns() - self._held_since_ns < HOLD_READERS_NS:
                pace.is_restless = True
                return
        self._held_since_ns = None
        self.node.on_turn_end()

    def _flush_dirty(self) -> None:
        dirty, self.dirty = self.dirty, []
        for link in dirty:
            if link.is_open:
                try:
                    link.flush()
                except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
                    link.on_fault(fault)

    def _take_memory_back(self) -> None:
        """End the time for which memory was lent: everything is handled, and what was staged is written."""
        memory, pool = self._memory, self.frame_pool
        if memory.position and not memory.take_back():
            self.events.on_kept("a turn", memory.kept_count)
        if self.spent:
            spent, self.spent = self.spent, []
            kept_before = pool.kept_count
            for frame in spent:
                pool.give_back(frame)
            if pool.kept_count != kept_before:
                self.events.on_kept("a request", pool.kept_count)
