"""W13: three brokers on this machine, every record on all of them before it is acknowledged; what a dead leader costs."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bench import clients
from bench.admin import Admin, BrokerFailed, Place
from bench.clients import Sending
from bench.clusters import SESSION_MS, SIZE
from bench.figures import Figure
from bench.frames import Batch
from bench.measure import Watch
from bench.plan import WARM_SLICE_S, Step, is_steady
from bench.workloads.latency import latency
from bench.workloads.units import GB, MILLION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.clusters import Cluster
    from bench.plan import Bench

PARTITIONS = 16
SPREAD = [[1 + (index + other) % SIZE for other in range(SIZE)] for index in range(PARTITIONS)]
"""Every broker leads a third, and each is followed by both others."""
LED_BY_FIRST = [[1, 2, 3]] * PARTITIONS
"""The load generator speaks with one broker."""
RATE, BATCH, PRODUCERS = 2_000, Batch(10, 1024), 16
CONNECTIONS = 16
VICTIM = 3
"""Whoever is controller at first, this one rarely is: it registers last."""
FAILOVER_LIMIT_S = 60
RETRY_S = 0.01
SETTLE_S = 2.0


def w13(s: float) -> list[Step]:
    """Memory first, while nothing was written; the failovers last."""
    idle = (
        Figure("w13.idle", "resident memory, three brokers, idle", "MB"),
        Figure("w13.idle-others", "… and ZooKeeper", "MB"),
    )
    produce = (
        Figure("w13.produce", "produce 1 KB, 16 partitions, acks all", "MB/s", True, 1.0),
        Figure("w13.produce-cpu", "… CPU of the cluster", "s/GB", False, 1.0),
    )
    requests = (
        Figure("w13.requests", "one-record requests on 16 connections", "requests/s", True),
        Figure("w13.requests-cpu", "… CPU of the cluster for each", "µs"),
        Figure("w13.requests-p99", "… p99", "µs"),
    )
    grown = (
        Figure("w13.one", "one-record requests, one replica, on one broker", "requests/s", True),
        Figure("w13.two", "… on two brokers at once", "requests/s", True),
    )
    after = (
        Figure("w13.after", "resident memory, three brokers, after load", "MB"),
        Figure("w13.peak", "… at its peak", "MB"),
    )
    session = f"session {SESSION_MS / 1000:.0f} s"
    failover = (Figure("w13.failover", f"leader killed: until it acknowledges, {session}", "s"),)
    steady = latency("w13.steady", f"end to end, {RATE:,} records/s", (1.0, 1.0, 1.0))
    return [
        Step("w13", "memory, idle", idle, run_idle, 5, runs=1),
        Step("w13", "produce", produce, run_produce, 3 + 3 * s),
        Step("w13", "fixed rate", steady, run_steady, 3 + 2 * s),
        Step("w13", "one-record requests", requests, run_requests, 3 + 2 * s),
        Step("w13", "one broker and two", grown, run_grown, 4 + 2 * s),
        Step("w13", "memory after load", after, run_after, 0.1, runs=1),
        Step("w13", "failover", failover, run_failover, 20),
    ]


@contextmanager
def topic(cluster: Cluster, replicas: Sequence[Sequence[int]]) -> Iterator[list[Place]]:
    """Make a topic with these replicas, and delete it after the block."""
    name = f"w13-{time.monotonic_ns()}"
    cluster.make_topic(name, replicas)
    yield [Place(name, index) for index in range(len(replicas))]
    with cluster.admin() as admin:
        admin.delete([name])


def warmed(bench: Bench, name: str) -> Cluster:
    """Give the cluster after it has taken some records, and requests until they got no cheaper."""
    cluster = bench.cluster(name)
    if cluster.is_warm:
        return cluster
    cluster.is_warm = True
    with topic(cluster, LED_BY_FIRST) as places:
        clients.produce(
            bench.tools, cluster, places[0].topic, Sending(bench.scale.records_1k, 1024)
        )
        file = bench.produce_file(places, Batch())
        end = time.monotonic() + bench.scale.warm_up_s
        costs: list[float] = []
        while time.monotonic() < end and not is_steady(costs):
            shape = {"connections": CONNECTIONS, "depth": 1, "seconds": WARM_SLICE_S}
            with Watch(*cluster.pids) as watch:
                done = clients.load(bench.tools, cluster, "requests", produce=file, **shape)
            costs.append(watch.cpu_s / done["requests"])
    return cluster


def run_idle(bench: Bench, name: str) -> dict[str, float]:
    """Read the memory of brokers that have just come up."""
    cluster = bench.cluster(name)
    time.sleep(SETTLE_S)
    return {"w13.idle": cluster.memory().now, "w13.idle-others": cluster.memory_of_others()}


def run_after(bench: Bench, name: str) -> dict[str, float]:
    """Read the memory of brokers that have worked."""
    found = bench.cluster(name).memory()
    return {"w13.after": found.now, "w13.peak": found.peak}


def run_produce(bench: Bench, name: str) -> dict[str, float]:
    """Write with librdkafka as fast as it goes."""
    cluster = warmed(bench, name)
    how = Sending(bench.scale.records_1k, 1024)
    with topic(cluster, SPREAD) as places:
        target = places[0].topic
        with bench.watch(cluster, "w13.produce") as watch:
            done = clients.produce(bench.tools, cluster, target, how)
    return {"w13.produce": done.mb_s, "w13.produce-cpu": watch.cpu_s / done.payload * GB}


def run_steady(bench: Bench, name: str) -> dict[str, float]:
    """Follow what is written at a fixed rate, as a reader sees it: when it is committed."""
    cluster, seconds = warmed(bench, name), 2 * bench.scale.seconds
    with topic(cluster, LED_BY_FIRST) as places:
        options = {
            "produce": bench.produce_file(places, BATCH),
            "fetch": bench.fetch_file(places),
            "rate": RATE,
            "producers": PRODUCERS,
            "seconds": seconds,
            "warmup": min(0.5, seconds / 4),
        }
        with bench.watch(cluster, "w13.steady") as watch:
            done = clients.load(bench.tools, cluster, "follow", **options)
    found = done["end_to_end_us"]
    quantiles = {f"w13.steady.{part}": found[part] for part in ("p50", "p99", "p999", "max")}
    return {**quantiles, "w13.steady.cpu": watch.cpu_s / done["records"] * MILLION}


def run_requests(bench: Bench, name: str) -> dict[str, float]:
    """One record in each request, and the next when it is acknowledged."""
    cluster, seconds = warmed(bench, name), bench.scale.seconds
    with topic(cluster, LED_BY_FIRST) as places:
        file = bench.produce_file(places, Batch())
        shape = {"connections": CONNECTIONS, "depth": 1}
        with bench.connected(cluster, file, "w13.requests", seconds, **shape) as connected:
            done, watch = connected
    return {
        "w13.requests": done["requests"] / watch.wall_s,
        "w13.requests-cpu": watch.cpu_s / done["requests"] * MILLION,
        "w13.requests-p99": done["latency_us"]["p99"],
    }


def run_grown(bench: Bench, name: str) -> dict[str, float]:
    """The same requests to one broker, and half of the connections to each of two."""
    cluster, seconds = warmed(bench, name), bench.scale.seconds
    one = _requests_per_s(bench, cluster, seconds, [1])
    return {"w13.one": one, "w13.two": _requests_per_s(bench, cluster, seconds, [1, 2])}


def _requests_per_s(
    bench: Bench, cluster: Cluster, seconds: float, leaders: Sequence[int]
) -> float:
    each = PARTITIONS // len(leaders)
    replicas = [[leader] for leader in leaders for _ in range(each)]
    with topic(cluster, replicas) as places:
        running = []
        for number, leader in enumerate(leaders):
            own = places[number * each : (number + 1) * each]
            file = bench.produce_file(own, Batch(acks=1)).rename(bench.folder / f"to-{leader}")
            shape = {"connections": CONNECTIONS // len(leaders), "depth": 1, "seconds": seconds}
            broker = cluster.brokers[leader - 1]
            running.append(clients.loadgen(bench.tools, broker, "requests", produce=file, **shape))
        found = clients.all_at_once(running)
    return sum(float(done["requests"] / done["seconds"]) for done in found)


def run_failover(bench: Bench, name: str) -> dict[str, float]:
    """Kill a leader, and write to who leads until a record is acknowledged; then bring it back."""
    cluster = warmed(bench, name)
    order = [VICTIM, *(number for number in range(1, SIZE + 1) if number != VICTIM)]
    with topic(cluster, [order]) as places:
        target = places[0].topic
        victim = cluster.brokers[VICTIM - 1]
        victim.kill()
        seconds = _until_acknowledged(cluster, target)
        victim.start(lambda admin: admin.brokers() >= SIZE)
        cluster.wait_healthy(target, SIZE)
    return {"w13.failover": seconds}


def _until_acknowledged(cluster: Cluster, target: str) -> float:
    """Ask the survivors who leads, again and again, and write there."""
    started = time.monotonic()
    survivor = cluster.brokers[0]
    while time.monotonic() - started < FAILOVER_LIMIT_S:
        with suppress(OSError, BrokerFailed):
            with Admin(survivor.port, timeout_s=FAILOVER_LIMIT_S) as admin:
                leader = admin.leaders(target)[0]
            if leader not in (-1, VICTIM):
                with Admin(cluster.brokers[leader - 1].port) as admin:
                    admin.prime_places({(target, 0)}, timeout_s=0)
                return time.monotonic() - started
        time.sleep(RETRY_S)
    raise BrokerFailed(f"nothing was acknowledged within {FAILOVER_LIMIT_S} s after a death")
