"""W1 and W2 with Apache Kafka's own perf tools: a cross-check without targets.

The Java clients use more CPU than either broker, so on few cores they measure themselves. The consumer needs groups.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import clients
from bench.clients import Sending
from bench.figures import Figure
from bench.plan import Step
from bench.workloads.groups import require_groups
from bench.workloads.throughput import SIZES, records_of
from bench.workloads.units import GB

if TYPE_CHECKING:
    from bench.plan import Bench

SHAPES = {"w1": (100, 1), "w2": (1024, 16)}
"""Record size and partitions."""


def java(s: float, *, full: bool) -> list[Step]:
    """In the short run only W2, and once."""
    steps = []
    for workload in SHAPES if full else ("w2",):
        size, partitions = SHAPES[workload]
        what = f"{SIZES[size]}, {partitions} partition{'s' * (partitions > 1)}"
        for verb, run, seconds in (("produce", produce, 3), ("consume", consume, 8)):
            figures = (
                Figure(f"{workload}.java.{verb}", f"Java {verb}r, {what}", "MB/s", True),
                Figure(f"{workload}.java.{verb}-cpu", "… broker CPU", "s/GB"),
            )
            steps.append(
                Step(
                    workload,
                    f"Java {verb}r",
                    figures,
                    partial(run, workload=workload),
                    seconds + s,
                    runs=None if full else 1,
                )
            )
    return steps


def sending(bench: Bench, workload: str) -> Sending:
    """As many records as librdkafka takes."""
    size, _partitions = SHAPES[workload]
    return Sending(records_of(bench, size), size)


def produce(bench: Bench, name: str, *, workload: str) -> dict[str, float]:
    """Measure ProducerPerformance."""
    broker, how = bench.broker(name), sending(bench, workload)
    key = f"{workload}.java.produce"
    with bench.topic(broker, SHAPES[workload][1]) as places, bench.watch(broker, key) as watch:
        done = clients.java_produce(broker, places[0].topic, how)
    return {key: done.mb_s, f"{key}-cpu": watch.cpu_s / done.payload * GB}


def consume(bench: Bench, name: str, *, workload: str) -> dict[str, float]:
    """Measure ConsumerPerformance, where the broker has the groups that it needs."""
    broker, how = require_groups(bench, name), sending(bench, workload)
    key = f"{workload}.java.consume"
    with bench.topic(broker, SHAPES[workload][1]) as places:
        clients.produce(bench.tools, broker, places[0].topic, how)
        with bench.watch(broker, key) as watch:
            done = clients.java_consume(broker, places[0].topic, how.records)
    return {key: done.mb_s, f"{key}-cpu": watch.cpu_s / done.payload * GB}
