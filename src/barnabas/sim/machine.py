"""A machine with a disk, on which a node starts, runs, dies and starts again.

Job: drive a `Node` as `runtime.assembly` and `runtime.server` do, let it die at any call of its disk, and stand still. A machine
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

from barnabas.broker.tasks import drive
from barnabas.ports import World
from barnabas.sim.coordination import SimCoordination
from barnabas.sim.disk import SimDisk
from barnabas.sim.peers import SimPeers
from barnabas.sim.store import SimStore
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND, Life, SimBackground, SimClock, SimRng, SimTimers

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.sim.network import SimLink
    from barnabas.sim.peers import Routes
    from barnabas.sim.world import Scheduler

#: A clean stop waits this long for clients to take their last answers, as the real one does.
DRAIN_US: Final = 5 * SECOND
#: Where every machine listens.
PORT: Final = 9092


class Crash(Enum):
    """How a process dies."""

    PROCESS = "process"
    POWER = "power"


class ProcessKilled(BaseException):
    """Raised out of a disk call at which the process dies. No code of the node may catch it."""


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
        self.links: dict[SimLink, None] = {}
        #: Links with replies to be sent at the end of the turn.
        self.dirty: list[SimLink] = []
        #: How many starts failed since the last one that did not.
        self.failed_starts = 0
        self.last_failure: BaseException | None = None
        self.config = config
        self._node_class = node_class
        self._chance = scheduler.chance(f"{self.prefix}machine")
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
        self.dirty.clear()
        links, self.links = self.links, {}
        for link in links:
            link.on_node_gone()
        self.node = None

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
        """Make a call on the thread of decision, then end the turn: at once, or after other events."""
        if self._held is not None:
            self._held.append(call)
            return
        try:
            call()
            if self._chance.random() < 0.8:
                self._end_turn()
            elif not self._turn_booked:
                self._turn_booked = True
                self.scheduler.after(self._chance.randint(1, 200), "turn end", self._end_turn_later)
        except ProcessKilled:
            self._after_death(self._crash_wanted, self._restart_us)
        except Violation:
            raise
        except Exception as problem:
            raise Violation("the node lives", f"{problem!r} escaped from the node") from problem

    def _end_turn_later(self) -> None:
        self._turn_booked = False
        self.enter(lambda: None)

    def _end_turn(self) -> None:
        """Do as `Server._on_turn_end` does."""
        if self.life.is_over:
            return
        assert self.node is not None
        if self.life.was_up and self.watcher is not None and self.watcher.is_waiting:
            self.watcher.on_up(self.node, self.life.number)
        self.node.on_turn_end()
        if self.node.replies_amiss:
            raise Violation(
                "each request is answered once", "a reply was given twice, or nobody was to give it"
            )
        while self.dirty:
            dirty, self.dirty = self.dirty, []
            for link in dirty:
                link.flush()
            self.node.on_turn_end()
