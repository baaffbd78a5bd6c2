"""W11: how long until a broker answers, what it takes when idle and after load, how fast it makes partitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.figures import Figure
from bench.measure import cpu_seconds
from bench.plan import Step

if TYPE_CHECKING:
    from bench.admin import Admin
    from bench.brokers import Broker
    from bench.plan import Bench

MANY_TOPICS = 1000
SETTLE_S = 1.0


def w11() -> list[Step]:
    """Starts of brokers of the steps' own, then topic creation on the shared one."""
    fresh = (
        Figure("w11.start", "start to first answered request", "s", False, 0.2),
        Figure("w11.start-cpu", "… CPU until then", "s"),
        Figure("w11.idle", "resident memory, idle", "MB", False, 0.2),
    )
    full = (
        Figure("w11.start-1000", "start with 1,000 topics on disk", "s", False, 0.3),
        Figure("w11.idle-1000", "resident memory, idle with 1,000 topics", "MB"),
    )
    creation = (
        Figure(
            "w11.create-1000", "create 1,000 partitions until all are writable", "s", False, 0.5
        ),
    )
    return [
        Step("w11", "start", fresh, run_start, 5),
        Step("w11", "start with 1,000 topics", full, run_start_with_topics, 8),
        Step("w11", "create 1,000 partitions", creation, run_creation, 4),
    ]


def run_start(bench: Bench, name: str) -> dict[str, float]:
    """Start with an empty directory."""
    with bench.fresh(name) as broker:
        seconds = broker.start()
        with bench.watch(broker, "w11.idle") as watch:
            time.sleep(SETTLE_S)
        from_start = watch_total(broker, watch.cpu_s)
        idle = broker.memory().now
    broker.wipe()
    return {"w11.start": seconds, "w11.start-cpu": from_start, "w11.idle": idle}


def watch_total(broker: Broker, since: float) -> float:
    """CPU from the start of the process until the watch began."""
    return cpu_seconds(broker.pid) - since


def run_start_with_topics(bench: Bench, name: str) -> dict[str, float]:
    """Start where 1,000 topics were left by a clean stop, until one of them takes a record."""
    topics = {f"left-{number:04d}": 1 for number in range(MANY_TOPICS)}
    broker = bench.prepared(name, "topics", lambda broker: make_topics(broker, topics))
    last = list(topics)[-1]

    def writable(admin: Admin) -> bool:
        admin.prime({last: 1}, timeout_s=0)
        return True

    with broker:
        seconds = broker.start(writable)
        with bench.watch(broker, "w11.idle-1000"):
            time.sleep(SETTLE_S)
        idle = broker.memory().now
    return {"w11.start-1000": seconds, "w11.idle-1000": idle}


def make_topics(broker: Broker, topics: dict[str, int]) -> None:
    """Create and write to all."""
    with broker.admin() as admin:
        admin.make(topics)


def run_creation(bench: Bench, name: str) -> dict[str, float]:
    """One topic of 1,000 partitions."""
    broker = bench.broker(name)
    with bench.watch(broker, "w11.create-1000") as watch, bench.topic(broker, 1000):
        seconds = time.monotonic() - watch.started
    return {"w11.create-1000": seconds}


def memory_after() -> list[Step]:
    """Once, at the end: memory does not go back."""
    figures = (
        Figure("memory.after", "resident memory after the throughput runs", "MB", False, 0.2),
        Figure("memory.peak", "… at its peak", "MB"),
    )
    return [Step("memory", "after load", figures, run_memory, 0.1, runs=1)]


def run_memory(bench: Bench, name: str) -> dict[str, float]:
    """Read the shared broker's memory."""
    found = bench.broker(name).memory()
    return {"memory.after": found.now, "memory.peak": found.peak}
