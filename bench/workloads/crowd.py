"""Crowd: whether a quiet client notices ten thousand connections that send a byte a second.

The same quiet client as in `tenants`, alone and beside the crowd; what counts is the ratio of its p99 from when a record was due until its reader has it. A p99 is
made of the few worst moments, and a machine has bad seconds of its own: so the two are taken in turns, several times, and the median of each counts. The crowd's own
client takes a part of a core, which on a machine with few of them is in the figure too.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.runtime.disk import max_connections
from bench import clients
from bench.figures import Figure
from bench.plan import Step
from bench.workloads.tenants import NOTICED, p99

if TYPE_CHECKING:
    from bench.brokers import Broker
    from bench.plan import Bench

#: As many as the machine lets a process have, and some beside them.
CROWD = min(10_000, max_connections() - 200)
BYTES_PER_S = 1
TURNS = 5
GONE_TIMEOUT_S = 30


def crowd(s: float) -> list[Step]:
    """Twice the same load, on a broker that is theirs alone."""
    figures = (
        Figure("crowd.alone", "a quiet client alone, p99", "µs"),
        Figure("crowd.beside", f"… beside {CROWD:,} that send a byte a second, p99", "µs"),
        Figure("crowd.noticed", "p99 beside the crowd, over alone", "x", target=NOTICED, own=True),
    )
    return [Step("crowd", "quiet beside a crowd", figures, run, 12 + TURNS * (4 + 4 * s))]


def run(bench: Bench, name: str) -> dict[str, float]:
    """Measure alone and beside the crowd, in turns."""
    broker = bench.broker(name)
    turns = [bench.quietest(lambda: turn(bench, broker)) for _ in range(TURNS)]
    alone, beside = (statistics.median(figures) for figures in zip(*turns, strict=True))
    return {"crowd.alone": alone, "crowd.beside": beside, "crowd.noticed": beside / alone}


def turn(bench: Bench, broker: Broker) -> tuple[float, float]:
    """Measure once alone, then beside a crowd that comes and goes; what its going costs is not left to the next turn."""
    alone, files = p99(bench, broker, "crowd.alone"), open_files(broker)
    with clients.beside(crowding(broker), brief=True) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the crowd did not come: {process.communicate()[1][-500:]}")
        beside = p99(bench, broker, "crowd.beside")
    deadline_s = time.monotonic() + GONE_TIMEOUT_S
    while open_files(broker) > files + CROWD // 100 and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return alone, beside


def open_files(broker: Broker) -> int:
    """Count the files and connections that the broker has open."""
    return sum(1 for _ in Path(f"/proc/{broker.pid}/fd").iterdir())


def crowding(broker: Broker) -> list[str]:
    """Give the command of the crowd."""
    client = [sys.executable, "-m", "bench.crowd_client", "127.0.0.1", str(broker.port)]
    return [*client, str(CROWD), str(BYTES_PER_S)]
