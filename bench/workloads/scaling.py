"""How CPU per request and memory grow with partitions and connections, each on a broker of its own."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from bench import clients
from bench.figures import Figure
from bench.frames import Batch, Place
from bench.plan import Step
from bench.workloads.starts import SETTLE_S
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.brokers import Broker
    from bench.plan import Bench

PARTITION_COUNTS = (1, 100, 1_000, 10_000)
CONNECTION_COUNTS = (1, 100, 1_000, 5_000)
PARTITIONS_PER_TOPIC = 1_000


def scaling(s: float) -> list[Step]:
    """CPU per request and memory, each on a broker of its own."""
    return [
        *(
            scaling_step("partitions", n, run_partitions, 12 + s + n / 150)
            for n in PARTITION_COUNTS
        ),
        *(
            scaling_step("connections", n, run_connections, 8 + s + n / 500)
            for n in CONNECTION_COUNTS
        ),
    ]


def scaling_step(
    kind: str, count: int, run: Callable[..., dict[str, float]], seconds: float
) -> Step:
    """One point of a series."""
    key = f"scale.{kind}.{count}"
    figures = (
        Figure(f"{key}.cpu", f"broker CPU, {count:,} {kind}", "s/million"),
        Figure(f"{key}.memory", f"… memory per {kind[:-1]}", "KB"),
    )
    return Step("scale", f"{count:,} {kind}", figures, partial(run, count=count), seconds)


def run_partitions(bench: Bench, name: str, *, count: int) -> dict[str, float]:
    """Requests that go round all partitions."""
    key, per_topic = f"scale.partitions.{count}", min(count, PARTITIONS_PER_TOPIC)
    with bench.fresh(name) as broker:
        broker.start()
        time.sleep(SETTLE_S)
        before = broker.memory().now
        with bench.topic(broker, per_topic, count // per_topic) as places:
            after = broker.memory().now
            done, cpu = some_requests(bench, broker, places, 16, key)
        broker.kill()
    broker.wipe()
    return {f"{key}.cpu": cpu / done * MILLION, f"{key}.memory": (after - before) * 1000 / count}


def some_requests(
    bench: Bench, broker: Broker, places: list[Place], connections: int, label: str
) -> tuple[int, float]:
    """Warm up and run; give the count of requests and the broker's CPU seconds."""
    file = bench.produce_file(places, Batch())
    shape = {"produce": file, "connections": connections}
    clients.load(bench.tools, broker, "requests", **shape, seconds=bench.scale.seconds / 2)
    with bench.watch(broker, label) as watch:
        done = clients.load(bench.tools, broker, "requests", **shape, seconds=bench.scale.seconds)
    return done["requests"], watch.cpu_s


def run_connections(bench: Bench, name: str, *, count: int) -> dict[str, float]:
    """Every connection has one request in flight; all stay open while the memory is read."""
    key = f"scale.connections.{count}"
    with bench.fresh(name) as broker:
        broker.start()
        with bench.topic(broker, 16) as places:
            done, cpu = some_requests(bench, broker, places, 1, key)
            before = broker.memory().now
            if count > 1:
                done, cpu, after = held_requests(bench, broker, places, count, key)
            else:
                after = before
        broker.kill()
    broker.wipe()
    return {f"{key}.cpu": cpu / done * MILLION, f"{key}.memory": (after - before) * 1000 / count}


def held_requests(
    bench: Bench, broker: Broker, places: list[Place], count: int, label: str
) -> tuple[int, float, float]:
    """Run on so many connections and read the memory before they close."""
    shape = {"produce": bench.produce_file(places, Batch()), "connections": count, "hold": True}
    command = clients.loadgen(bench.tools, broker, "requests", **shape, seconds=bench.scale.seconds)
    with clients.beside(command) as process, bench.watch(broker, label) as watch:
        done = clients.read_result(process)
        after = broker.memory().now
    return done["requests"], watch.cpu_s, after
