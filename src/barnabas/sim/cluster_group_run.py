"""One seed of consumer groups on three to five brokers, from empty disks to a verdict.

Job: let members of both protocols read what producers write, and die, hang and come back, while brokers do, too; heal everything; then see that
every partition had one owner in a generation, that groups stand where they committed, passed over nothing, and come to rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.node import Node
from barnabas.sim.cluster import Cluster
from barnabas.sim.cluster_admin import ClusterAdmin, TopicPlan
from barnabas.sim.cluster_checkers import NodeChecker
from barnabas.sim.cluster_consumer import ClusterAuditor
from barnabas.sim.cluster_faults import ClusterFaults
from barnabas.sim.cluster_member import CLASSES, PolledRecords
from barnabas.sim.cluster_producer import ClusterProducer
from barnabas.sim.group_checkers import GroupHistory
from barnabas.sim.groups import Groups, draw_settings
from barnabas.sim.history import History, Poll
from barnabas.sim.run import Verdict, play_out
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.sim.cluster_client import Line
    from barnabas.sim.group_client import GroupClient, GroupSpec, MemberStyle
    from barnabas.sim.history import Key

CALM_US: Final = SECOND // 2
TROUBLE_US: Final = 6 * SECOND
PATIENCE_US: Final = 60 * SECOND
#: Longer than any session and what follows from its end: nobody is missed any more who died before.
MISSING_US: Final = 6 * SECOND
REST_US: Final = 3 * SECOND
LOOK_US: Final = 40 * MS
AUDITOR: Final = "auditor"
_SETTINGS: Final = {"min.insync.replicas": "2", "request.timeout.ms": "1000"}


def run_cluster_groups(
    seed: int,
    *,
    node_class: type[Node] = Node,
    on_note: Callable[[int, str], None] | None = None,
) -> Verdict:
    """Run one seed. `node_class` is for trying out nodes that break a promise."""
    return play_out(
        seed,
        lambda: ClusterGroupRun(seed, node_class, on_note),
        is_quiet=on_note is None,
    )


class ClusterGroupRun:
    """The parts of one run."""

    def __init__(
        self, seed: int, node_class: type[Node], on_note: Callable[[int, str], None] | None
    ) -> None:
        """Build everything; nothing happens yet."""
        self.scheduler = Scheduler(seed, on_note)
        self._chance = chance = self.scheduler.chance("groups")
        plan = draw_settings(chance)
        self.cluster = Cluster(
            self.scheduler, chance.choice((3, 3, 4, 5)), node_class, {**_SETTINGS, **plan.broker_settings}
        )  # fmt: skip
        self.faults = ClusterFaults(self.cluster)
        # Without syncs a power loss takes what was acknowledged; with them, failing disks leave anything on the medium.
        left_out = "disk error" if plan.flushed else "power loss"
        self.faults.kinds = [kind for kind in self.faults.kinds if kind != left_out]
        self._checker = NodeChecker(self.cluster.machines, self.cluster.store)
        topic = TopicPlan("t", chance.randint(1, 3), (("min.insync.replicas", "2"),))
        self.keys: list[Key] = [("t", index) for index in range(topic.partition_count)]
        self._offsets: list[Key] = [(OFFSETS_TOPIC, n) for n in range(plan.partition_count)]
        networks = self.cluster.networks
        self.admin = ClusterAdmin(networks, [topic], moves=chance.random() < 0.3)
        self.history = History()
        self.producer = ClusterProducer(
            "p0", networks, self.history, self.keys, chance.randint(10, 40), TROUBLE_US
        )
        history = GroupHistory(PolledRecords(self.history), self.scheduler)
        self.groups = Groups(chance, plan, history, self.keys, self._member, self.scheduler)
        for broker in networks:
            self.faults.clients[broker] = [lines[broker].name for lines in self._lines()]

    def _member(
        self, kind: type[GroupClient], name: str, group: GroupSpec, style: MemberStyle
    ) -> GroupClient:
        return CLASSES[kind](name, self.cluster.networks, group, style)

    def _lines(self) -> list[dict[int, Line]]:
        members = [member for group in self.groups.groups for member in group.members]
        return [self.admin.lines, self.producer.lines] + [m.lines for m in members]  # type: ignore[attr-defined]

    def play(self) -> None:
        """Let it all happen, then judge."""
        for machine in self.cluster.machines.values():
            machine.start_later(self._chance.randint(0, 100 * MS))
        for client in (self.admin, self.producer):
            client.wake(self._chance.randint(0, 300 * MS))
        self.groups.start()
        self._look()
        self.faults.book(CALM_US, TROUBLE_US)
        self.scheduler.run(lambda: False, TROUBLE_US)
        self.faults.heal()
        self.groups.calm()
        self.admin.rest()
        self._wait(lambda: self.producer.is_finished, lambda: [self.producer.unfinished])
        self._wait(lambda: not self._missing(), list)
        self._settle()
        self._audit()

    def _look(self) -> None:
        self._checker.look()
        self.scheduler.after(LOOK_US, "look", self._look)

    def _wait(self, condition: Callable[[], bool], left: Callable[[], list[str]]) -> None:
        if not self.scheduler.run(condition, self.scheduler.now_us + PATIENCE_US):
            raise Violation("work gets done", "; ".join([*left(), *self._missing()]))

    def _missing(self) -> list[str]:
        return self._checker.missing(self.keys + self._offsets)

    def _settle(self) -> None:
        """Let groups come to rest, and see that they stay so."""
        groups, scheduler, since_us = self.groups, self.scheduler, self.scheduler.now_us
        self._wait(lambda: groups.have_settled(since_us), lambda: groups.problems(since_us))
        scheduler.run(lambda: False, scheduler.now_us + MISSING_US)
        groups.note_generations()
        scheduler.run(lambda: False, scheduler.now_us + REST_US)
        groups.check_rest(since_us)
        groups.stop()

    def _audit(self) -> None:
        auditor = ClusterAuditor(AUDITOR, self.cluster.networks, self.history, self.keys)
        auditor.wake()
        self._wait(lambda: auditor.is_finished, lambda: [f"auditor: {auditor.unfinished}"])
        self._checker.compare_logs()
        found: dict[Key, list[tuple[int, bytes]]] = {key: [] for key in self.keys}
        for operation in self.history.operations:
            for step in operation.steps:
                if operation.process == AUDITOR and isinstance(step, Poll):
                    found[step.key] += step.records
        for key, records in found.items():
            self.groups.history.judge(key, records)
            self._judge_offsets(key, len(records))
        for anomaly in self.history.anomalies(all_was_read=True):
            if anomaly.kind not in ("duplicate", "nonmonotonic-send"):
                raise Violation(anomaly.kind, anomaly.what)
        for broker, machine in self.cluster.machines.items():
            if machine.node is None or machine.node.metrics.failures:
                raise Violation("requests are answered", f"broker {broker} failed within")

    def _judge_offsets(self, key: Key, end_offset: int) -> None:
        """Every group stands at the end, with whoever coordinates it now."""
        nodes = [machine.node for machine in self.cluster.machines.values() if machine.node]
        shards = [hosted.shard for node in nodes for hosted in node.coordinators.all_loaded()]
        for group in self.groups.groups:
            kept = [
                one.offset
                for shard in shards
                for one in shard.offsets.committed(group.group_id)
                if (one.topic, one.partition) == key
            ]
            if key in group.keys and kept not in ([end_offset], [] if not end_offset else None):
                raise Violation(
                    "commits are kept",
                    f"{group.group_id} stands at {kept} of {key[0]}-{key[1]}, not {end_offset}",
                )
