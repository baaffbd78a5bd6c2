"""W1, W2, W10: records written and read as fast as they go, by librdkafka and by Java."""

from __future__ import annotations

import itertools

from bench import clients
from bench.clients import Sending
from bench.figures import Figure
from bench.plan import Bench, Skip, Step
from bench.workloads.units import GB

ACKS = {1: "1", -1: "all"}
SIZES = {100: "100 B", 1024: "1 KB", 65536: "64 KB"}
JOIN_GROUP = 11


def w1_and_w2(s: float) -> list[Step]:
    """Every combination of size, partitions and acks; reading follows writing for one of each size."""
    steps = []
    for size, partitions, acks in itertools.product((100, 1024), (1, 16), (1, -1)):
        workload = "w1" if size == 100 else "w2"
        reading = acks == -1 and partitions == (1 if size == 100 else 16)
        steps.append(throughput(workload, size, partitions, acks, (reading, 1.4 + s)))
    return [*steps, *java_throughput(s)]


def w10(s: float) -> list[Step]:
    """Large records."""
    return [throughput("w10", 65536, 16, -1, (True, 1.6 + s))]


def throughput(
    workload: str, size: int, partitions: int, acks: int, reading: tuple[bool, float]
) -> Step:
    """Write, and perhaps read again, with librdkafka."""
    also_read, seconds = reading
    name = f"{workload}.{partitions}p.acks-{ACKS[acks]}"
    what = f"{SIZES[size]}, {partitions} partition{'s' * (partitions > 1)}"
    figures = [
        Figure(f"{name}.produce", f"produce {what}, acks {ACKS[acks]}", "MB/s", True, 1.0),
        Figure(
            f"{name}.produce-cpu",
            f"broker CPU, produce {what}, acks {ACKS[acks]}",
            "s/GB",
            False,
            1.0,
        ),
    ]
    if also_read:
        figures += [
            Figure(f"{name}.consume", f"consume {what}", "MB/s", True, 1.0),
            Figure(f"{name}.consume-cpu", f"broker CPU, consume {what}", "s/GB", False, 1.0),
        ]

    def run(bench: Bench, broker: str) -> dict[str, float]:
        how = Sending(records_of(bench, size), size, acks)
        return write_and_read(bench, broker, name, partitions, (how, also_read))

    return Step(workload, f"{what}, acks {ACKS[acks]}", tuple(figures), run, seconds)


def records_of(bench: Bench, size: int) -> int:
    """Records for about the same time at every size: small ones cost more for each byte, large ones less."""
    weight = 0.5 if size < 1024 else 2 if size > 1024 else 1
    return max(100, int(bench.scale.records_1k * 1024 / size * weight))


def write_and_read(
    bench: Bench, name: str, key: str, partitions: int, what: tuple[Sending, bool]
) -> dict[str, float]:
    """Measure writing and, if asked for, reading."""
    broker, (how, also_read) = bench.broker(name), what
    values = {}
    with bench.topic(broker, partitions) as places:
        topic = places[0].topic
        with bench.watch(broker, f"{key}.produce") as watch:
            written = clients.produce(bench.tools, broker, topic, how)
        values[f"{key}.produce"] = written.mb_s
        values[f"{key}.produce-cpu"] = watch.cpu_s / written.payload * GB
        if also_read:
            with bench.watch(broker, f"{key}.consume") as watch:
                read = clients.consume(bench.tools, broker, topic, partitions, how.records)
            values[f"{key}.consume"] = read.mb_s
            values[f"{key}.consume-cpu"] = watch.cpu_s / read.payload * GB
    return values


def java_throughput(s: float) -> list[Step]:
    """The same with Kafka's own Java tools, which use more CPU than either broker: a cross-check, no target."""
    produced = (
        Figure("w2.java.produce", "Java producer, 1 KB, 16 partitions", "MB/s", True),
        Figure("w2.java.produce-cpu", "… broker CPU", "s/GB"),
    )
    consumed = (
        Figure("w2.java.consume", "Java consumer, 1 KB, 16 partitions", "MB/s", True),
        Figure("w2.java.consume-cpu", "… broker CPU", "s/GB"),
    )
    return [
        Step("w2", "Java producer", produced, java_produce, 2.5 + s),
        Step("w2", "Java consumer", consumed, java_consume, 3.5 + s),
    ]


def java_produce(bench: Bench, name: str) -> dict[str, float]:
    """Measure ProducerPerformance."""
    broker, how = bench.broker(name), Sending(bench.scale.records_1k, 1024)
    with bench.topic(broker, 16) as places, bench.watch(broker, "w2.java.produce") as watch:
        done = clients.java_produce(broker, places[0].topic, how)
    cpu = watch.cpu_s / done.payload * GB
    return {"w2.java.produce": done.mb_s, "w2.java.produce-cpu": cpu}


def java_consume(bench: Bench, name: str) -> dict[str, float]:
    """Measure ConsumerPerformance, where the broker has the groups that it needs."""
    broker, how = bench.broker(name), Sending(bench.scale.records_1k, 1024)
    if JOIN_GROUP not in groups_needed(bench):
        raise Skip("ConsumerPerformance needs consumer groups, which Barnabas does not serve yet")
    with bench.topic(broker, 16) as places:
        clients.produce(bench.tools, broker, places[0].topic, how)
        with bench.watch(broker, "w2.java.consume") as watch:
            done = clients.java_consume(broker, places[0].topic, how.records)
    cpu = watch.cpu_s / done.payload * GB
    return {"w2.java.consume": done.mb_s, "w2.java.consume-cpu": cpu}


def groups_needed(bench: Bench) -> set[int]:
    """The APIs that Barnabas serves: what it lacks is not measured on the other side either."""
    with bench.broker("barnabas").admin() as admin:
        return admin.api_keys()
