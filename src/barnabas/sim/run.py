"""One seed, from an empty disk to a verdict.

Job: draw topics, producers, consumers and faults from the seed; let them meet; heal everything; see that every promise held and
that all work gets done. A `Violation` ends the run with what broke.
"""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.node import Node
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.admin import Admin, TopicSpec
from barnabas.sim.burst_producer import BurstProducer
from barnabas.sim.checkers import Expiry, History, Promises
from barnabas.sim.consumer import Auditor, Consumer
from barnabas.sim.faults import Faults
from barnabas.sim.group_checkers import LoneGroupHistory
from barnabas.sim.groups import GroupPlan, Groups, OffsetAuditor, OffsetWatcher, draw_plan
from barnabas.sim.machine import Crash, Machine
from barnabas.sim.network import Network
from barnabas.sim.producer import Producer, Style
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS, SECOND, START_MS, Scheduler
from barnabas.wire.compression import Codec

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from barnabas.sim.checkers import Key
    from barnabas.sim.client import Client
    from barnabas.sim.group_client import GroupClient, GroupSpec, MemberStyle

#: Faults happen up to here.
TROUBLE_US: Final = 4 * SECOND
#: Members of groups have trouble for longer, with a node that is well.
MEMBER_TROUBLE_US: Final = 2 * SECOND
#: Requests that nobody waits for any more are over after this time.
SETTLING_US: Final = 4 * SECOND
#: After this part of it nobody is missed any more who died before (longer than any session and what follows); for that long groups must
#: then stay as they are.
MISSING_US: Final = 1800 * MS
REST_US: Final = 1000 * MS
#: Once healed, everything must be done within this time.
PATIENCE_US: Final = 60 * SECOND
#: What topics are made with: setting, how often, one of these values.
TOPIC_SETTINGS: Final = (
    ("flush.messages", 0.6, ("1", "1", "2", "20")),
    ("flush.ms", 0.2, ("100",)),
    ("internal.segment.bytes", 0.5, ("1000", "3000", "10000")),
    ("segment.ms", 0.2, ("300",)),
    ("index.interval.bytes", 0.5, ("0", "200")),
    ("segment.index.bytes", 0.15, ("36",)),
    ("compression.type", 0.2, ("gzip", "zstd", "uncompressed")),
    ("file.delete.delay.ms", 0.3, ("100",)),
    ("message.timestamp.type", 0.2, ("LogAppendTime",)),
)


#: In a part of the runs records go by themselves, soon enough to be seen.
RETENTION_LIKELIHOOD: Final = 0.25
RETENTION_SETTINGS: Final = (
    ("retention.ms", "500"),
    ("retention.ms", "1500"),
    ("retention.bytes", "0"),
    ("retention.bytes", "2000"),
)
#: In a part of the runs several producers send one record per request at the same moments, over a quick network.
BURST_LIKELIHOOD: Final = 0.25
BURST_DELAY_US: Final = 300
OFTEN_LOOKED_AT: Final = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "150",
}


@dataclass(slots=True, frozen=True)
class Verdict:
    """How a run ended; `violation` is None if every promise held."""

    seed: int
    digest: str
    violation: Violation | None
    events: int
    kinds: tuple[str, ...]


def run_seed(
    seed: int,
    *,
    node_class: type[Node] = Node,
    with_groups: bool = True,
    with_retention: bool = True,
    on_note: Callable[[int, str], None] | None = None,
) -> Verdict:
    """Run one seed. `node_class` is for trying out nodes that break a promise.

    Without groups or retention the run is what it would be if the seed had drawn none.
    """
    return play_out(
        seed,
        lambda: Run(
            seed, node_class, on_note, with_groups=with_groups, with_retention=with_retention
        ),
        is_quiet=on_note is None,
    )


class Playable(Protocol):
    """A run that is built and has not begun."""

    scheduler: Scheduler

    @property
    def faults(self) -> Any:  # noqa: ANN401
        """What was done to it, by `kinds`."""

    def play(self) -> None:
        """Let it happen; Violation if a promise is broken."""


def play_out(seed: int, make: Callable[[], Playable], *, is_quiet: bool) -> Verdict:
    """Build a run, let it happen, and say what came of it; `is_quiet` keeps the brokers' own log out."""
    was_disabled = logging.getLogger("barnabas").manager.disable
    if is_quiet:
        logging.disable(logging.CRITICAL)
    was_collecting = gc.isenabled()
    gc.disable()  # a run is over before its garbage matters, and looking for it is a tenth of the time
    run = make()
    violation = None
    try:
        run.play()
    except Violation as found:
        run.scheduler.note(str(found))
        violation = found
    finally:
        logging.disable(was_disabled)
        if was_collecting:
            gc.enable()
    scheduler = run.scheduler
    return Verdict(seed, scheduler.digest, violation, scheduler.events, tuple(run.faults.kinds))


class Run:
    """The parts of one run."""

    def __init__(
        self,
        seed: int,
        node_class: type[Node],
        on_note: Callable[[int, str], None] | None,
        *,
        with_groups: bool,
        with_retention: bool,
    ) -> None:
        """Build everything; nothing happens yet."""
        self.scheduler = Scheduler(seed, on_note)
        self._chance = self.scheduler.chance("run")
        group_chance = self.scheduler.chance("groups")
        plan = draw_plan(group_chance) if with_groups else GroupPlan(has_groups=False)
        retention_chance = self.scheduler.chance("retention")
        expires = with_retention and retention_chance.random() < RETENTION_LIKELIHOOD
        looks = OFTEN_LOOKED_AT if expires else {}
        config = _broker_config(self._chance, {**plan.broker_settings, **looks})
        self.machine = Machine(self.scheduler, config, node_class)
        self.network = Network(self.scheduler, self.machine)
        self.faults = Faults(self.scheduler, self.machine, self.network)
        explained = {"disk error", "store failure"}.intersection(self.faults.kinds)
        self.history = History(failures_explained=bool(explained))
        self.history.now_ms = lambda: START_MS + self.scheduler.now_us // MS
        self.machine.watcher = self.history
        topics = [
            _topic(self._chance, f"t{number}") for number in range(self._chance.randint(1, 2))
        ]
        if expires:
            topics[-1] = _expiring(retention_chance, topics[-1])
        burst_chance = self.scheduler.chance("bursts")
        bursts = not plan.has_groups and burst_chance.random() < BURST_LIKELIHOOD
        burst_topics = [TopicSpec(f"b{number}", 1) for number in range(2)] if bursts else []
        topics += burst_topics
        self.keys = self._add_partitions(topics, "1" if plan.flushed else "")
        scratch = [
            TopicSpec(f"s{number}", self._chance.randint(1, 3))
            for number in range(self._chance.randint(0, 2))
        ]
        deletes_records = self._chance.random() < 0.3
        self.admin = Admin(
            "admin",
            self.network,
            self.history if deletes_records else None,
            topics,
            scratch,
            store_fails="store failure" in self.faults.kinds,
        )
        self.producers = [self._producer(number) for number in range(self._chance.randint(1, 4))]
        if bursts:
            self.network.longest_us = BURST_DELAY_US
            self.producers += self._bursts(burst_chance, burst_topics)
        self.consumers = [self._consumer(number) for number in range(self._chance.randint(0, 2))]
        self.groups: Groups | None = None
        if plan.has_groups:
            self.consumers = []  # members read enough
            flushed, count = plan.flushed, plan.partition_count
            history = LoneGroupHistory(self.history, self.machine, count, flushed=flushed)
            self.groups = Groups(
                group_chance, plan, history, self.keys, self._member, self.scheduler
            )
            self._watcher = OffsetWatcher("lag watcher", self.network, self.groups)
            self.admin.expect_topic(OFFSETS_TOPIC, plan.partition_count)

    def _add_partitions(self, topics: list[TopicSpec], flush_messages: str) -> list[Key]:
        """Tell the history of the partitions of these topics; `flush_messages` counts where a topic has no setting."""
        keys: list[Key] = []
        for topic in topics:
            expiry = _expiry(topic, self.faults.kinds)
            flushed = dict(topic.configs).get("flush.messages", flush_messages) == "1"
            for index in range(topic.partition_count):
                keys.append((topic.name, index))
                self.history.add_partition((topic.name, index), flushed=flushed, expiry=expiry)
        return keys

    def _producer(self, number: int) -> Producer:
        style = _style(self._chance, self.faults.kinds)
        name = f"p{number}"
        keys = [key for key in self.keys if self._chance.random() < 0.7] or self.keys[:1]
        self._promise(name, style)
        count = self._chance.randint(10, 70)
        return Producer(name, self.network, self.history, keys, style, count)

    def _promise(self, name: str, style: Style) -> None:
        self.history.promises[name] = Promises(
            once=style.idempotent,
            in_order=style.idempotent or (style.in_flight == 1 and style.acks != 0),
        )

    def _bursts(self, chance: random.Random, topics: list[TopicSpec]) -> list[Producer]:
        """Draw producers of one style that send at the same moments, to one partition each."""
        style = _style(chance, self.faults.kinds)._replace(
            acks=-1, version=chance.choice((9, 11)), codec=chance.choice((Codec.GZIP, Codec.LZ4))
        )
        producers: list[Producer] = []
        for number in range(4):
            name = f"b{number}"
            self._promise(name, style)
            keys = [(topics[number % len(topics)].name, 0)]
            count = chance.randint(10, 40)
            producers.append(BurstProducer(name, self.network, self.history, keys, style, count))
        return producers

    def _member(
        self, kind: type[GroupClient], name: str, group: GroupSpec, style: MemberStyle
    ) -> GroupClient:
        return kind(name, self.network, group, style)

    def _consumer(self, number: int) -> Consumer:
        keys = [key for key in self.keys if self._chance.random() < 0.8] or self.keys
        return Consumer(f"c{number}", self.network, self.history, keys)

    def play(self) -> None:
        """Let it all happen, then judge."""
        self.machine.start()
        for client in (self.admin, *self.producers, *self.consumers):
            client.wake(self._chance.randint(0, 300 * MS))
        if self.groups is not None:
            self.groups.start()
            self._watcher.wake()
        self.faults.book(TROUBLE_US)
        self.scheduler.run(lambda: False, TROUBLE_US)
        self.faults.heal()
        if self.groups is not None:
            self.scheduler.run(lambda: False, TROUBLE_US + MEMBER_TROUBLE_US)
            self._watcher.is_finished = True
            self._watcher.hang_up()
            self.groups.calm()
        self._finish_work()
        self._audit()

    def _finish_work(self) -> None:
        def finished() -> bool:
            return self.admin.topics_made and all(one.is_finished for one in self.producers)

        if not self.scheduler.run(finished, self.scheduler.now_us + PATIENCE_US):
            raise self._stuck(
                [f"{one.name}: {one.unfinished}" for one in self.producers if not one.is_finished]
            )
        for consumer in self.consumers:
            consumer.is_finished = True
            consumer.hang_up()

        self.admin.rest()
        if self.groups is None:
            # What was asked for and given up may still take effect.
            self.scheduler.run(lambda: False, self.scheduler.now_us + SETTLING_US)
        else:
            self._settle(self.groups)

    def _settle(self, groups: Groups) -> None:
        """Let groups come to rest, and see that they stay so."""
        scheduler, since_us = self.scheduler, self.scheduler.now_us
        if not scheduler.run(lambda: groups.have_settled(since_us), since_us + PATIENCE_US):
            raise self._stuck(groups.problems(since_us))
        end_us = scheduler.now_us + SETTLING_US
        scheduler.run(lambda: False, scheduler.now_us + MISSING_US)
        groups.note_generations()
        scheduler.run(lambda: False, scheduler.now_us + REST_US)
        groups.check_rest(since_us)
        groups.stop()
        scheduler.run(lambda: False, end_us)
        if self._chance.random() < 0.5:
            self.machine.crash(Crash.PROCESS, 10 * MS)

    def _audit(self) -> None:
        auditor = Auditor("auditor", self.network, self.history, self.keys)
        auditor.wake()
        self.admin.audit()
        clients: list[Client] = [auditor, self.admin]
        if self.groups is not None:
            clients.append(OffsetAuditor("offset auditor", self.network, self.groups))
            clients[-1].wake()

        def finished() -> bool:
            return all(client.is_finished for client in clients)

        if not self.scheduler.run(finished, self.scheduler.now_us + PATIENCE_US):
            raise self._stuck([f"auditor: {auditor.unfinished}", f"admin: {self.admin.unfinished}"])
        for key, records in auditor.found.items():
            read = [(record.offset, record.value or b"") for record in records]
            self.history.judge(key, read, auditor.starts[key])
            if self.groups is not None:
                self.groups.history.judge(key, read)
        assert self.machine.node is not None
        self.history.on_failures(self.machine.node)

    def _stuck(self, waiting: list[str]) -> Violation:
        machine = self.machine
        state = "up" if machine.is_up else f"not up, last failure {machine.last_failure!r}"
        return Violation("work gets done", f"the broker is {state}; {'; '.join(waiting)}")


def _broker_config(chance: random.Random, more: dict[str, str]) -> BrokerConfig:
    checkpoint_ms = str(chance.choice((200, 1000, 60_000)))
    return BrokerConfig(
        {
            "log.dirs": chance.choice(("/data", "/data", "/data-a,/data-b")),
            "broker.id": "1",
            "log.flush.offset.checkpoint.interval.ms": checkpoint_ms,
            "max.incremental.fetch.session.cache.slots": str(chance.choice((1, 2, 1000))),
            **more,
        }
    )


def _topic(chance: random.Random, name: str) -> TopicSpec:
    configs = [
        (setting, chance.choice(values))
        for setting, likelihood, values in TOPIC_SETTINGS
        if chance.random() < likelihood
    ]
    return TopicSpec(name, chance.randint(1, 3), tuple(configs))


def _expiring(chance: random.Random, topic: TopicSpec) -> TopicSpec:
    return topic._replace(configs=(*topic.configs, chance.choice(RETENTION_SETTINGS)))


def _expiry(topic: TopicSpec, kinds: list[str]) -> Expiry | None:
    """Tell what is known of when the records of a topic go: nothing by size, nor with a wrong clock."""
    configs = dict(topic.configs)
    if "retention.ms" in configs and "clock jump" not in kinds:
        return Expiry(int(configs["retention.ms"]))
    return Expiry(None) if "retention.ms" in configs or "retention.bytes" in configs else None


def _style(chance: random.Random, kinds: list[str]) -> Style:
    idempotent = chance.random() < 0.65
    full = "disk full" in kinds or "disk error" in kinds
    return Style(
        idempotent=idempotent,
        acks=-1 if idempotent else chance.choice((-1, 1, 1, 0)),
        in_flight=chance.choice((1, 2, 5)),
        eager=idempotent and not full and chance.random() < 0.5,
        careful=full,
        version=chance.choice((3, 7, 8, 9, 11, 12, 13)),
        codec=chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4)),
    )
