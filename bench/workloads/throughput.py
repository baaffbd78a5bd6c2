"""W1, W2, W10: records written and read as fast as they go, by librdkafka."""

from __future__ import annotations

import itertools

from bench import clients
from bench.clients import Sending
from bench.figures import Figure
from bench.plan import Bench, Step
from bench.workloads.units import GB

ACKS = {1: "1", -1: "all"}
SIZES = {100: "100 B", 1024: "1 KB", 65536: "64 KB"}


def w1_and_w2(s: float) -> list[Step]:
    """Combinations of size, partitions and acks, and librdkafka's defaults; reading follows writing for one of each size."""
    steps = []
    for size, partitions, acks in itertools.product((100, 1024), (1, 16), (1, -1)):
        if (size, partitions, acks) == (1024, 1, 1):
            continue  # the least telling of them makes room for librdkafka's defaults
        workload = "w1" if size == 100 else "w2"
        reading = acks == -1 and partitions == (1 if size == 100 else 16)
        steps.append(throughput(workload, size, partitions, acks, (reading, 1.4 + s)))
    return [*steps, defaults(1.4 + s)]


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


def defaults(seconds: float) -> Step:
    """Write with librdkafka as it comes: batches of a megabyte, which are the first to need memory of their own."""
    key, what = "w2.defaults", "1 KB, 16 partitions, librdkafka's defaults"
    figures = (
        Figure(f"{key}.produce", f"produce {what}", "MB/s", True, 1.0),
        Figure(f"{key}.produce-cpu", f"broker CPU, produce {what}", "s/GB", False, 0.9),
        Figure(
            f"{key}.page-faults", f"page faults, produce {what}", "per GB", False, 5000, own=True
        ),
    )

    def run(bench: Bench, name: str) -> dict[str, float]:
        broker = bench.broker(name)
        how = Sending(records_of(bench, 1024), 1024, batch_size=None, linger_ms=None)
        with bench.topic(broker, 16) as places, bench.watch(broker, f"{key}.produce") as watch:
            written = clients.produce(bench.tools, broker, places[0].topic, how)
        return {
            f"{key}.produce": written.mb_s,
            f"{key}.produce-cpu": watch.cpu_s / written.payload * GB,
            f"{key}.page-faults": watch.page_faults / written.payload * GB,
        }

    return Step("w2", what, figures, run, seconds)


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
