"""What goes wrong in a run of a cluster, and when: drawn from the seed before the run starts.

Job: a list of faults with their times, each with its own healing, on one machine, between two, or towards the store. Must not know what they
lead to. Whoever leads or controls is hit as often as all others together: most promises are about that.

A power loss takes what was not synced, on a broker that may stay in sync: only runs whose topics sync every batch have it. Nor are
there failing disks in these: once a sync has failed the medium holds anything.
"""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Final

from barnabas.broker import cluster_znodes
from barnabas.sim.machine import Crash
from barnabas.sim.network import Barrier
from barnabas.sim.world import MS, SECOND

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from barnabas.sim.cluster import Cluster

KINDS: Final = (
    "process crash",
    "power loss",
    "clean stop",
    "pause",
    "cut brokers",
    "cut machine",
    "cut clients",
    "cut store",
    "blind store",
    "expired session",
    "lost reply",
    "slow store",
    "slow network",
    "slow jobs",
    "disk error",
    "clock jump",
)
HOUR_MS: Final = 3_600_000
FLUSHED_LIKELIHOOD: Final = 0.3
#: What makes brokers start again. One that does so after ZooKeeper was put back does not know that it was: two of them may
#: commit what others have in another way. So that is not promised, and the two do not come together.
RESTARTING: Final = ("process crash", "power loss", "clean stop", "disk error")
#: In so many runs ZooKeeper is put back to an older state.
PUT_BACK_LIKELIHOOD: Final = 0.15


def choose_kinds(chance: random.Random) -> list[str]:
    """Choose what may go wrong in a run."""
    kinds = [kind for kind in KINDS if chance.random() < 0.35]
    if "disk error" in kinds and "power loss" in kinds:
        kinds.remove(chance.choice(("disk error", "power loss")))
    return kinds


class ClusterFaults:
    """Books the faults of a run and heals what they left."""

    def __init__(self, cluster: Cluster) -> None:
        """Draw the plan; `book` makes it happen."""
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._chance = cluster.scheduler.chance("faults")
        self.kinds = choose_kinds(self._chance)
        # Drawn apart, so that seeds keep what they had before there was this fault.
        self._put_back_chance = cluster.scheduler.chance("put back")
        self.is_put_back = False
        #: Names by which clients are known to each machine.
        self.clients: dict[int, list[str]] = {}
        #: Replicas that failed stay offline until somebody starts the broker again.
        self._need_restart: dict[int, None] = {}
        self._acts: dict[str, Callable[[int], None]] = {
            "process crash": lambda broker: self._crash(broker, Crash.PROCESS),
            "power loss": lambda broker: self._crash(broker, Crash.POWER),
            "clean stop": self._stop,
            "pause": self._pause,
            "cut brokers": self._cut_brokers,
            "cut machine": self._cut_machine,
            "cut clients": self._cut_clients,
            "cut store": lambda broker: self._cut_store(broker, at_once=True),
            "blind store": lambda broker: self._cut_store(broker, at_once=False),
            "expired session": lambda broker: self._at_store(broker, cluster.store.expire),
            "lost reply": lambda broker: self._at_store(broker, cluster.store.lose_next_reply),
            "slow store": self._slow_store,
            "slow network": self._slow_network,
            "slow jobs": self._slow_jobs,
            "disk error": self._fail_disk,
            "clock jump": self._jump,
        }

    def book(self, start_us: int, end_us: int) -> None:
        """Spread faults of the chosen kinds over a time."""
        if not self.kinds:
            return
        for kind in self._chance.choices(self.kinds, k=self._chance.randint(2, 14)):
            at_us = self._chance.randint(start_us, end_us)
            self._scheduler.after(at_us - self._scheduler.now_us, f"fault: {kind}", self._act(kind))

    def draw_put_back(self) -> None:
        """Decide whether the store is put back in this run."""
        self.is_put_back = self._put_back_chance.random() < PUT_BACK_LIKELIHOOD
        if self.is_put_back:
            self.kinds = [kind for kind in self.kinds if kind not in RESTARTING]

    def book_put_back(self, start_us: int, end_us: int, can_copy: Callable[[], bool]) -> None:
        """Copy the store once, if that can be done then, and put the copy back later: whatever was written since is forgotten."""
        copied_us = self._put_back_chance.randint(start_us, (start_us + end_us) // 2)
        put_back_us = self._put_back_chance.randint(copied_us, end_us)
        store, scheduler = self._cluster.store, self._scheduler

        def copy() -> None:
            if can_copy():
                store.copy()
                scheduler.after(put_back_us - copied_us, "fault: store put back", store.put_back)

        scheduler.after(copied_us - scheduler.now_us, "store copied", copy)

    def _act(self, kind: str) -> Callable[[], None]:
        def act() -> None:
            broker = self._target()
            self._scheduler.note(f"{kind}: broker {broker}")
            self._acts[kind](broker)

        return act

    def _target(self) -> int:
        """Choose whom to hit."""
        tree, machines = self._cluster.store.tree, self._cluster.machines
        draw = self._chance.random()
        found = -1
        if draw < 0.25 and cluster_znodes.CONTROLLER in tree:
            found = json.loads(tree[cluster_znodes.CONTROLLER].data)["brokerid"]
        elif draw < 0.5:
            paths = sorted(path for path in tree if path.endswith("/state"))
            if paths:
                found = cluster_znodes.read_state(tree[self._chance.choice(paths)]).leader
        return found if found in machines else self._chance.choice(sorted(machines))

    def heal(self) -> None:
        """Put everything in order; brokers are started again where only that helps."""
        self._scheduler.note("heal")
        store = self._cluster.store
        for broker, machine in self._cluster.machines.items():
            machine.unpause()
            machine.disk.heal()
            machine.disk.spare()
            machine.slow_down(3 * MS)
            machine.slow_store(2 * MS)
            if store.is_cut_off(machine.name):
                store.resume(machine.name)
            network = self._cluster.networks[broker]
            network.drop_barriers()
            network.longest_us = 2 * MS
            if broker in self._need_restart:
                machine.stop_cleanly(100 * MS)

    def _for_a_while(self, heal: Callable[[], None], longest_us: int = 2 * SECOND) -> None:
        self._scheduler.after(self._chance.randint(10 * MS, longest_us), "fault over", heal)

    # Processes

    def _crash(self, broker: int, crash: Crash) -> None:
        machine = self._cluster.machines[broker]
        restart_us = self._chance.choice((50 * MS, SECOND, 4 * SECOND))
        if self._chance.random() < 0.5:
            machine.crash(crash, restart_us)
        else:
            machine.crash_at_call(crash, self._chance.randint(1, 40), restart_us)

    def _stop(self, broker: int) -> None:
        self._cluster.machines[broker].stop_cleanly(self._chance.choice((50 * MS, 3 * SECOND)))

    def _pause(self, broker: int) -> None:
        machine = self._cluster.machines[broker]
        machine.pause()
        self._for_a_while(machine.unpause, self._chance.choice((500 * MS, 5 * SECOND)))

    def _slow_jobs(self, broker: int) -> None:
        machine = self._cluster.machines[broker]
        machine.slow_down(self._chance.choice((50 * MS, 700 * MS)))
        self._for_a_while(lambda: machine.slow_down(3 * MS))

    def _fail_disk(self, broker: int) -> None:
        self._need_restart[broker] = None
        disk = self._cluster.machines[broker].disk
        if self._chance.random() < 0.7:
            disk.fail_call(self._chance.randint(1, 40), errno.EIO)
        else:
            disk.fail_path("/data", errno.EIO)
        self._for_a_while(disk.heal)

    def _jump(self, broker: int) -> None:
        clock = self._cluster.machines[broker].clock
        clock.wrong_by_ms = self._chance.randint(-HOUR_MS + 60_000, HOUR_MS)

    # The network

    def _barrier(self) -> tuple[Barrier, int]:
        lasts_us = self._chance.choice((200 * MS, SECOND, 3 * SECOND))
        return self._chance.choice(list(Barrier)), self._scheduler.now_us + lasts_us

    def _cut_brokers(self, broker: int) -> None:
        """Disturb what two brokers have with each other, in one direction of asking or in both."""
        barrier, end_us = self._barrier()
        other = self._chance.choice([one for one in self._cluster.machines if one != broker])
        self._between(broker, other, barrier, end_us)
        if self._chance.random() < 0.7:
            self._between(other, broker, barrier, end_us)

    def _cut_machine(self, broker: int) -> None:
        """Cut a broker off from all others, and perhaps from clients."""
        barrier, end_us = self._barrier()
        for other in self._cluster.machines:
            if other != broker:
                self._between(broker, other, barrier, end_us)
                self._between(other, broker, barrier, end_us)
        if self._chance.random() < 0.5:
            for client in self.clients[broker]:
                self._cluster.networks[broker].raise_barrier(client, barrier, end_us)

    def _between(self, asking: int, asked: int, barrier: Barrier, end_us: int) -> None:
        name = self._cluster.machines[asking].name
        self._cluster.networks[asked].raise_barrier(name, barrier, end_us)

    def _cut_clients(self, broker: int) -> None:
        barrier, end_us = self._barrier()
        for client in self.clients[broker]:
            if self._chance.random() < 0.6:
                self._cluster.networks[broker].raise_barrier(client, barrier, end_us)

    def _slow_network(self, broker: int) -> None:
        network = self._cluster.networks[broker]
        network.longest_us = self._chance.choice((50 * MS, 500 * MS))

        def heal() -> None:
            network.longest_us = 2 * MS

        self._for_a_while(heal)

    # The store

    def _at_store(self, broker: int, act: Callable[[str], None]) -> None:
        machine = self._cluster.machines[broker]
        if not machine.is_off:
            act(machine.name)

    def _cut_store(self, broker: int, *, at_once: bool) -> None:
        machine, store = self._cluster.machines[broker], self._cluster.store
        if machine.is_off or machine.is_paused:
            return
        store.suspend(machine.name, at_once=at_once)

        def heal() -> None:
            if store.is_cut_off(machine.name) and not machine.is_paused:
                store.resume(machine.name)

        self._for_a_while(heal, 4 * SECOND)

    def _slow_store(self, broker: int) -> None:
        machine = self._cluster.machines[broker]
        machine.slow_store(self._chance.choice((100 * MS, SECOND)))
        self._for_a_while(lambda: machine.slow_store(2 * MS))
