"""Runs the steps of the workloads: each on both brokers, in alternating order, until the time is up.

A step that fails is told and does not stop the others; a broker that died is started again.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from bench import clients, measure
from bench.admin import BrokerFailed, Place
from bench.brokers import KINDS, SHOWN, Broker
from bench.clients import ClientFailed, Sending
from bench.clusters import CLUSTERS, Cluster
from bench.figures import BARNABAS, Figure, Result, alternating
from bench.frames import (
    Batch,
    commit_frame,
    heartbeat_frame,
    write_fetch,
    write_frames,
    write_produce,
)
from bench.members import HEARTBEAT_VERSION, Member, heartbeat
from bench.quiet import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.build import Tools
    from bench.profiling import Profiler
    from bench.progress import Progress

T = TypeVar("T")

WARM_SLICE_S = 0.7
FAILURES = (ClientFailed, BrokerFailed, OSError, subprocess.SubprocessError)


class Scale(NamedTuple):
    """How much of everything one run does."""

    name: str
    runs: int
    seconds: float
    """Of load from the generator, for each figure."""
    records_1k: int
    backlog: int
    """Records of 1 KB that W7 drains."""
    warm_up_s: float
    """At most, of requests before the clock starts, so that a JVM has compiled what it needs."""
    limit_s: float
    """No step is begun after this."""
    disk_gb: float
    """What lies on disk at most; Apache Kafka keeps deleted topics for another minute."""
    patience_s: float = 0
    """For a host that takes the machine's time: see `quiet`."""


SHORT = Scale("short", 3, 1.5, 200_000, 400_000, 20, 540, 6)
FULL = Scale("full", 3, 10, 2_000_000, 4_000_000, 60, 6 * 3600, 30)
TINY = Scale("tiny", 1, 0.3, 5_000, 10_000, 0.3, 600, 1)


class Connected(NamedTuple):
    """A load that is over while its connections are still open."""

    done: dict[str, Any]
    watch: measure.Watch


class Skip(Exception):
    """A step cannot be run on a broker; says why."""


@dataclass(frozen=True)
class Step:
    """One repeated measurement: yields a value for each of its figures."""

    workload: str
    label: str
    figures: tuple[Figure, ...]
    run: Callable[[Bench, str], dict[str, float]]
    seconds: float
    """What one run takes, about."""
    runs: int | None = None


@dataclass
class Outcome:
    """Everything that a benchmark has found."""

    results: dict[str, Result] = field(default_factory=dict)
    noise: dict[str, list[measure.Noise]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0
    again: int = 0
    """Runs that were taken again because the host took the machine's time."""


class Bench:
    """What the steps work with: the running brokers, the clients, a folder, and the scale."""

    def __init__(self, tools: Tools, scale: Scale, profiler: Profiler | None = None) -> None:
        """Make a folder for all data; it is deleted at the end."""
        self.tools = tools
        self.scale = scale
        self.folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
        self.noise: list[measure.Noise] = []
        self.patience = Patience(scale.patience_s)
        self._running: dict[str, Broker] = {}
        self._prepared: dict[tuple[str, str], Broker] = {}
        self._clusters: dict[str, Cluster] = {}
        self.topic_settings: dict[str, str] = {}
        """Of every topic that steps make from now on."""
        self._topics = 0
        self._profiler = profiler

    def __enter__(self) -> Self:
        """Nothing runs yet: brokers are started when a step asks for them."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop every broker and delete every file."""
        for broker in [
            *self._running.values(), *self._prepared.values(), *self._clusters.values(),
        ]:  # fmt: skip
            broker.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def broker(self, name: str) -> Broker:
        """Give the broker that most steps share, started and warmed up at the first call."""
        if name not in self._running:
            broker = self.fresh(name)
            self._running[name] = broker
            broker.start()
            self.warm(broker)
        return self._running[name]

    def cluster(self, name: str) -> Cluster:
        """Give the three brokers that steps share, started at the first call; single ones make room for them."""
        for running in list(self._running):
            self.drop(running)
        if name not in self._clusters:
            self._topics += 1
            cluster = CLUSTERS[name](self.folder / f"{name}-{self._topics}")
            self._clusters[name] = cluster
            cluster.start()
        return self._clusters[name]

    def fresh(self, name: str, settings: Mapping[str, str] | None = None) -> Broker:
        """Give a broker of the step's own, with no data, not started."""
        self._topics += 1
        return KINDS[name](self.folder / f"{name}-{self._topics}", settings)

    def prepared(self, name: str, what: str, prepare: Callable[[Broker], None]) -> Broker:
        """Give a stopped broker with data, which is made at the first call and kept."""
        if (name, what) not in self._prepared:
            broker = self.fresh(name)
            self._prepared[name, what] = broker
            broker.start()
            prepare(broker)
            broker.stop()
        return self._prepared[name, what]

    def drop(self, name: str) -> None:
        """Stop and forget the shared broker, so that the next step gets a new one."""
        for running in (self._running, self._clusters):
            broker = running.pop(name, None)
            if broker:
                broker.kill()
                broker.wipe()

    @contextmanager
    def topic(self, broker: Broker, partitions: int, count: int = 1) -> Iterator[list[Place]]:
        """Make topics, writable in all their partitions, and delete them after the block."""
        self._topics += 1
        names = [f"bench-{self._topics:04d}-{i:04d}" for i in range(count)]
        topics = dict.fromkeys(names, partitions)
        with broker.admin() as admin:
            admin.make(topics, self.topic_settings)
        yield [Place(name, index) for name in names for index in range(partitions)]
        with broker.admin() as admin:
            admin.delete(names)

    @contextmanager
    def watch(self, broker: Broker, label: str) -> Iterator[measure.Watch]:
        """Measure what the broker and the machine do during the block; a flame graph of it bears the label."""
        watch = measure.Watch(*broker.pids)
        with self._profiled(broker, label), watch:
            yield watch
        self.noise.append(watch.noise)

    def quietest(self, take: Callable[[], T]) -> T:
        """Measure something as quietly as the run's patience allows; only the noise of what counts is kept."""
        before = self.noise

        def with_noise() -> tuple[T, list[measure.Noise]]:
            self.noise = []
            return take(), self.noise

        try:
            value, noise = self.patience.quietest(with_noise)
        finally:
            self.noise = before
        self.noise.extend(noise)
        return value

    @contextmanager
    def _profiled(self, broker: Broker, label: str) -> Iterator[None]:
        if self._profiler and broker.name == BARNABAS:
            with self._profiler.record(broker.pid, label):
                yield
        else:
            yield

    @contextmanager
    def connected(
        self,
        broker: Broker,
        file: Path,
        label: str,
        seconds: float,
        *,
        before: int = 0,
        **shape: float,
    ) -> Iterator[Connected]:
        """Send prepared requests on connections that have been used before, and stay open during the block; `before` it counts, so many requests are answered."""
        command = clients.loadgen(self.tools, broker, "requests", produce=file, hold=True, **shape)
        with clients.beside(command, brief=True) as process:
            clients.read_result(process)
            clients.warm(process, seconds / 2, before)
            with self.watch(broker, label) as watch:
                done = clients.run_for(process, seconds)
            yield Connected(done, watch)

    def produce_file(self, places: list[Place], batch: Batch) -> Path:
        """Write prepared Produce requests."""
        return write_produce(self.folder / "produce", places, batch)

    def fetch_file(self, places: list[Place]) -> Path:
        """Write a prepared Fetch request."""
        return write_fetch(self.folder / "fetch", places)

    def commit_file(self, commits: list[tuple[str, Place]]) -> Path:
        """Write prepared OffsetCommit requests."""
        frames = [commit_frame(group, place) for group, place in commits]
        return write_frames(self.folder / "commits", frames)

    def heartbeat_file(self, members: list[Member]) -> Path:
        """Write prepared Heartbeat requests."""
        frames = [heartbeat_frame(heartbeat(member), HEARTBEAT_VERSION) for member in members]
        return write_frames(self.folder / "heartbeats", frames)

    def warm(self, broker: Broker) -> None:
        """One produce, one consume, then requests until they get no cheaper: a JVM that was just started is slow."""
        count = self.scale.records_1k
        with self.topic(broker, 4) as places:
            topic = places[0].topic
            clients.produce(self.tools, broker, topic, Sending(count, 1024))
            clients.consume(self.tools, broker, topic, 4, count)
            file = self.produce_file(places, Batch())
            end = time.monotonic() + self.scale.warm_up_s
            costs: list[float] = []
            while time.monotonic() < end and not is_steady(costs):
                costs.append(self._cost_of_requests(broker, file))

    def _cost_of_requests(self, broker: Broker, file: Path) -> float:
        """CPU seconds for each request, on few connections and on many."""
        requests = 0
        with measure.Watch(broker.pid) as watch:
            for connections, depth in ((1, 1), (32, 4)):
                shape = {"connections": connections, "depth": depth, "seconds": WARM_SLICE_S}
                done = clients.load(self.tools, broker, "requests", produce=file, **shape)
                requests += done["requests"]
        return watch.cpu_s / requests


def is_steady(costs: list[float]) -> bool:
    """Whether two slices in a row were not cheaper than the best before them by more than a twentieth."""
    if len(costs) < 3:
        return False
    best = min(costs[:-2])
    return min(costs[-2:]) > 0.95 * best


def run_all(bench: Bench, steps: list[Step], brokers: list[str], progress: Progress) -> Outcome:
    """Run every step; what does not fit into the time is named as skipped."""
    outcome, started = Outcome(), time.monotonic()
    for step in steps:
        order = alternating(brokers, step.runs or bench.scale.runs)
        if time.monotonic() - started > bench.scale.limit_s:
            outcome.skipped.append(f"{step.workload} {step.label}: the time was up")
            progress.advance(step.seconds * len(order))
            continue
        _run_step(bench, step, order, outcome, progress)
    outcome.seconds = time.monotonic() - started
    outcome.again = bench.patience.again
    return outcome


def _run_step(
    bench: Bench,
    step: Step,
    order: list[tuple[int, str]],
    outcome: Outcome,
    progress: Progress,
) -> None:
    runs = 1 + max(number for number, _ in order)
    given_up: set[str] = set()
    for number, name in order:
        progress.show(f"{step.workload} {step.label} · {SHOWN[name]} · {number + 1}/{runs}")
        if name not in given_up and not _run_once(bench, step, name, outcome):
            given_up.add(name)
        progress.advance(step.seconds)
    outcome.noise.setdefault(step.workload, []).extend(bench.noise)
    bench.noise.clear()


def _run_once(bench: Bench, step: Step, name: str, outcome: Outcome) -> bool:
    """Run a step once on one broker; False if there is no use in trying again."""
    try:
        values = bench.quietest(lambda: step.run(bench, name))
    except Skip as reason:
        _once(outcome.skipped, f"{step.workload} {step.label}: {reason}")
        return False
    except FAILURES as error:
        outcome.failures.append(f"{step.workload} {step.label} · {SHOWN[name]}: {error}")
        bench.drop(name)
        return False
    for figure in step.figures:
        value = values.get(figure.key)
        if value is not None:
            outcome.results.setdefault(figure.key, Result(figure)).add(name, value)
    return True


def _once(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)
