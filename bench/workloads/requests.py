"""W4, W12: one-record Produce requests, which cost a broker the most for what they carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench import clients
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Step
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from bench.plan import Bench

SHAPES = {
    (1, 1): 1.0,
    (16, 1): 1.5,
    (64, 1): 1.2,
    (4, 16): 1.5,
    (1, 16): None,
    (16, 16): None,
    (64, 16): None,
}


def shape_label(connections: int, depth: int) -> str:
    """Say how many connections, how deep."""
    deep = f", {depth} deep" if depth > 1 else ""
    return f"{connections} connection{'s' * (connections > 1)}{deep}"


def w4(s: float) -> list[Step]:
    """One record of 100 B per request, on 1 to 64 connections, one and sixteen deep."""
    figures = []
    for (connections, depth), target in SHAPES.items():
        key, label = f"w4.c{connections}d{depth}", shape_label(connections, depth)
        figures += [
            Figure(f"{key}.rate", f"requests/s, {label}", "1/s", True, target),
            Figure(f"{key}.cpu", "… broker CPU", "s/million", detail=True),
            Figure(f"{key}.p50", "… latency p50", "µs", detail=True),
            Figure(f"{key}.p99", "… latency p99", "µs", detail=True),
            Figure(f"{key}.p999", "… latency p99.9", "µs", detail=True),
            Figure(f"{key}.max", "… latency max", "µs", detail=True),
        ]
    figures.append(
        Figure("w4.cpu", "broker CPU per million requests, all of W4", "s/million", False, 0.7)
    )
    return [Step("w4", "one-record requests", tuple(figures), run_w4, 0.5 + len(SHAPES) * s * 0.7)]


def run_w4(bench: Bench, name: str) -> dict[str, float]:
    """Run all shapes one after the other on one topic of 16 partitions."""
    broker = bench.broker(name)
    values: dict[str, float] = {}
    cpu = requests = 0.0
    with bench.topic(broker, 16) as places:
        file = bench.produce_file(places, Batch())
        for connections, depth in SHAPES:
            shape = {"connections": connections, "depth": depth, "produce": file}
            key = f"w4.c{connections}d{depth}"
            with bench.watch(broker, key) as watch:
                seconds = bench.scale.seconds * 0.7
                done = clients.load(bench.tools, broker, "requests", **shape, seconds=seconds)
            values |= request_figures(key, done, watch.cpu_s)
            cpu, requests = cpu + watch.cpu_s, requests + done["requests"]
    return {**values, "w4.cpu": cpu / requests * MILLION}


def request_figures(key: str, done: dict[str, Any], cpu_s: float) -> dict[str, float]:
    """Rate, CPU and latency of a run of requests."""
    found = done["latency_us"]
    return {
        f"{key}.rate": done["requests"] / done["seconds"],
        f"{key}.cpu": cpu_s / done["requests"] * MILLION,
        **{f"{key}.{part}": found[part] for part in ("p50", "p99", "p999", "max")},
    }


def w12(s: float) -> list[Step]:
    """Many connections that say little."""
    figures = (
        Figure("w12.cpu", "broker CPU, 500 connections at 5,000/s", "s/million"),
        Figure("w12.p50", "… latency p50", "µs", detail=True),
        Figure("w12.p99", "… latency p99", "µs", detail=True),
        Figure("w12.p999", "… latency p99.9", "µs", detail=True),
        Figure("w12.max", "… latency max", "µs", detail=True),
    )
    return [Step("w12", "500 connections", figures, run_w12, 1 + 2 * s)]


def run_w12(bench: Bench, name: str) -> dict[str, float]:
    """One-record requests at a fixed rate, going round the connections."""
    broker, seconds = bench.broker(name), 2 * bench.scale.seconds
    with bench.topic(broker, 16) as places:
        file = bench.produce_file(places, Batch())
        shape = {"connections": 500, "depth": 4, "rate": 5_000, "seconds": seconds}
        with bench.watch(broker, "w12") as watch:
            options = {"produce": file, "warmup": min(0.5, seconds / 4)}
            done = clients.load(bench.tools, broker, "requests", **shape, **options)
    return request_figures("w12", done, watch.cpu_s)
