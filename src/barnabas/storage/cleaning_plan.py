"""Whether a log is worth compacting, and up to where it may be.

Job: Kafka's arithmetic over the segments of one open log, and the order for `cleaner.py`. Must not know which log
comes first, nor when to look.

    log start .... first dirty offset .... end offset .... active segment
    | clean: compacted before | cleanable | not yet: too young, not stable, or still written to |

Runs on the loop: it looks at sizes and timestamps that are in memory. Only with max.compaction.lag.ms it may read
the first header of a segment, once.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.storage.batch_filter import LastBatch
from barnabas.storage.cleaner import CleaningOrder, Source
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from barnabas.model.config import LogConfig
    from barnabas.storage.log import Log
    from barnabas.storage.segment import Segment

#: max.compaction.lag.ms is not set.
_NO_LAG_MAX: Final = 2**63 - 1


class MeasuredLog(Protocol):
    """What is looked at: an open log, or one that is looked at from outside."""

    config: LogConfig
    log_start_offset: int
    log_end_offset: int

    @property
    def closed_segments(self) -> tuple[Segment, ...]:
        """The segments before the active one."""

    @property
    def base_offsets(self) -> list[int]:
        """Base offsets of all segments."""


@dataclass(slots=True, frozen=True)
class Dirtiness:
    """How much of a log is clean, and how much of the rest can be cleaned now."""

    first_dirty_offset: int
    #: The base offset of the first segment that stays as it is.
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    #: Something in it has waited for longer than max.compaction.lag.ms.
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """Return the share of what can be cleaned in what can be cleaned or is clean."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0


@dataclass(slots=True, frozen=True)
class CleanerLimits:
    """What one cleaner may use; see the settings log.cleaner.*."""

    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int


def measure(
    log: MeasuredLog, clean_offset: int | None, stable_offset: int, now_ms: int
) -> Dirtiness:
    """Look at a log that was cleaned up to `clean_offset`; None if it never was.

    Offsets from `stable_offset` on are not committed, or belong to transactions that are still open.
    """
    first_dirty = log.log_start_offset
    if clean_offset is not None and first_dirty <= clean_offset <= log.log_end_offset:
        first_dirty = clean_offset
    closed, active_base = log.closed_segments, log.base_offsets[-1]
    bases = [segment.base_offset for segment in closed]
    first_segment = max(0, bisect_right(bases, first_dirty) - 1)
    dirty = closed[first_segment:] if first_dirty < active_base else ()
    bound = min(stable_offset, active_base, _first_too_young(log, dirty, now_ms))
    bound = max(bound, first_dirty)
    # Whole segments only: the one that holds the bound stays as it is.
    if bound >= active_base:
        end_offset = active_base
    else:
        end_offset = bases[max(0, bisect_right(bases, bound) - 1)]
    return Dirtiness(
        first_dirty_offset=first_dirty,
        end_offset=end_offset,
        clean_bytes=sum(segment.size for segment in closed if segment.base_offset < first_dirty),
        cleanable_bytes=sum(segment.size for segment in dirty if segment.base_offset < end_offset),
        is_overdue=_is_overdue(log, dirty, now_ms),
    )


def is_worth_it(log: MeasuredLog, dirtiness: Dirtiness) -> bool:
    """Tell whether a log should be cleaned now."""
    if not dirtiness.cleanable_bytes:
        return False
    return dirtiness.is_overdue or dirtiness.ratio > log.config.min_cleanable_dirty_ratio


def _first_too_young(log: MeasuredLog, dirty: tuple[Segment, ...], now_ms: int) -> int:
    """Return the base offset of the first segment within min.compaction.lag.ms; the log's end if there is none."""
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest[0] > now_ms - lag_ms:
                return segment.base_offset
    return log.log_end_offset


def _is_overdue(log: MeasuredLog, dirty: tuple[Segment, ...], now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == _NO_LAG_MAX:
        return False
    try:
        first_timestamps = [segment.read_first_timestamp() for segment in dirty]
    except BatchError:
        return False  # the cleaning would meet the damage, too
    return any(0 < timestamp < now_ms - lag_ms for timestamp in first_timestamps)


def plan(log: Log, dirtiness: Dirtiness, limits: CleanerLimits, now_ms: int) -> CleaningOrder:
    """Write down what to clean."""
    config, end_offset = log.config, dirtiness.end_offset
    return CleaningOrder(
        directory=log.directory,
        sources=tuple(
            Source(segment.base_offset, segment.size)
            for segment in log.closed_segments
            if segment.base_offset < end_offset
        ),
        first_dirty_offset=dirtiness.first_dirty_offset,
        end_offset=end_offset,
        later_segments=tuple(base for base in log.base_offsets if base >= end_offset),
        producers={
            entry.producer_id: LastBatch(
                entry.batches[-1].last_offset if entry.batches else -1, entry.producer_epoch
            )
            for entry in log.producers
        },
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        dedupe_buffer_bytes=limits.dedupe_buffer_bytes,
        load_factor=limits.load_factor,
        io_buffer_bytes=limits.io_buffer_bytes,
    )
