"""What goes wrong in a run, and when: drawn from the seed before the run starts.

Job: a list of faults with their times, each with its own healing. Must not know what they lead to.

A seed has either failing disk calls or power losses, not both: once a sync has failed the medium holds anything, and
no broker can promise that a power loss does not show it.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from barnabas.sim.machine import Crash
from barnabas.sim.world import MS, SECOND

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from barnabas.sim.machine import Machine
    from barnabas.sim.network import Network
    from barnabas.sim.world import Scheduler

HOUR_MS: Final = 3_600_000

KINDS: Final = (
    "process crash",
    "power loss",
    "clean stop",
    "disk full",
    "disk error",
    "slow jobs",
    "slow network",
    "cut network",
    "cut connection",
    "half-open connection",
    "clock jump",
    "store failure",
    "cold reads",
)
#: Crashes come more often than the rest: most promises are about them.
CRASHES: Final = ("process crash", "power loss")
CRASH_WEIGHT: Final = 3


def choose_kinds(chance: random.Random) -> list[str]:
    """Choose what may go wrong in a run."""
    kinds = [kind for kind in KINDS if chance.random() < (0.6 if kind in CRASHES else 0.4)]
    if "disk error" in kinds and "power loss" in kinds:
        kinds.remove(chance.choice(("disk error", "power loss")))
    return kinds


class Faults:
    """Books the faults of a run and heals what they left."""

    def __init__(self, scheduler: Scheduler, machine: Machine, network: Network) -> None:
        """Draw the plan; `book` makes it happen."""
        self._scheduler = scheduler
        self._machine = machine
        self._network = network
        self._chance = scheduler.chance("faults")
        self._moves = scheduler.chance("moves")
        self.kinds = choose_kinds(self._chance)
        #: Replicas that failed stay offline until somebody starts the broker again.
        self.needs_restart = False
        self._acts: dict[str, Callable[[], None]] = {
            "process crash": lambda: self._crash(Crash.PROCESS),
            "power loss": lambda: self._crash(Crash.POWER),
            "clean stop": self._stop,
            "disk full": self._fill_disk,
            "disk error": self._fail_disk,
            "slow jobs": self._slow_jobs,
            "slow network": self._slow_network,
            "cut network": self._cut_network,
            "cut connection": self._cut_connection,
            "half-open connection": self._half_open,
            "clock jump": self._jump,
            "store failure": self._fail_store,
            "cold reads": machine.empty_page_cache,
        }

    def book(self, end_us: int) -> None:
        """Spread faults of the chosen kinds up to a time, and moves between log directories, if there are several."""
        if len(self._machine.config.log_dirs) > 1:
            for _ in range(self._moves.randint(0, 6)):
                self._scheduler.after(self._moves.randint(0, end_us), "move", self._move)
        if not self.kinds:
            return
        weights = [CRASH_WEIGHT if kind in CRASHES else 1 for kind in self.kinds]
        for kind in self._chance.choices(self.kinds, weights, k=self._chance.randint(2, 12)):
            act = self._acts[kind]
            self._scheduler.after(self._chance.randint(0, end_us), f"fault: {kind}", act)

    def heal(self) -> None:
        """Put everything in order; the broker is started again where only that helps."""
        self._scheduler.note("heal")
        machine = self._machine
        machine.disk.heal()
        machine.disk.spare()
        machine.disk.capacity_bytes = 1 << 40
        machine.store.out_of_order = False
        machine.slow_down(3 * MS)
        self._network.is_cut = False
        self._network.longest_us = 2 * MS
        if self.needs_restart:
            machine.stop_cleanly(100 * MS)

    def _for_a_while(self, heal: Callable[[], None]) -> None:
        self._scheduler.after(self._chance.randint(10 * MS, SECOND), "fault over", heal)

    def _crash(self, crash: Crash) -> None:
        restart_us = self._chance.randint(5 * MS, SECOND)
        if self._chance.random() < 0.3:
            self._machine.crash(crash, restart_us)
        else:
            nth = self._chance.choice((self._chance.randint(1, 5), self._chance.randint(1, 60)))
            self._machine.crash_at_call(crash, nth, restart_us)

    def _stop(self) -> None:
        self._machine.stop_cleanly(self._chance.randint(5 * MS, SECOND))

    def _fill_disk(self) -> None:
        disk = self._machine.disk
        disk.capacity_bytes = disk.used_bytes + self._chance.choice((0, 0, 100, 3000))

        def heal() -> None:
            disk.capacity_bytes = 1 << 40

        self._for_a_while(heal)

    def _fail_disk(self) -> None:
        self.needs_restart = True
        disk = self._machine.disk
        if self._chance.random() < 0.7:
            disk.fail_call(self._chance.randint(1, 40), errno.EIO)
        else:
            disk.fail_path(self._chance.choice(self._machine.config.log_dirs), errno.EIO)
        self._for_a_while(disk.heal)

    def _move(self) -> None:
        """Let a partition change its directory: no fault, but what an operator may ask for at any moment."""
        machine, node = self._machine, self._machine.node
        if node is None or not machine.is_up:
            return
        replicas = [replica for replica in node.replicas if not replica.offline]
        directory = self._moves.choice(node.directories)
        if replicas and directory.is_online:
            replica = self._moves.choice(replicas)
            machine.enter(lambda: node.moves.request(replica, directory))

    def _slow_jobs(self) -> None:
        self._machine.slow_down(self._chance.choice((50 * MS, 700 * MS)))
        self._for_a_while(lambda: self._machine.slow_down(3 * MS))

    def _slow_network(self) -> None:
        network = self._network
        network.longest_us = self._chance.choice((50 * MS, SECOND))

        def heal() -> None:
            network.longest_us = 2 * MS

        self._for_a_while(heal)

    def _cut_network(self) -> None:
        network = self._network
        network.is_cut = True
        for connection in list(network.connections):
            connection.cut()

        def heal() -> None:
            network.is_cut = False

        self._for_a_while(heal)

    def _cut_connection(self) -> None:
        if self._network.connections:
            self._chance.choice(self._network.connections).cut()

    def _half_open(self) -> None:
        if self._network.connections:
            self._chance.choice(self._network.connections).loses_replies = True

    def _jump(self) -> None:
        self._machine.clock.wrong_by_ms = self._chance.randint(-HOUR_MS + 60_000, HOUR_MS)

    def _fail_store(self) -> None:
        store = self._machine.store
        store.out_of_order = True

        def heal() -> None:
            store.out_of_order = False

        self._for_a_while(heal)
