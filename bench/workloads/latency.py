"""W3, W5: the time from when a record was due until a waiting reader has it, at a fixed rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bench import clients
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Step
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.plan import Bench


def latency(key: str, label: str, targets: tuple[float, ...] | None) -> tuple[Figure, ...]:
    """Quantiles of the time from when a record was due until a waiting reader has it."""
    p50, p99, p999 = targets or (None, None, None)
    return (
        Figure(f"{key}.p50", f"{label}, p50", "µs", False, p50),
        Figure(f"{key}.p99", f"{label}, p99", "µs", False, p99),
        Figure(f"{key}.p999", f"{label}, p99.9", "µs", False, p999),
        Figure(f"{key}.max", f"{label}, max", "µs", detail=targets is None),
        Figure(f"{key}.cpu", "… broker CPU", "s/million records"),
    )


class Load(NamedTuple):
    """What is written: so many topics and partitions, batches of that kind, records a second, connections."""

    topics: int
    partitions: int
    batch: Batch
    rate: int
    producers: int


LINGERING = Load(1, 16, Batch(10, 1024), 10_000, 1)
ALONE = Load(1, 16, Batch(1, 1024), 10_000, 16)
MANY_TOPICS = Load(100, 1, Batch(1, 1024), 5_000, 100)


def w3(s: float) -> list[Step]:
    """Ten records in a batch every millisecond, as a linger of 1 ms makes them; and each record alone."""
    lingering = latency("w3.linger", "end to end, batches of 1 ms", (1.0, 0.7, 0.7))
    alone = latency("w3.alone", "end to end, each record alone", None)
    seconds = 0.7 + 2 * s
    return [
        Step("w3", "batches of 1 ms", lingering, measuring("w3.linger", LINGERING), seconds),
        Step("w3", "each record alone", alone, measuring("w3.alone", ALONE), seconds),
    ]


def w5(s: float) -> list[Step]:
    """Many topics, a producer for each, one reader of all."""
    figures = latency("w5", "end to end, 100 topics", None)
    return [Step("w5", "100 topics", figures, measuring("w5", MANY_TOPICS), 2.5 + 2 * s)]


def measuring(key: str, load: Load) -> Callable[[Bench, str], dict[str, float]]:
    """Give the function of a step."""
    return lambda bench, name: end_to_end(bench, name, key, load)


def end_to_end(bench: Bench, name: str, key: str, load: Load) -> dict[str, float]:
    """Follow what is written at a fixed rate; the first half second is not counted."""
    broker, seconds = bench.broker(name), 2 * bench.scale.seconds
    with bench.topic(broker, load.partitions, load.topics) as places:
        options = {
            "produce": bench.produce_file(places, load.batch),
            "fetch": bench.fetch_file(places),
            "rate": load.rate,
            "producers": load.producers,
            "seconds": seconds,
            "warmup": min(0.5, seconds / 4),
        }
        with bench.watch(broker, key) as watch:
            done = clients.load(bench.tools, broker, "follow", **options)
    found = done["end_to_end_us"]
    quantiles = {f"{key}.{part}": found[part] for part in ("p50", "p99", "p999", "max")}
    return {**quantiles, f"{key}.cpu": watch.cpu_s / done["records"] * MILLION}
