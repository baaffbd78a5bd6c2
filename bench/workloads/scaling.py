"""How CPU per request and memory grow with partitions and connections.

One broker for each series: it is given more and more, and at every size it is loaded and looked at. A step is linear if
a request costs no more than at the size before (so that the cost in all grows with the requests), and what the step
added takes no more memory for each than what the step before added. `TOLERANCE` says how far above is still linear.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from bench.admin import Place
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Bench, Step
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.brokers import Broker

PARTITION_COUNTS = (1, 100, 1_000, 10_000)
CONNECTION_COUNTS = (1, 100, 1_000, 5_000)
PARTITIONS_PER_TOPIC = 1_000
CONNECTIONS = 16
"""For the series over partitions."""
PARTITIONS = 16
"""For the series over connections."""
LONGEST_S = 5.0
"""Of load at each size; longer makes no figure better."""
ROUNDS_BEFORE = 2
"""So often every partition has been written to before it counts: the first write to one takes four times as long."""
TOLERANCE = 1.5
"""For ten times as many. A cost in all that grows with the square shows as 10, with n log n as less than 1.5; noise is below."""
SLACK_MB = 0.5
"""A process holds about so much free memory, which the first step after it uses up without being seen."""


class Point(NamedTuple):
    """What was seen at one size."""

    size: int
    cpu: float
    """Seconds per million requests."""
    memory: float
    """MB of the whole process."""


def scaling(s: float) -> list[Step]:
    """Both series; most of the time Apache Kafka makes partitions."""
    load = 2 * min(s, LONGEST_S)
    return [
        series("partitions", PARTITION_COUNTS, run_partitions, 50 + 4 * load),
        series("connections", CONNECTION_COUNTS, run_connections, 15 + 4 * load),
    ]


def series(
    kind: str,
    counts: tuple[int, ...],
    run: Callable[[Bench, str, tuple[int, ...]], list[Point]],
    seconds: float,
) -> Step:
    """One step that runs through all sizes."""
    return Step(
        "scaling",
        f"{counts[-1]:,} {kind}",
        tuple(figure for n in range(len(counts)) for figure in point_figures(kind, counts, n)),
        lambda bench, name: growth(kind, run(bench, name, counts)),
        seconds,
    )


def point_figures(kind: str, counts: Sequence[int], number: int) -> list[Figure]:
    """What is told of one size: the first has nothing to be compared with, the second no memory of a step before."""
    count = counts[number]
    key, some = f"scaling.{kind}.{count}", kind if count > 1 else kind[:-1]
    found = [Figure(f"{key}.cpu", f"broker CPU, {count:,} {some}", "s/million")]
    if number > 0:
        before = f"{counts[number - 1]:,}"
        label = f"… growth from {before}, for each tenfold"
        found.append(Figure(f"{key}.cpu-growth", label, "", False, TOLERANCE, own=True))
        found.append(Figure(f"{key}.memory", f"… memory for each added {kind[:-1]}", "KB"))
    if number > 1:
        label = f"… as a multiple of the step to {before}"
        found.append(Figure(f"{key}.memory-growth", label, "", False, TOLERANCE, own=True))
    return found


def growth(kind: str, points: Sequence[Point]) -> dict[str, float]:
    """Compare every point with the one before."""
    values = {f"scaling.{kind}.{point.size}.cpu": point.cpu for point in points}
    earlier: tuple[int, float] | None = None
    for before, now in pairwise(points):
        key, more = f"scaling.{kind}.{now.size}", now.size - before.size
        added = now.memory - before.memory
        values[f"{key}.cpu-growth"] = tenfold(before, now)
        values[f"{key}.memory"] = added / more * 1000
        if earlier:
            expected = (max(0.0, earlier[1]) + SLACK_MB) / earlier[0] * more
            values[f"{key}.memory-growth"] = max(0.0, added) / expected
        earlier = more, added
    return values


def tenfold(before: Point, now: Point) -> float:
    """By what the CPU of a request would be multiplied over ten times as many, going on as in this step."""
    return math.pow(now.cpu / before.cpu, 1 / math.log10(now.size / before.size))


def run_partitions(bench: Bench, name: str, counts: tuple[int, ...]) -> list[Point]:
    """Requests on 16 connections that go round all partitions there are by then."""
    points, places = [], list[Place]()
    with bench.fresh(name) as broker:
        broker.start()
        bench.warm(broker)
        for count in counts:
            places += more_partitions(broker, count, len(places))
            measured = held_requests(bench, broker, places, CONNECTIONS, f"scaling.{count}p")
            points.append(measured._replace(size=count))
        broker.kill()
    broker.wipe()
    return points


def more_partitions(broker: Broker, wanted: int, there: int) -> list[Place]:
    """Make topics until there are so many partitions, all writable."""
    topics: dict[str, int] = {}
    while there < wanted:
        partitions = min(PARTITIONS_PER_TOPIC, wanted - there)
        topics[f"grown-{there:05d}"] = partitions
        there += partitions
    with broker.admin() as admin:
        admin.make(topics)
    return [Place(name, index) for name, count in topics.items() for index in range(count)]


def run_connections(bench: Bench, name: str, counts: tuple[int, ...]) -> list[Point]:
    """Every connection has one request in flight; all stay open while the memory is read."""
    with bench.fresh(name) as broker:
        broker.start()
        bench.warm(broker)
        with bench.topic(broker, PARTITIONS) as places:
            points = [
                held_requests(bench, broker, places, count, f"scaling.{count}c") for count in counts
            ]
        broker.kill()
    broker.wipe()
    return points


def held_requests(
    bench: Bench, broker: Broker, places: list[Place], connections: int, label: str
) -> Point:
    """Load on so many connections, which are still open when the memory is read."""
    file = bench.produce_file(places, Batch())
    seconds, before = min(bench.scale.seconds, LONGEST_S), ROUNDS_BEFORE * len(places)
    with bench.connected(
        broker, file, label, seconds, before=before, connections=connections
    ) as load:
        memory = broker.memory().now
    return Point(connections, load.watch.cpu_s / load.done["requests"] * MILLION, memory)
