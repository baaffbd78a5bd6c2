"""W9: transactions of 100 records on one producer, and what idempotence costs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import clients
from bench.figures import Figure
from bench.plan import Step
from bench.workloads.throughput import SIZES
from bench.workloads.units import GB, MILLION

if TYPE_CHECKING:
    from bench.plan import Bench

RECORDS = 100
"""In each transaction."""
SIZE = 1024
PARTITION_COUNTS = (1, 16)
ROUNDS = (False, True, True, False)
"""Idempotent or not: in this order a drift of the machine hits both alike."""
IDEMPOTENCE_COSTS = 5
"""Percent of throughput, at most."""


def w9(s: float, *, full: bool) -> list[Step]:
    """Commits to one partition and to sixteen; then plain and idempotent producers by turns, in the short run once."""
    steps = [
        Step(
            "w9",
            label(count),
            commit_figures(count),
            partial(run_commits, partitions=count),
            0.5 + s,
        )
        for count in PARTITION_COUNTS
    ]
    turns = Step(
        "w9",
        "idempotence",
        idempotence_figures(),
        run_idempotence,
        0.5 + 2 * s,
        runs=None if full else 1,
    )
    return [*steps, turns]


def label(partitions: int) -> str:
    """Say what a transaction is."""
    return f"{RECORDS} of {SIZES[SIZE]}, {partitions} partition{'s' * (partitions > 1)}"


def commit_figures(partitions: int) -> tuple[Figure, ...]:
    """The time of a commit includes the wait for records that are not acknowledged yet, as a client's commit does."""
    key = f"w9.{partitions}p"
    return (
        Figure(f"{key}.commits", f"commits/s, {label(partitions)}", "1/s", True, 1.0),
        Figure(f"{key}.produce", "… written", "MB/s", True, 1.0),
        Figure(f"{key}.p50", "… commit p50", "µs"),
        Figure(f"{key}.p99", "… commit p99", "µs", False, 1.0),
        Figure(f"{key}.max", "… commit max", "µs", detail=True),
        Figure(f"{key}.cpu", "… broker CPU", "s/million commits"),
        Figure(f"{key}.consume", "… read again, read_committed", "MB/s", True, detail=True),
    )


def run_commits(bench: Bench, name: str, *, partitions: int) -> dict[str, float]:
    """Commit after commit; then a reader of committed records must find every one of them."""
    broker, key, seconds = bench.broker(name), f"w9.{partitions}p", 0.7 * bench.scale.seconds
    shape = {"partitions": partitions, "records": RECORDS, "size": SIZE}
    with bench.topic(broker, partitions) as places:
        topic = places[0].topic
        commit = partial(clients.rdload, bench.tools, broker, "transactions", topic, **shape)
        warm = commit(seconds=0.3 * seconds)
        with bench.watch(broker, key) as watch:
            done = commit(seconds=seconds)
        count = (warm["commits"] + done["commits"]) * RECORDS
        read = clients.consume(bench.tools, broker, topic, partitions, count)
    latency = {f"{key}.{part}": done["latency_us"][part] for part in ("p50", "p99", "max")}
    return {
        **latency,
        f"{key}.commits": done["commits"] / done["seconds"],
        f"{key}.produce": done["bytes"] / done["seconds"] / MILLION,
        f"{key}.cpu": watch.cpu_s / done["commits"] * MILLION,
        f"{key}.consume": read.mb_s,
    }


def idempotence_figures() -> tuple[Figure, ...]:
    """Both rates, and the difference in percent."""
    return (
        Figure("w9.plain", f"produce {SIZES[SIZE]}, 16 partitions, not idempotent", "MB/s", True),
        Figure("w9.idempotent", "… idempotent", "MB/s", True),
        Figure("w9.costs", "… costs", "%", False, IDEMPOTENCE_COSTS, own=True),
        Figure("w9.plain-cpu", "… broker CPU, not idempotent", "s/GB"),
        Figure("w9.idempotent-cpu", "… broker CPU, idempotent", "s/GB"),
    )


def run_idempotence(bench: Bench, name: str) -> dict[str, float]:
    """The same records, acks and requests under way; only idempotence differs."""
    broker, count = bench.broker(name), bench.scale.records_1k // 2
    seconds, cpu_s = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
    for idempotent in ROUNDS:
        kind = "idempotent" if idempotent else "plain"
        with bench.topic(broker, 16) as places, bench.watch(broker, f"w9.{kind}") as watch:
            topic = places[0].topic
            done = clients.rdload(
                bench.tools,
                broker,
                "produce",
                topic,
                records=count,
                size=SIZE,
                idempotent=idempotent,
            )
        seconds[idempotent] += done["seconds"]
        cpu_s[idempotent] += watch.cpu_s
    written = count * SIZE * ROUNDS.count(True)
    return idempotence_values(written, seconds, cpu_s)


def idempotence_values(
    written: float, seconds: dict[bool, float], cpu_s: dict[bool, float]
) -> dict[str, float]:
    """Compare what both kinds took, in all their rounds, for the same bytes."""
    return {
        "w9.plain": written / seconds[False] / MILLION,
        "w9.idempotent": written / seconds[True] / MILLION,
        "w9.costs": 100 * (1 - seconds[False] / seconds[True]),
        "w9.plain-cpu": cpu_s[False] / written * GB,
        "w9.idempotent-cpu": cpu_s[True] / written * GB,
    }
