"""One seed of transactions on a cluster, from empty disks to a verdict.

Job: let tellers move money between accounts on different brokers, while brokers die, are cut off from each other and from the store, and
late copies of requests come in anywhere; heal everything; then judge (`transaction_verdict`). Two tellers may fight for one transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.node import Node
from barnabas.broker.transactions import TOPIC as STATE_TOPIC
from barnabas.sim.cluster import Cluster
from barnabas.sim.cluster_admin import ClusterAdmin, TopicPlan
from barnabas.sim.cluster_checkers import NodeChecker
from barnabas.sim.cluster_faults import ClusterFaults
from barnabas.sim.cluster_teller import ClusterEcho, ClusterTeller
from barnabas.sim.run import Verdict, play_out
from barnabas.sim.teller import ACCOUNTS, TOPIC, Ledger
from barnabas.sim.transaction_verdict import judge
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.sim.cluster_client import ClusterClient

CALM_US: Final = SECOND // 2
TROUBLE_US: Final = 6 * SECOND
PATIENCE_US: Final = 90 * SECOND
#: Late copies have arrived by then, and what they began has run out of time.
SETTLING_US: Final = 10 * SECOND
LOOK_US: Final = 40 * MS
COORDINATOR_PARTITIONS: Final = 2
SETTINGS: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "request.timeout.ms": "1000",
}


def run_cluster_transactions(
    seed: int,
    *,
    node_class: type[Node] = Node,
    on_note: Callable[[int, str], None] | None = None,
) -> Verdict:
    """Run one seed. `node_class` is for trying out nodes that break a promise."""
    return play_out(
        seed,
        lambda: ClusterTransactionRun(seed, node_class, on_note),
        is_quiet=on_note is None,
    )


class ClusterTransactionRun:
    """The parts of one run."""

    def __init__(
        self, seed: int, node_class: type[Node], on_note: Callable[[int, str], None] | None
    ) -> None:
        """Build everything; nothing happens yet."""
        self.scheduler = Scheduler(seed, on_note)
        self._chance = chance = self.scheduler.chance("transactions")
        is_synced = chance.random() < 0.4
        settings = {**SETTINGS, "log.flush.interval.messages": "1"} if is_synced else SETTINGS
        self.cluster = Cluster(self.scheduler, 3, node_class, settings)
        self.faults = ClusterFaults(self.cluster)
        # Without syncs a power loss takes what was acknowledged; with them, failing disks leave anything on the medium.
        left_out = "disk error" if is_synced else "power loss"
        self.faults.kinds = [kind for kind in self.faults.kinds if kind != left_out]
        self._checker = NodeChecker(self.cluster.machines, self.cluster.store)
        networks = self.cluster.networks
        topic = TopicPlan(TOPIC, len(ACCOUNTS), (("min.insync.replicas", "2"),))
        self.admin = ClusterAdmin(networks, [topic], moves=chance.random() < 0.3)
        self.ledgers = [Ledger("shared"), Ledger("own")]
        self._echo = ClusterEcho("echo", networks)
        shared, own = self.ledgers
        self.tellers = [self._teller("anna", shared, rises=True), self._teller("carl", own)]
        if chance.random() < 0.6:
            self.tellers.append(self._teller("bob", shared, rises=True))
        for broker in networks:
            self.faults.clients[broker] = [one.lines[broker].name for one in self._clients()]

    def _clients(self) -> list[ClusterClient]:
        return [self.admin, self._echo, *self.tellers]

    def _teller(self, name: str, ledger: Ledger, *, rises: bool | None = None) -> ClusterTeller:
        if rises is None:
            rises = self._chance.random() < 0.5
        return ClusterTeller(
            name, self.cluster.networks, ledger, self._echo, rises=rises,
            transaction_count=self._chance.randint(3, 10),
        )  # fmt: skip

    def play(self) -> None:
        """Let it all happen, then judge."""
        for machine in self.cluster.machines.values():
            machine.start_later(self._chance.randint(0, 100 * MS))
        for client in (self.admin, *self.tellers):
            client.wake(self._chance.randint(0, 300 * MS))
        self._look()
        self.faults.book(CALM_US, TROUBLE_US)
        self.scheduler.run(lambda: False, TROUBLE_US)
        self.faults.heal()
        self.admin.rest()
        self._wait(lambda: all(one.is_finished for one in self.tellers))
        self.scheduler.run(lambda: False, self.scheduler.now_us + SETTLING_US)
        self._wait(lambda: not self._missing())
        judge([self._node(broker) for broker in self.cluster.machines], self.ledgers)
        self._checker.compare_logs()

    def _look(self) -> None:
        self._checker.look()
        self.scheduler.after(LOOK_US, "look", self._look)

    def _wait(self, condition: Callable[[], bool]) -> None:
        if not self.scheduler.run(condition, self.scheduler.now_us + PATIENCE_US):
            left = [one.unfinished for one in self.tellers if not one.is_finished]
            raise Violation("work gets done", "; ".join([*left, *self._missing()]))

    def _missing(self) -> list[str]:
        keys = [(TOPIC, account) for account in ACCOUNTS]
        for topic in (OFFSETS_TOPIC, STATE_TOPIC):
            keys += [(topic, index) for index in range(COORDINATOR_PARTITIONS)]
        return self._checker.missing(keys)

    def _node(self, broker: int) -> Node:
        machine = self.cluster.machines[broker]
        if machine.node is None or machine.node.metrics.failures:
            raise Violation("requests are answered", f"broker {broker} failed within")
        return machine.node
