"""Which segments of a log go, why, and when the next ones will: Kafka's rules over plain facts.

Job: decide. Must not know files, clocks, or how a segment is dropped.

| rule  | segments go, the oldest first, while                                          | applies with            |
|-------|-------------------------------------------------------------------------------|-------------------------|
| START | the next one begins at or before the log's start (DeleteRecords)              | every cleanup.policy    |
| SIZE  | the log without it is not smaller than retention.bytes                        | cleanup.policy=delete   |
| TIME  | its largest timestamp is more than retention.ms ago                           | cleanup.policy=delete   |

Each rule goes on where the one before ended. Only whole segments below the high watermark go. The active one goes like any other
by SIZE and TIME if it holds something: the log then goes on in a new one. A record from the future holds back its segment and
all later ones, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.model.config.log_config import LogConfig


class Reason(Enum):
    """The rule by which segments go."""

    START = "log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class StoredSegment(Protocol):
    """What the rules look at."""

    base_offset: int
    size: int
    #: The largest timestamp, while nobody has made sure of it.
    unsure: tuple[int, int] | None

    def largest_timestamp(self) -> int:
        """Give the largest timestamp of its records, or when it was written if they have none."""


#: Tells whether a segment goes, given where it ends and whether it is the active one.
Rule: TypeAlias = "Callable[[StoredSegment, int, bool], bool]"


@dataclass(slots=True, frozen=True)
class Bounds:
    """Where a log starts, ends, and is committed."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int


@dataclass(slots=True, frozen=True)
class Drop:
    """Segments that go by one rule: the oldest, or those after the drop before."""

    reason: Reason
    segments: tuple[StoredSegment, ...]
    #: Where the log starts once they are gone.
    end_offset: int

    @property
    def size_bytes(self) -> int:
        """How much goes."""
        return sum(segment.size for segment in self.segments)


@dataclass(slots=True, frozen=True)
class Forecast:
    """When a segment will go, with all before it; None where a rule never takes it."""

    #: From this time on TIME takes it.
    at_ms: int | None
    #: SIZE takes it once this much more has been appended.
    after_bytes: int | None


def decide_drops(
    segments: Sequence[StoredSegment], bounds: Bounds, config: LogConfig, now_ms: int
) -> list[Drop]:
    """Tell which segments go now."""
    drops: list[Drop] = []
    left = tuple(segments)
    for reason in Reason if config.delete else (Reason.START,):
        goes = _rule(reason, left, bounds, config, now_ms)
        count, end_offset = _count_going(left, bounds, goes)
        if count:
            drops.append(Drop(reason, left[:count], end_offset))
            left = left[count:]
    return drops


def forecast(
    segments: Sequence[StoredSegment], bounds: Bounds, config: LogConfig
) -> list[Forecast]:
    """Tell for each segment when it will go if nothing changes but the time, or the size of the log."""
    if not config.delete:
        return [Forecast(None, None) for _ in segments]
    forecasts = []
    missing_bytes = config.retention_bytes - sum(segment.size for segment in segments)
    newest_ms = 0
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        missing_bytes += segment.size
        newest_ms = max(newest_ms, segment.largest_timestamp())
        goes_by_time = config.retention_ms >= 0 and (segment.size or not is_active)
        # The active one grows with all that comes: by size it goes only once it is closed.
        goes_by_size = config.retention_bytes >= 0 and not is_active
        forecasts.append(
            Forecast(
                newest_ms + config.retention_ms + 1 if goes_by_time else None,
                max(0, missing_bytes) if goes_by_size else None,
            )
        )
    return forecasts


def _count_going(segments: Sequence[StoredSegment], bounds: Bounds, goes: Rule) -> tuple[int, int]:
    """Count the oldest segments that go by a rule; and where the log starts then."""
    start_offset = bounds.log_start_offset
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        end_offset = bounds.log_end_offset if is_active else segments[number + 1].base_offset
        if (
            end_offset > bounds.high_watermark
            or (is_active and not segment.size)
            or not goes(segment, end_offset, is_active)
        ):
            return number, start_offset
        start_offset = end_offset
    return len(segments), start_offset


def _rule(
    reason: Reason,
    segments: Sequence[StoredSegment],
    bounds: Bounds,
    config: LogConfig,
    now_ms: int,
) -> Rule:
    """Make the test by which segments go, asked of each until one stays."""
    if reason is Reason.START:
        return lambda _segment, end_offset, is_active: (
            not is_active and end_offset <= bounds.log_start_offset
        )
    if reason is Reason.SIZE:
        return _size_rule(segments, config.retention_bytes)
    retention_ms = config.retention_ms
    return lambda segment, _end_offset, _is_active: (
        retention_ms >= 0 and now_ms - segment.largest_timestamp() > retention_ms
    )


def _size_rule(segments: Sequence[StoredSegment], retention_bytes: int) -> Rule:
    if retention_bytes < 0:
        return lambda _segment, _end_offset, _is_active: False
    excess = sum(segment.size for segment in segments) - retention_bytes

    def goes(segment: StoredSegment, _end_offset: int, _is_active: bool) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return goes
