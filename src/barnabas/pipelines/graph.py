"""In which order the steps of a pipeline run. Pure.

Job: sort steps so that each comes after those it reads from, in waves that may run at once. Must not know Spark, nor what a step does. A table that depends on itself
is an error; topics may go round (a retry topic does), so they order steps only where they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Step:
    """What runs as one: a query, or the refresh of a materialised view."""

    name: str
    place: str
    """file:line of its definition."""
    writes: str
    """The name of the table or sink."""
    reads: frozenset[str] = frozenset()
    topics_read: frozenset[str] = frozenset()
    topics_written: frozenset[str] = frozenset()


def waves(steps: Sequence[Step]) -> list[list[Step]]:
    """Sort; PipelineProblem if a table depends on itself, with the way round."""
    needs = {step.name: _tables_before(step, steps) for step in steps}
    cycle = _cycle(needs)
    if cycle:
        way = " -> ".join(cycle)
        place = next(step.place for step in steps if step.name == cycle[0])
        raise PipelineProblem(f"{place}: {cycle[0]!r} depends on itself: {way}")
    for step in steps:
        for before in _topics_before(step, steps):
            wanted = {**needs, step.name: [*needs[step.name], before]}
            if not _cycle(wanted):
                needs = wanted
    return _levels(steps, needs)


def _tables_before(step: Step, steps: Sequence[Step]) -> list[str]:
    return [other.name for other in steps if other.writes in step.reads]


def _topics_before(step: Step, steps: Sequence[Step]) -> list[str]:
    return [
        other.name
        for other in steps
        if other is not step and other.topics_written & step.topics_read
    ]


def _cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Give a way from a step back to it, or nothing."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for before in needs[name]:
            found = walk(before, [*way, name])
            if found:
                return found
        done.add(name)
        return []

    for name in needs:
        found = walk(name, [])
        if found:
            return found
    return []


def _levels(steps: Sequence[Step], needs: Mapping[str, Sequence[str]]) -> list[list[Step]]:
    left, placed, found = list(steps), set[str](), list[list[Step]]()
    while left:
        wave = [step for step in left if placed.issuperset(needs[step.name])]
        assert wave, "cycles were found before"
        found.append(wave)
        placed.update(step.name for step in wave)
        left = [step for step in left if step.name not in placed]
    return found
