"""W3, W5: the time from when a record was due until a waiting reader has it, at a fixed rate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import clients
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Step
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from bench.plan import Bench


def latency(
    key: str, label: str, targets: tuple[float, ...] | None, *, cpu: bool = True
) -> tuple[Figure, ...]:
    """Quantiles of the time from when a record was due until a waiting reader has it."""
    bounds = targets or (None,) * 3
    parts = [
        Figure(f"{key}.{short}", f"{label}, {shown}", "µs", False, bound)
        for short, shown, bound in zip(
            ("p50", "p99", "p999"), ("p50", "p99", "p99.9"), bounds, strict=True
        )
    ]
    parts.append(Figure(f"{key}.max", f"{label}, max", "µs"))
    if cpu:
        parts.append(Figure(f"{key}.cpu", "… broker CPU", "s/million records"))
    return tuple(parts)


def w3(s: float) -> list[Step]:
    """Ten records in a batch every millisecond, as a linger of 1 ms makes them; and each record alone."""
    lingering = partial(
        end_to_end, key="w3.linger", topics=(1, 16), batch=Batch(10, 1024), rate=10_000
    )
    alone = partial(end_to_end, key="w3.alone", topics=(1, 16), batch=Batch(1, 1024), rate=10_000)
    seconds = 0.7 + 2 * s
    return [
        Step(
            "w3",
            "batches of ten",
            latency("w3.linger", "end to end, batches of 1 ms", (1.0, 0.7, 0.7)),
            lingering,
            seconds,
        ),
        Step(
            "w3",
            "each record alone",
            latency("w3.alone", "end to end, each record alone", None),
            alone,
            seconds,
        ),
    ]


def w5(s: float) -> list[Step]:
    """Many topics, one reader of all."""
    run = partial(end_to_end, key="w5", topics=(100, 1), batch=Batch(1, 1024), rate=5_000)
    return [
        Step("w5", "100 topics", latency("w5", "end to end, 100 topics", None), run, 2.5 + 2 * s)
    ]


def end_to_end(
    bench: Bench, name: str, *, key: str, topics: tuple[int, int], batch: Batch, rate: int
) -> dict[str, float]:
    """Follow what is written at a fixed rate; the first half second is not counted."""
    broker, (count, partitions) = bench.broker(name), topics
    seconds = 2 * bench.scale.seconds
    with bench.topic(broker, partitions, count) as places:
        files = {"produce": bench.produce_file(places, batch), "fetch": bench.fetch_file(places)}
        times = {"rate": rate, "seconds": seconds, "warmup": min(0.5, seconds / 4)}
        with bench.watch(broker, key) as watch:
            done = clients.load(bench.tools, broker, "follow", **files, **times)
    found = done["end_to_end_us"]
    quantiles = {f"{key}.{part}": found[part] for part in ("p50", "p99", "p999", "max")}
    return {**quantiles, f"{key}.cpu": watch.cpu_s / done["records"] * MILLION}
