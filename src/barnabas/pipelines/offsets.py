"""Offsets as Spark's users write them and as its checkpoints keep them: JSON, the same as those of the `kafka` format.

Job: texts and nested dicts to maps by partition and back, and the ways to say where reading starts or ends. Must not know a
cluster: what `latest` is now, is found out elsewhere (`positions.py`).

Invariants: what is written is sorted, so that equal offsets are equal texts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where each partition is; what Spark calls an offset of a source.
Offsets = dict[TopicPartition, int]
#: The same in the form that becomes JSON: {"topic": {"0": 12}}.
OffsetsJson = dict[str, dict[str, int]]

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE: Final = '{"topicA":{"0":1700000000000},"topicB":{"0":1700000000000}}'
_PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[2,4]}'


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Given for each partition; -2 is the earliest and -1 the latest."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record of a time or later, in ms, given for each partition."""

    times_ms: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of a time or later, in ms, the same for all partitions."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class AtEdge:
    """Where every log starts (EARLIEST) or ends (LATEST)."""

    edge: int


Limit = AtOffsets | AtTimes | AtTime | AtEdge
FROM_EARLIEST: Final = AtEdge(EARLIEST)
FROM_LATEST: Final = AtEdge(LATEST)


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Give offsets the form that a checkpoint keeps."""
    nested: OffsetsJson = {}
    for topic, partition in sorted(offsets):
        nested.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return nested


def from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read offsets as a checkpoint keeps them."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in sorted(nested.items())
        for partition, offset in sorted(partitions.items(), key=lambda item: int(item[0]))
    }


def parse_offsets(option: str, text: str) -> Offsets:
    """Read an option such as startingOffsets."""
    offsets = _parse_numbers(option, text, _OFFSETS_EXAMPLE)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise PipelineProblem(
                f"{option} has {offset} for {partition}: give an offset, -1 for the latest or -2 for the earliest"
            )
    return offsets


def parse_times(option: str, text: str) -> dict[TopicPartition, int]:
    """Read an option such as startingOffsetsByTimestamp."""
    times = _parse_numbers(option, text, _TIMES_EXAMPLE)
    for partition, time_ms in times.items():
        if time_ms < 0:
            raise PipelineProblem(f"{option} has {time_ms} for {partition}: give milliseconds")
    return times


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Read the option assign."""
    found = set()
    try:
        for topic, partitions in json.loads(text).items():
            found |= {TopicPartition(topic, _number(each)) for each in partitions}
    except (ValueError, AttributeError, TypeError):
        raise _unreadable(option, text, _PARTITIONS_EXAMPLE) from None
    if not found:
        raise PipelineProblem(
            f"{option} names no partition: expected is e.g. {_PARTITIONS_EXAMPLE}"
        )
    return tuple(sorted(found))


def _parse_numbers(option: str, text: str, example: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): _number(number)
            for topic, partitions in json.loads(text).items()
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise _unreadable(option, text, example) from None


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _unreadable(option: str, text: str, example: str) -> PipelineProblem:
    return PipelineProblem(f"{option} cannot be read: expected is e.g. {example}, got {text}")
