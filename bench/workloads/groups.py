"""Consumer groups: offset commits, how fast members get their partitions, what heartbeats cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import clients
from bench.brokers import SHOWN
from bench.figures import Figure
from bench.members import Crowd
from bench.plan import Bench, Skip, Step
from bench.workloads.requests import request_figures, shape_label
from bench.workloads.units import MILLION

if TYPE_CHECKING:
    from bench.brokers import Broker

COMMIT_SHAPES = ((1, 1), (16, 1), (16, 16))
COMMITTING_GROUPS = 16
JOINING = 100
SMALL_GROUPS = 1_000
MEMBERS_EACH = 2
HEARTBEAT_S = 3.0
"""The default of clients."""
LARGE_GROUP = 500
CHURN = 50
CHURN_ROUNDS = 3
QUICK_HEARTBEAT_S = 0.5
"""Members learn by it that others came or went: at the default all rounds would take three seconds."""
LIMIT_S = 120
LONGEST_S = 20.0
"""Of heartbeats; longer makes no figure better."""


def groups(s: float, *, short: bool) -> list[Step]:
    """Commits and one join in the short run; with all of it also many small groups and one large group."""
    steps = [
        Step("groups", "offset commits", commit_figures(), run_commits, 0.5 + 3 * s),
        Step("groups", "100 members join", join_figures(), run_join, 8, runs=1 if short else None),
    ]
    if short:
        return steps
    return [
        *steps,
        Step(
            "groups",
            "1,000 small groups",
            heartbeat_figures(),
            run_heartbeats,
            14 + min(LONGEST_S, 4 * s),
        ),
        Step("groups", "500 members come and go", churn_figures(), run_churn, 14),
    ]


def require_groups(bench: Bench, name: str) -> Broker:
    """Give the shared broker, if it serves groups."""
    broker = bench.broker(name)
    with broker.admin() as admin:
        if not admin.coordinates("bench"):
            raise Skip(f"{SHOWN[name]} does not answer FindCoordinator")
    return broker


def commit_figures() -> tuple[Figure, ...]:
    """Commits of one offset, as a consumer sends them, one request for each."""
    figures = []
    for connections, depth in COMMIT_SHAPES:
        key = f"groups.commit.c{connections}d{depth}"
        label = f"offset commits/s, {shape_label(connections, depth)}"
        figures += [
            Figure(f"{key}.rate", label, "1/s", True, 1.0),
            Figure(f"{key}.cpu", "… broker CPU", "s/million", detail=True),
            Figure(f"{key}.p50", "… latency p50", "µs", detail=True),
            Figure(f"{key}.p99", "… latency p99", "µs", detail=True),
            Figure(f"{key}.p999", "… latency p99.9", "µs", detail=True),
            Figure(f"{key}.max", "… latency max", "µs", detail=True),
        ]
    most = Figure("groups.commit.most", "most offset commits/s", "1/s", True, 10_000, own=True)
    return (*figures, most)


def run_commits(bench: Bench, name: str) -> dict[str, float]:
    """16 groups commit to a partition each, every connection for one of them."""
    broker = require_groups(bench, name)
    values: dict[str, float] = {}
    with bench.topic(broker, COMMITTING_GROUPS) as places:
        commits = [(f"committing-{place.topic}-{place.partition}", place) for place in places]
        with broker.admin() as admin:
            admin.commit(commits)
        file = bench.commit_file(commits)
        warm = {"connections": 16, "depth": 4, "seconds": bench.scale.seconds, "produce": file}
        clients.load(bench.tools, broker, "requests", **warm)
        for connections, depth in COMMIT_SHAPES:
            key = f"groups.commit.c{connections}d{depth}"
            shape = {"connections": connections, "depth": depth, "produce": file}
            with bench.watch(broker, key) as watch:
                seconds = bench.scale.seconds * 0.7
                done = clients.load(bench.tools, broker, "requests", **shape, seconds=seconds)
            values |= request_figures(key, done, watch.cpu_s)
    most = max(value for key, value in values.items() if key.endswith(".rate"))
    return {**values, "groups.commit.most": most}


def join_figures() -> tuple[Figure, ...]:
    """How long, and what it costs the broker."""
    return (
        Figure("groups.join.seconds", f"{JOINING} members join, until all have partitions", "s"),
        Figure("groups.join.cpu", "… broker CPU", "s"),
    )


def run_join(bench: Bench, name: str) -> dict[str, float]:
    """All come at once into a new group; both brokers wait for more to come before they begin."""
    broker = require_groups(bench, name)
    with bench.topic(broker, JOINING) as places:
        topic = places[0].topic
        with Crowd(broker.port, topic, JOINING, HEARTBEAT_S) as crowd:
            crowd.add([f"joining-{topic}"] * JOINING)
            with bench.watch(broker, "groups.join") as watch:
                seconds = crowd.settle(LIMIT_S)
            crowd.remove(JOINING)
    return {"groups.join.seconds": seconds, "groups.join.cpu": watch.cpu_s}


def heartbeat_figures() -> tuple[Figure, ...]:
    """The share of a core that the broker needs."""
    label = f"broker CPU, {SMALL_GROUPS:,} groups of {MEMBERS_EACH} with a heartbeat each 3 s"
    return (
        Figure("groups.heartbeat.core", label, "% of a core", False, 50, own=True),
        Figure("groups.heartbeat.cpu", "… for each heartbeat", "s/million"),
        Figure("groups.heartbeat.p99", "… latency p99", "µs", detail=True),
    )


def run_heartbeats(bench: Bench, name: str) -> dict[str, float]:
    """Members join by our own hands; then the load generator sends their heartbeats on a connection each."""
    broker, seconds = require_groups(bench, name), max(2.0, min(LONGEST_S, 4 * bench.scale.seconds))
    with bench.topic(broker, MEMBERS_EACH) as places:
        topic = places[0].topic
        with Crowd(broker.port, topic, MEMBERS_EACH, HEARTBEAT_S) as crowd:
            names = [f"small-{topic}-{number}" for number in range(SMALL_GROUPS)]
            crowd.add(names * MEMBERS_EACH)
            crowd.settle(LIMIT_S)
            count = len(crowd.members)
            file = bench.heartbeat_file(crowd.members)
        shape = {"connections": count, "depth": 4, "rate": count / HEARTBEAT_S}
        with bench.connected(broker, file, "groups.heartbeat", seconds, **shape) as load:
            done, watch = load
    return {
        "groups.heartbeat.core": 100 * watch.cpu_s / watch.wall_s,
        "groups.heartbeat.cpu": watch.cpu_s / done["requests"] * MILLION,
        "groups.heartbeat.p99": done["latency_us"]["p99"],
    }


def churn_figures() -> tuple[Figure, ...]:
    """The slowest round counts."""
    first = f"{LARGE_GROUP} members join one group"
    later = f"… {CHURN} leave and {CHURN} come, until all have partitions"
    return (
        Figure("groups.churn.first", first, "s"),
        Figure("groups.churn.seconds", later, "s", False, 10, own=True),
        Figure("groups.churn.cpu", "… broker CPU, all of it", "s"),
    )


def run_churn(bench: Bench, name: str) -> dict[str, float]:
    """The same members stay on and learn by their heartbeats that the group changes."""
    broker = require_groups(bench, name)
    with bench.topic(broker, LARGE_GROUP) as places:
        topic = places[0].topic
        group = f"large-{topic}"
        with Crowd(broker.port, topic, LARGE_GROUP, QUICK_HEARTBEAT_S) as crowd:
            crowd.add([group] * LARGE_GROUP)
            with bench.watch(broker, "groups.churn") as watch:
                first = crowd.settle(LIMIT_S)
                rounds = [churn(crowd, group) for _ in range(CHURN_ROUNDS)]
            crowd.remove(LARGE_GROUP)
    return {
        "groups.churn.first": first,
        "groups.churn.seconds": max(rounds),
        "groups.churn.cpu": watch.cpu_s,
    }


def churn(crowd: Crowd, group: str) -> float:
    """Some leave, others come; the time counts from the first that leaves."""
    started = time.monotonic()
    crowd.remove(CHURN)
    crowd.add([group] * CHURN)
    crowd.settle(LIMIT_S)
    return time.monotonic() - started
