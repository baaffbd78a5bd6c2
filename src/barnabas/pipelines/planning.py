"""Which pieces of which logs a batch reads.

Job: how far a trigger goes, and how its ranges are cut into tasks. Must not know a cluster, a clock or pyspark.

Invariants: `plan` is a function of start, end and options alone, so that a replayed batch has the same tasks with the same rows; every
offset from start to end is in exactly one range; a trigger that may read takes at least one offset of every partition that has some.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.model.ids import TopicPartition
    from barnabas.pipelines.offsets import Offsets

#: Where a partition that is new in the middle of a query starts, as its log does: nothing of it may be missed.
NEW_PARTITION_START: Final = 0


@dataclass(frozen=True, slots=True)
class Range:
    """A piece of a log, half open."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it has; records may be fewer, by compaction and transactions."""
        return self.end - self.start


def limit_offsets(start: Offsets, latest: Offsets, offsets_max: int) -> Offsets:
    """Take at most about so many offsets, from each partition in proportion to what it has."""
    return limit_weights(start, latest, dict.fromkeys(latest, 1.0), offsets_max)


def limit_weights(
    start: Offsets, latest: Offsets, weights: Mapping[TopicPartition, float], limit: int
) -> Offsets:
    """Take offsets of at most about so much weight, where each offset of a partition has the partition's."""
    sizes = {each: end - _begin(start, each) for each, end in latest.items()}
    weight = sum(weights[each] * size for each, size in sizes.items() if size > 0)
    if weight <= limit:
        return latest
    share = limit / weight
    return {
        each: end if sizes[each] <= 0 else _begin(start, each) + _part(sizes[each] * share)
        for each, end in latest.items()
    }


def _begin(start: Offsets, partition: TopicPartition) -> int:
    return start.get(partition, NEW_PARTITION_START)


def _part(share: float) -> int:
    # A small partition beside large ones must not wait for ever.
    return max(math.floor(share), 1)


def count_new(start: Offsets, latest: Offsets) -> int:
    """How many offsets are there to be read?"""
    return sum(max(end - _begin(start, each), 0) for each, end in latest.items())


def losses(start: Offsets, end: Offsets) -> list[str]:
    """Say what two offsets of a query tell about lost records."""
    gone = sorted(set(start) - set(end))
    told = [f"{', '.join(map(str, gone))} is gone"] if gone else []
    told += [
        f"{each} ended at {start[each]} and ends at {end[each]} now"
        for each in sorted(end)
        if each in start and end[each] < start[each]
    ]
    return told


def check_losses(start: Offsets, end: Offsets, *, fails: bool) -> None:
    """PipelineProblem if records were lost and the query is to fail then."""
    told = losses(start, end)
    if told and fails:
        raise PipelineProblem(
            f"records may have been lost: {'; '.join(told)}; was a topic deleted or made anew? To go on "
            "with what is there, set failOnDataLoss=false"
        )


def plan(
    start: Offsets, end: Offsets, partitions_min: int | None, records_max: int | None
) -> list[Range]:
    """Cut what lies between two offsets into ranges, as the `kafka` format does."""
    ranges = [Range(each, _begin(start, each), end[each]) for each in sorted(end)]
    ranges = [each for each in ranges if each.size > 0]
    if records_max:
        ranges = [piece for each in ranges for piece in _divide(each, -(-each.size // records_max))]
    if partitions_min and partitions_min > len(ranges):
        ranges = _divide_large(ranges, partitions_min)
    return ranges


def _divide(whole: Range, count: int) -> list[Range]:
    """Cut a range into equal pieces; the last ones take what is left over."""
    pieces, begin = [], whole.start
    for left in range(count, 0, -1):
        end = begin + (whole.end - begin) // left
        if end > begin:
            pieces.append(replace(whole, start=begin, end=end))
        begin = end
    return pieces


def _divide_large(ranges: list[Range], count_min: int) -> list[Range]:
    """Cut the larger ranges so that there are about `count_min`; small ones are left out of the proportion."""
    total = sum(each.size for each in ranges)
    small = {each for each in ranges if _part_count(each.size, total, count_min) == 1}
    large_total = total - sum(each.size for each in small)
    wanted = max(count_min - len(small), 1)
    divided = []
    for each in ranges:
        count = 1 if each in small else _part_count(each.size, large_total, wanted)
        divided += _divide(each, count)
    return divided


def _part_count(size: int, total: int, count_min: int) -> int:
    return max(math.floor(size / total * count_min + 0.5), 1)
