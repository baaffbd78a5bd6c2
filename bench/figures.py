"""Figures and the arithmetic on them: medians, ranges, ratios, targets. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

BARNABAS, KAFKA = "barnabas", "kafka"
SLOWER = 1.15
"""A ratio that got worse by more than this since the last run is named."""


@dataclass(frozen=True)
class Figure:
    """One number that a step yields for each broker, and what it should be."""

    key: str
    label: str
    unit: str
    higher: bool = False
    target: float | None = None
    """The bound on the ratio to Apache Kafka; or, if `own`, on Barnabas's own value."""
    own: bool = False
    detail: bool = False
    """Left out of the table on the terminal when all workloads are run."""

    def shown_target(self) -> str:
        """Write the target as a person would."""
        if self.target is None:
            return ""
        bound = f"{self.target:,.{1 if self.target < 10 else 0}f}"
        return f"{'≥' if self.higher else '≤'} {bound}{'' if self.own else 'x'}"


@dataclass
class Result:
    """The samples of one figure."""

    figure: Figure
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, broker: str, value: float) -> None:
        """Take one more sample."""
        self.samples.setdefault(broker, []).append(value)

    def median(self, broker: str) -> float | None:
        """The middle sample."""
        values = self.samples.get(broker)
        return median(values) if values else None

    def spread(self, broker: str) -> tuple[float, float] | None:
        """The lowest and the highest sample."""
        values = self.samples.get(broker)
        return (min(values), max(values)) if values else None

    @property
    def ratio(self) -> float | None:
        """Barnabas's median over Apache Kafka's, where both mean something: memory may also shrink."""
        ours, theirs = self.median(BARNABAS), self.median(KAFKA)
        if ours is None or theirs is None or ours < 0 or theirs <= 0:
            return None
        return ours / theirs

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target or a value."""
        value = self.median(BARNABAS) if self.figure.own else self.ratio
        if self.figure.target is None or value is None:
            return None
        if self.figure.higher:
            return value >= self.figure.target
        return value <= self.figure.target


def worse_by(figure: Figure, before: float, now: float) -> float:
    """How many times worse a ratio has become; below 1 it is better."""
    if before <= 0 or now <= 0:
        return 1.0
    return before / now if figure.higher else now / before


def short(value: float | None) -> str:
    """Write a number with three meaningful digits, thousands apart."""
    if value is None:
        return "-"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def alternating(brokers: list[str], runs: int) -> list[tuple[int, str]]:
    """Give the order of the runs: A B B A A B, so that a drift of the machine hits both alike."""
    order = []
    for number in range(runs):
        forward = number % 2 == 0
        order += [(number, broker) for broker in (brokers if forward else reversed(brokers))]
    return order
