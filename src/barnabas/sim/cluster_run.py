"""One seed, from empty disks to a verdict on a cluster.

Job: draw brokers, topics, clients and faults from the seed; let them meet; heal everything; see that every promise held, that the cluster
becomes whole and all work gets done. A `Violation` ends the run with what broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.node import Node
from barnabas.sim.cluster import Cluster
from barnabas.sim.cluster_admin import ClusterAdmin, TopicPlan
from barnabas.sim.cluster_checkers import NodeChecker, StoreChecker
from barnabas.sim.cluster_consumer import ClusterAuditor, ClusterConsumer
from barnabas.sim.cluster_deleter import ClusterDeleter
from barnabas.sim.cluster_faults import ClusterFaults
from barnabas.sim.cluster_producer import ClusterProducer
from barnabas.sim.history import History
from barnabas.sim.run import Verdict, play_out
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.sim.cluster_client import ClusterClient
    from barnabas.sim.history import Anomaly, Key

#: Faults happen between these times.
CALM_US: Final = SECOND // 2
TROUBLE_US: Final = 8 * SECOND
#: Once healed, everything must be done within this time.
PATIENCE_US: Final = 30 * SECOND
#: What was asked for and given up may still take effect.
SETTLING_US: Final = 3 * SECOND
#: In a part of the runs somebody moves replicas and leaders about.
MOVES_LIKELIHOOD: Final = 0.4
#: In a part of them somebody makes and deletes topics.
DELETIONS_LIKELIHOOD: Final = 0.4
LOOK_US: Final = 40 * MS
COMPARE_US: Final = 900 * MS


def run_cluster(
    seed: int,
    *,
    node_class: type[Node] = Node,
    on_note: Callable[[int, str], None] | None = None,
) -> Verdict:
    """Run one seed. `node_class` is for trying out nodes that break a promise."""
    return play_out(
        seed,
        lambda: ClusterRun(seed, node_class, on_note),
        is_quiet=on_note is None,
    )


class ClusterRun:
    """The parts of one run."""

    def __init__(
        self, seed: int, node_class: type[Node], on_note: Callable[[int, str], None] | None
    ) -> None:
        """Build everything; nothing happens yet."""
        self.scheduler = Scheduler(seed, on_note)
        self._chance = chance = self.scheduler.chance("run")
        settings = {
            "replica.high.watermark.checkpoint.interval.ms": str(chance.choice((200, 5000))),
            "log.flush.offset.checkpoint.interval.ms": str(chance.choice((200, 60_000))),
        }
        count = chance.choice((3, 3, 3, 4, 5))
        self.cluster = Cluster(self.scheduler, count, node_class, settings)
        self.faults = ClusterFaults(self.cluster)
        self.faults.draw_put_back()
        self.history = History()
        self._store_checker = StoreChecker(self.cluster.store)
        self._checker = NodeChecker(self.cluster.machines, self.cluster.store)
        topics = [self._topic(number) for number in range(chance.randint(1, 2))]
        self.keys: list[Key] = [
            (topic.name, index) for topic in topics for index in range(topic.partition_count)
        ]
        networks = self.cluster.networks
        # A store that was put back does not know where replicas were moved: then records are lost, to readers at least.
        moves = (
            self.scheduler.chance("moves").random() < MOVES_LIKELIHOOD
            and not self.faults.is_put_back
        )
        self.admin = ClusterAdmin(networks, topics, moves=moves)
        # A store that was put back does not know which topics were deleted.
        deletes = self.scheduler.chance("deletions").random() < DELETIONS_LIKELIHOOD
        self.deleter = ClusterDeleter(networks) if deletes and not self.faults.is_put_back else None
        self.producers = [self._producer(number) for number in range(chance.randint(1, 3))]
        self.consumers = [
            ClusterConsumer(f"c{number}", networks, self.history, self.keys)
            for number in range(chance.randint(1, 2))
        ]
        for broker in networks:
            self.faults.clients[broker] = [one.lines[broker].name for one in self._clients()]

    def _clients(self) -> list[ClusterClient]:
        deleters = [] if self.deleter is None else [self.deleter]
        return [self.admin, *deleters, *self.producers, *self.consumers]

    def _topic(self, number: int) -> TopicPlan:
        chance = self._chance
        configs = [("min.insync.replicas", "2")]
        if "power loss" in self.faults.kinds or chance.random() < 0.2:
            configs.append(("flush.messages", "1"))
        if chance.random() < 0.4:
            configs.append(("internal.segment.bytes", chance.choice(("1000", "3000"))))
        return TopicPlan(f"t{number}", chance.randint(1, 3), tuple(configs))

    def _producer(self, number: int) -> ClusterProducer:
        keys = [key for key in self.keys if self._chance.random() < 0.7] or self.keys[:1]
        count = self._chance.randint(10, 60)
        return ClusterProducer(
            f"p{number}", self.cluster.networks, self.history, keys, count, TROUBLE_US
        )

    def play(self) -> None:
        """Let it all happen, then judge."""
        for machine in self.cluster.machines.values():
            machine.start_later(self._chance.randint(0, 100 * MS))
        for client in self._clients():
            client.wake(self._chance.randint(0, 300 * MS))
        self._look()
        self._compare()
        self.faults.book(CALM_US, TROUBLE_US)
        if self.faults.is_put_back:
            self.faults.book_put_back(CALM_US, TROUBLE_US, lambda: self.admin.topics_made)
        self.scheduler.run(lambda: False, TROUBLE_US)
        self.faults.heal()
        self.admin.rest()
        if self.deleter is not None:
            self.deleter.rest()
        self._finish_work()
        self._become_whole()
        self._audit()

    def _look(self) -> None:
        self._checker.look()
        self.scheduler.after(LOOK_US, "look", self._look)

    def _compare(self) -> None:
        self._checker.compare_logs()
        self.scheduler.after(COMPARE_US, "compare", self._compare)

    def _finish_work(self) -> None:
        def finished() -> bool:
            return self.admin.topics_made and all(one.is_finished for one in self.producers)

        if not self.scheduler.run(finished, self.scheduler.now_us + PATIENCE_US):
            left = [one.unfinished for one in self.producers if not one.is_finished]
            if not self.admin.topics_made:
                left.append(f"topics cannot be made: {self.admin.last_problem}")
            raise self._stuck(left)

    def _become_whole(self) -> None:
        def whole() -> bool:
            return not self._checker.missing(self.keys)

        self.scheduler.run(lambda: False, self.scheduler.now_us + SETTLING_US)
        if not self.scheduler.run(whole, self.scheduler.now_us + PATIENCE_US):
            raise self._stuck([])

    def _audit(self) -> None:
        for consumer in self.consumers:
            consumer.is_finished = True
            consumer.hang_up()
        auditor = ClusterAuditor("auditor", self.cluster.networks, self.history, self.keys)
        auditor.wake()
        if not self.scheduler.run(lambda: auditor.is_finished, self.scheduler.now_us + PATIENCE_US):
            raise self._stuck([f"auditor: {auditor.unfinished}"])
        self._checker.look()
        self._checker.compare_logs()
        for anomaly in self.history.anomalies(all_was_read=True):
            if not self._is_forgiven(anomaly):
                raise Violation(anomaly.kind, anomaly.what)
        for broker, machine in self.cluster.machines.items():
            if machine.node is not None and machine.node.metrics.failures:
                raise Violation("requests are answered", f"broker {broker} failed within")

    def _is_forgiven(self, anomaly: Anomaly) -> bool:
        """Tell whether it comes of batches that brokers need not know any more (see `cluster_producer`)."""
        forgotten = {one for producer in self.producers for one in producer.forgotten}
        is_disorder = anomaly.kind == "nonmonotonic-send" and bool(forgotten)
        return is_disorder or (anomaly.kind == "duplicate" and anomaly.record in forgotten)

    def _stuck(self, waiting: list[str]) -> Violation:
        return Violation("work gets done", "; ".join([*waiting, *self._checker.missing(self.keys)]))
