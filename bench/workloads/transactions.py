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
"""Percent of the broker's CPU, at most."""


def w9(s: float) -> list[Step]:
    """Commits to one partition and to sixteen; then plain and idempotent producers by turns."""
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
    figures = idempotence_figures()
    return [*steps, Step("w9", "idempotence", figures, run_idempotence, 0.3 + s)]


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
    """Rates and CPU of both, and the differences in percent.

    The target is on the broker's CPU: the rate is also that of the client, for which idempotence is more work, too.
    """
    return (
        Figure("w9.plain", f"produce {SIZES[SIZE]}, 16 partitions, not idempotent", "MB/s", True),
        Figure("w9.idempotent", "… idempotent", "MB/s", True),
        Figure("w9.costs", "… costs of the rate, client and broker", "%"),
        Figure("w9.plain-cpu", "… broker CPU, not idempotent", "s/GB"),
        Figure("w9.idempotent-cpu", "… broker CPU, idempotent", "s/GB"),
        Figure("w9.cpu-costs", "… costs the broker", "%", False, IDEMPOTENCE_COSTS, own=True),
        Figure("w9.client-costs", "… costs the client", "%", detail=True),
    )


def run_idempotence(bench: Bench, name: str) -> dict[str, float]:
    """The same records, acks and requests under way; only idempotence differs."""
    broker, count = bench.broker(name), bench.scale.records_1k // 2
    seconds, cpu_s, client_cpu_s = ({False: 0.0, True: 0.0} for _ in range(3))
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
        client_cpu_s[idempotent] += watch.client_cpu_s
    written = count * SIZE * ROUNDS.count(True)
    return idempotence_values(written, seconds, cpu_s, client_cpu_s)


def idempotence_values(
    written: float,
    seconds: dict[bool, float],
    cpu_s: dict[bool, float],
    client_cpu_s: dict[bool, float],
) -> dict[str, float]:
    """Compare what both kinds took, in all their rounds, for the same bytes."""
    return {
        "w9.plain": written / seconds[False] / MILLION,
        "w9.idempotent": written / seconds[True] / MILLION,
        "w9.costs": 100 * (1 - seconds[False] / seconds[True]),
        "w9.plain-cpu": cpu_s[False] / written * GB,
        "w9.idempotent-cpu": cpu_s[True] / written * GB,
        "w9.cpu-costs": 100 * (cpu_s[True] / cpu_s[False] - 1),
        "w9.client-costs": 100 * (client_cpu_s[True] / client_cpu_s[False] - 1),
    }
