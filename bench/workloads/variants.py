"""Workloads once more under other circumstances: a core each for broker and client, and every record synced to disk.

The figures are those of the workload, named after the variant. They have no targets: those are for brokers as they come.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from bench import machine
from bench.plan import Bench, Skip, Step
from bench.workloads.latency import w3
from bench.workloads.requests import w4
from bench.workloads.throughput import w1_and_w2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

SYNCED = {"flush.messages": "1"}
CHOSEN = ("w1.1p.acks-all.produce", "w2.16p.acks-all.produce", "w3.linger.p50", "w4.cpu")
"""The steps that yield these are run again."""
UNSYNCED_ONLY = "w3.linger.p50"
"""A fixed rate that no disk has to keep up with."""


def pinned(s: float) -> list[Step]:
    """Throughput, latency and small requests with the broker on core 0 and the client on core 1."""
    return [variant("pinned", step, on_own_cores) for step in base(s)]


def fsync(s: float) -> list[Step]:
    """Throughput and small requests with flush.messages=1 on both brokers: acknowledged means on disk."""
    steps = [step for step in base(s) if UNSYNCED_ONLY not in keys(step)]
    return [variant("fsync", step, with_sync) for step in steps]


def base(s: float) -> list[Step]:
    """The steps that variants repeat."""
    return [step for step in (*w1_and_w2(s), *w3(s), *w4(s)) if keys(step) & set(CHOSEN)]


def keys(step: Step) -> set[str]:
    """The figures of a step."""
    return {figure.key for figure in step.figures}


def variant(
    name: str, step: Step, around: Callable[[Bench, str], AbstractContextManager[None]]
) -> Step:
    """Give the step with other names for its figures, run inside `around`."""

    def run(bench: Bench, broker: str) -> dict[str, float]:
        with around(bench, broker):
            return {f"{name}.{key}": value for key, value in step.run(bench, broker).items()}

    figures = tuple(replace(f, key=f"{name}.{f.key}", target=None) for f in step.figures)
    return replace(step, workload=name, figures=figures, run=run)


@contextmanager
def on_own_cores(bench: Bench, name: str) -> Iterator[None]:
    """Pin the shared broker, which is warm by then, for the time of the block."""
    if not machine.can_pin():
        raise Skip("needs two cores")
    with machine.pinned(bench.broker(name).pid):
        yield


@contextmanager
def with_sync(bench: Bench, name: str) -> Iterator[None]:
    """Have all topics of the block sync after every record."""
    bench.broker(name)
    bench.topic_settings = SYNCED
    try:
        yield
    finally:
        bench.topic_settings = {}
