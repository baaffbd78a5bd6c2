"""A machine with a disk, on which a node starts, runs, dies and starts again.

Job: drive a `Node`, and the turn over its connections, as `runtime.assembly` and `runtime.server` do, let it die at any call of its disk, and stand still. A machine
of a cluster has a name, a store that it shares with others, and `routes` to them.
Must not know: what clients want, or which records matter; who does is told by `Watcher`.
Invariants: nothing of a life that is over reaches the node or the disk; an exception that escapes from
the node ends the run: a real broker would tell of it and go on (docs/adr/0011), here no fault may pass.

| crash   | memory | written to files | synced | coordination store      |
|---------|--------|------------------|--------|-------------------------|
| process | lost   | kept             | kept   | kept                    |
| power   | lost   | lost or torn     | kept   | kept                    |
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.broker.client_link import ClientLink, Ends
from barnabas.broker.handshakes import Handshakes
from barnabas.broker.outcomes import CloseLink
from barnabas.broker.tasks import drive
from barnabas.broker.tls_link import TlsLink
from barnabas.broker.turn import Turn
from barnabas.ports import HANGUP, READ, World
from barnabas.sim.coordination import SimCoordination
from barnabas.sim.disk import SimDisk
from barnabas.sim.loop import SimLoop
from barnabas.sim.peers import SimPeers
from barnabas.sim.store import SimStore
from barnabas.sim.stream import SimOutbox, SimStream, SimTls
from barnabas.sim.violation import Violation
from barnabas.sim.world import (
    MS,
    SECOND,
    Life,
    ProcessKilled,
    SimBackground,
    SimClock,
    SimRng,
    SimTimers,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.sim.network import Connection
    from barnabas.sim.peers import Routes
    from barnabas.sim.world import Scheduler

#: A clean stop waits this long for clients to take their last answers, as the real one does.
DRAIN_US: Final = 5 * SECOND
#: How often a turn ends with what began it; else others come into it.
TURN_END_LIKELIHOOD: Final = 0.6
#: How many connections have TLS.
TLS_LIKELIHOOD: Final = 0.25
#: Where every machine listens.
PORT: Final = 9092


class Crash(Enum):
    """How a process dies."""

    PROCESS = "process"
    POWER = "power"


class Watcher(Protocol):
    """Who is told about lives and deaths."""

    def on_down(self, node: Node, crash: Crash | None) -> None:
        """See a node end that was up; None for a clean stop."""

    def on_crash(self, crash: Crash) -> None:
        """See any crash, also of a node that had not come up."""

    def on_up(self, node: Node, life: int) -> None:
        """See a node that has come up, in the life of this number; again after turns while `is_waiting`."""

    @property
    def is_waiting(self) -> bool:
        """Tell whether logs are missing that a life before had."""


class MachineDisk(SimDisk):
    """A disk at whose nth call the process dies."""

    def __init__(self, chance: random.Random, capacity_bytes: int = 1 << 40) -> None:
        """Start empty, with nobody to be killed."""
        super().__init__(chance, capacity_bytes)
        self.is_off = False
        self._kill_at = 0
        self._on_kill: Callable[[], None] | None = None

    def kill_at_call(self, nth: int, on_kill: Callable[[], None]) -> None:
        """Let the process die just before its nth call from now."""
        self._kill_at = self.calls + nth
        self._on_kill = on_kill

    def spare(self) -> None:
        """Take `kill_at_call` back."""
        self._kill_at = 0
        self._on_kill = None

    def count_call(self, path: str) -> None:
        """Count one call; it may be the last one of this life."""
        if self.is_off:
            raise ProcessKilled
        if self._kill_at and self.calls + 1 >= self._kill_at:
            assert self._on_kill is not None
            on_kill = self._on_kill
            self.spare()
            on_kill()
            raise ProcessKilled
        super().count_call(path)


class Machine:
    """Where a node lives: the one of a run, or one of a cluster."""

    def __init__(
        self,
        scheduler: Scheduler,
        config: BrokerConfig,
        node_class: type[Node],
        *,
        name: str = "",
        store: SimStore | None = None,
        routes: Routes | None = None,
    ) -> None:
        """Start switched off."""
        self.scheduler = scheduler
        self.name = name
        self.host = name or "broker"
        #: What its streams of chance and its notes begin with.
        self.prefix = f"{name}/" if name else ""
        self.routes = routes
        self.clock = SimClock(scheduler)
        self.disk = MachineDisk(scheduler.chance(f"{self.prefix}disk"))
        self.disk.now_ms = self.clock.now_ms
        self.store = store or SimStore()
        self.watcher: Watcher | None = None
        self.node: Node | None = None
        self.life = Life(0)
        self.life.is_over = True
        #: The node's ends of connections, by descriptor.
        self._streams: dict[int, SimStream] = {}
        self._turn: Turn | None = None
        self._loop: SimLoop | None = None
        #: Whose turn it is to have a step of its handshake computed.
        self.handshakes: Handshakes | None = None
        self._fd = 0
        #: What broke first; what follows on the way out counts no more.
        self._violation: Violation | None = None
        #: How many starts failed since the last one that did not.
        self.failed_starts = 0
        self.last_failure: BaseException | None = None
        self.config = config
        self._node_class = node_class
        self._chance = scheduler.chance(f"{self.prefix}machine")
        self._stream_chance = scheduler.chance(f"{self.prefix}streams")
        #: A turn that does not end at once ends within this time.
        self._turn_us = self._stream_chance.choice((200, 200, 3000))
        self._slow_jobs_us = 3 * MS
        self._slow_store_us = 2 * MS
        self._background: SimBackground | None = None
        self._coordination: SimCoordination | None = None
        self._peers: SimPeers | None = None
        self._is_leaving = False
        self._is_stopping = False
        #: What happens while the process stands still; None while it does not.
        self._held: list[Callable[[], None]] | None = None
        self._held_since_ms = 0
        self._turn_booked = False
        self._crash_wanted = Crash.PROCESS
        self._restart_us = 0

    @property
    def is_up(self) -> bool:
        """Tell whether clients can connect."""
        return self.life.was_up and not self.life.is_over and not self._is_stopping

    @property
    def is_off(self) -> bool:
        """Tell whether no process runs."""
        return self.life.is_over

    @property
    def is_paused(self) -> bool:
        """Tell whether the process stands still."""
        return self._held is not None

    # Lives

    def start(self) -> None:
        """Begin a life."""
        assert self.life.is_over
        scheduler, life = self.scheduler, Life(self.life.number + 1)
        self._note(f"start {life.number}")
        self.life = life
        self.disk.is_off = False
        self._is_stopping = self._is_leaving = False
        self._background = SimBackground(scheduler, life, self.enter, self.prefix)
        self._background.longest_us = self._slow_jobs_us
        self._coordination = SimCoordination(
            scheduler, self.store, life, self.enter, node=self.name,
            session_timeout_ms=self.config.get_int("zookeeper.session.timeout.ms"),
        )  # fmt: skip
        self._coordination.slowest_us = self._slow_store_us
        if self.routes is not None:
            self._peers = SimPeers(scheduler, life, self.enter, self.name, self.routes)
        rng = SimRng(scheduler.chance(f"{self.prefix}ids/{life.number}"))
        timers = SimTimers(scheduler, life, self.enter)
        world = World(
            self.clock, rng, timers, self._background, self._coordination, self.disk, self._peers
        )  # fmt: skip
        self.node = self._node_class(self.config, world)
        node = self.node
        self._loop = SimLoop(scheduler, life, timers, self.clock, self.enter, self.prefix)
        self._turn = Turn(node, self._loop, self._loop.now_ns, self)
        self._turn_booked = False
        self.handshakes = Handshakes(self._background)
        self.enter(lambda: drive(node.start(), self._on_started))

    def _on_started(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        if problem is not None:
            self._fail_to_start(problem)
            return
        self._note("up")
        self.failed_starts = 0
        self.life.was_up = True
        node = self.node
        assert node is not None
        if self.watcher is not None:
            self.watcher.on_up(node, self.life.number)
        drive(node.join({"PLAINTEXT": (self.host, PORT)}), self._on_joined)

    def _on_joined(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        if problem is not None:
            self._fail_to_start(problem)

    def _fail_to_start(self, problem: BaseException) -> None:
        self._note(f"start failed: {type(problem).__name__}")
        self.failed_starts += 1
        self.last_failure = problem
        self._close_coordination()
        self.life.is_over = True
        self._bury()
        self.start_later(self._chance.randint(100 * MS, SECOND))

    def start_later(self, delay_us: int) -> None:
        """Start after a while, unless somebody else does."""

        def due() -> None:
            if self.life.is_over:
                self.start()

        self.scheduler.after(delay_us, "switch on", due)

    def crash(self, crash: Crash, restart_us: int) -> None:
        """Let the process die now."""
        if not self.life.is_over:
            self._die(crash)
            self._after_death(crash, restart_us)

    def crash_at_call(self, crash: Crash, nth: int, restart_us: int) -> None:
        """Let the process die at its nth disk call from now."""
        self._crash_wanted, self._restart_us = crash, restart_us
        self.disk.kill_at_call(nth, lambda: self._die(crash))

    def _die(self, crash: Crash) -> None:
        """End the life at once: what the dying code still does on its way out has no effect."""
        self._note(f"crash: {crash.value}")
        self.life.is_over = True
        self.disk.is_off = True
        self.disk.spare()
        assert self.node is not None
        assert self._coordination is not None
        if self.watcher is not None:
            if self.life.was_up:
                self.watcher.on_down(self.node, crash)
            self.watcher.on_crash(crash)
        self._coordination.on_crash()

    def _after_death(self, crash: Crash, restart_us: int) -> None:
        self._bury()
        if crash is Crash.POWER:
            self.disk.crash()
            self.empty_page_cache()
        else:
            self.disk.process_crash()
        self.start_later(restart_us)

    def _bury(self) -> None:
        """Close what the process had open; its memory is kept until the run is over."""
        self.scheduler.keep((self.node, self._background, self._coordination, self._held))
        if self._held is not None:
            self._held = None
            self.store.resume(self.name)
        if self._peers is not None:
            self._peers.on_node_gone()
        self.scheduler.keep((self._turn, self._loop))
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.is_open = False
            self.scheduler.keep(stream)
            assert stream.connection is not None
            stream.connection.on_link_closed(silently=self._stream_chance.random() < 0.3)
        self.node = self._turn = self._loop = None

    def stop_cleanly(self, restart_us: int) -> None:
        """Stop as on SIGTERM, then start again."""
        if not self.is_up or self._is_leaving:
            return
        self._note("stop")
        self._is_leaving = True
        node, life = self.node, self.life
        assert node is not None

        def drain() -> None:
            self._drain(life, self.scheduler.now_us + DRAIN_US, restart_us)

        def stop_serving(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                raise problem
            self._is_stopping = True
            assert self._turn is not None
            self._turn.is_stopping = True
            node.release_waiting()
            if has_begun:
                self.scheduler.after(0, "drain", drain)

        has_begun = False
        self.enter(lambda: drive(node.leave(), stop_serving))
        has_begun = True
        if self._is_stopping:
            drain()

    def _drain(self, life: Life, deadline_us: int, restart_us: int) -> None:
        if life.is_over:
            return
        if any(link.has_work for link in self.links) and self.scheduler.now_us < deadline_us:
            self.scheduler.after(
                5 * MS, "drain", lambda: self._drain(life, deadline_us, restart_us)
            )
            return
        for link in list(self.links):
            link.close()
        node = self.node
        assert node is not None

        def stopped(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
            if problem is not None:
                raise problem
            self._note("stopped")
            self._close_coordination()
            life.is_over = True
            self.disk.spare()
            if self.watcher is not None:
                self.watcher.on_down(node, None)
            self._bury()
            self.disk.process_crash()
            self.start_later(restart_us)

        self.enter(lambda: drive(node.stop(), stopped))

    def _close_coordination(self) -> None:
        assert self._coordination is not None
        self._coordination.close()

    def slow_down(self, longest_us: int) -> None:
        """Let background jobs take up to this long from now on."""
        self._slow_jobs_us = longest_us
        if self._background is not None:
            self._background.longest_us = longest_us

    def slow_store(self, longest_us: int) -> None:
        """Let each way to the store or back take up to this long from now on."""
        self._slow_store_us = longest_us
        if self._coordination is not None:
            self._coordination.slowest_us = longest_us

    def pause(self) -> None:
        """Let the process stand still, as on SIGSTOP: it hears of nothing, and the store hears nothing of it."""
        if not self.life.is_over and self._held is None:
            self._note("stands still")
            self._held = []
            self._held_since_ms = self.clock.monotonic_ms()
            self.store.suspend(self.name, at_once=False)

    def unpause(self) -> None:
        """Let it go on: everything that came meanwhile comes now, in order."""
        if self._held is None:
            return
        self._note("goes on")
        held, self._held = self._held, None
        self.store.resume(self.name)
        life, node = self.life, self.node
        assert node is not None
        stood_ms = self.clock.monotonic_ms() - self._held_since_ms
        if node.standstill_ms is not None and stood_ms > node.standstill_ms:
            held.insert(0, node.on_stood_still)
        held.append(lambda: None)  # ends the turn in which it was stopped
        for call in held:
            if life.is_over:
                self.scheduler.keep(call)
            else:
                self.enter(call)

    def _note(self, text: str) -> None:
        self.scheduler.note(f"{self.prefix}{text}")

    def empty_page_cache(self) -> None:
        """Let every log have to be read from the medium again."""
        for path in self.disk.contents():
            if path.endswith(".log"):
                self.disk.chill(path)

    # Turns

    def enter(self, call: Callable[[], None]) -> None:
        """Make a call on the thread of decision. The turn ends right after it, or after other calls, which then belong to it."""
        if self._held is not None:
            self._held.append(call)
            return
        if self._loop is not None:
            self._loop.begin_turn()
        self._make(call)
        if not self._turn_booked and not self.life.is_over:
            # An event of its own, since whoever makes a call holds it, and what it holds.
            self._turn_booked = True
            is_last = self._chance.random() < TURN_END_LIKELIHOOD
            delay_us = 0 if is_last else self._chance.randint(1, self._turn_us)
            self.scheduler.after(delay_us, "turn end", self._end_turn_of(self.life))

    def _make(self, call: Callable[[], None]) -> None:
        try:
            call()
        except ProcessKilled:
            self._after_death(self._crash_wanted, self._restart_us)
        except Violation as found:
            raise self._violation or found from None
        except Exception as problem:
            if self._violation is not None:
                raise self._violation from None
            raise Violation("the node lives", f"{problem!r} escaped from the node") from problem

    def _end_turn_of(self, life: Life) -> Callable[[], None]:
        def due() -> None:
            if not life.is_over:
                self._turn_booked = False
                if self._held is None:
                    self._make(self._end_turn)

        return due

    def _end_turn(self) -> None:
        """End the turn as the real loop does, and see that nothing is amiss."""
        if self.life.is_over:
            return
        node, turn, loop = self.node, self._turn, self._loop
        assert node is not None
        assert turn is not None
        assert loop is not None
        if self.life.was_up and self.watcher is not None and self.watcher.is_waiting:
            self.watcher.on_up(node, self.life.number)
        turn.end_turn()
        if self.is_off:
            return
        if node.replies_amiss:
            raise Violation(
                "each request is answered once", "a reply was given twice, or nobody was to give it"
            )
        loop.end_turn()

    # Connections

    @property
    def links(self) -> list[ClientLink]:
        """The connections of clients, the oldest first."""
        return [stream.link for stream in self._streams.values() if stream.link is not None]

    def link_of(self, connection: Connection | None) -> ClientLink:
        """Give the node's end of a client's connection."""
        (link,) = [
            stream.link for stream in self._streams.values() if stream.connection is connection
        ]
        assert link is not None
        return link

    def accept(self, peer_host: str) -> SimStream:
        """Take a connection in the node's present life; one in four has TLS."""
        node, turn, loop = self.node, self._turn, self._loop
        assert node is not None
        assert turn is not None
        assert loop is not None
        self._fd += 1
        ends = Ends("PLAINTEXT", self.host, PORT, peer_host)
        out = SimOutbox(turn.shared_reads)
        stream: SimStream
        if self._stream_chance.random() < TLS_LIKELIHOOD:
            stream = tls = SimTls(loop, self._stream_chance, self._fd)
            link: ClientLink = TlsLink(turn, tls, out, ends, self)
        else:
            stream = SimStream(loop, self._stream_chance, self._fd)
            link = ClientLink(turn, stream, out, ends)
        stream.link = link
        self._streams[self._fd] = stream
        loop.watch(stream, READ | HANGUP, link.on_event)
        node.authentication.begin(link)
        return stream

    def name_of(self, _subject: Any) -> str:  # noqa: ANN401
        """Name nobody: no simulated client has a certificate."""
        raise ValueError

    def on_closed(self, link: ClientLink, fd: int) -> None:
        """Forget a connection that is closing."""
        assert self._loop is not None
        assert self.node is not None
        self._loop.unwatch(fd)
        del self._streams[fd]
        self.node.on_disconnect(link)

    def on_fault(self, _link: ClientLink, fault: BaseException) -> None:
        """End the run: a real broker closes the connection, here no fault may pass."""
        if isinstance(fault, Violation):
            self._fail(fault)
        self._fail(Violation("the node lives", f"{fault!r} escaped from the node"), fault)

    def on_bad_request(self, _link: ClientLink, problem: ValueError) -> None:
        """End the run, unless closing is the answer: simulated clients send good requests."""
        if isinstance(problem, CloseLink):
            return
        self._fail(Violation("the node understands", f"a good request was refused: {problem!r}"))

    def on_kept(self, whose: str, times: int) -> None:
        """End the run: memory would have been overwritten, or mistaken for what comes there next. Who dies may hold it."""
        if self.life.is_over:
            return
        self._fail(
            Violation("lent memory", f"that of {whose} is still held although it was only lent")
        )

    def _fail(self, violation: Violation, cause: BaseException | None = None) -> None:
        if self._violation is None:
            self._violation = violation
        raise self._violation from cause
