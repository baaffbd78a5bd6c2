"""Where a group's offsets shall go: a plan of moves, made before anything is changed.

One job, and pure: from a target (the start, a time, a shift, a file ...) and what the cluster knows to one Move per
partition. Must not ask a broker or print. What lies outside the log is put at its nearest end, as Kafka's
kafka-consumer-groups does, and the move says so. The CSV is that tool's: `topic,partition,offset`, or with the group in front.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.cli.failure import Failure
from barnabas.cli.group_view import Bounds, Place
from barnabas.cli.position import (
    At,
    Back,
    Beginning,
    End,
    Position,
    Since,
    parse_position,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COLUMNS = ("topic", "partition", "offset")
_WITH_GROUP = 4
_MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class Shift:
    """So many records on (or back, below 0) from the committed offset."""

    by: int


@dataclass(frozen=True, slots=True)
class Current:
    """Where it stands: to check, to export, or to pull offsets back into the log."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An offset for each partition, from a file or another group."""

    offsets: Mapping[Place, int]


Target = Position | Shift | Current | Listed


@dataclass(frozen=True, slots=True)
class Scope:
    """Partitions of one topic; None: all it has."""

    topic: str
    partitions: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Move:
    """What happens to one partition. `before` None: nothing was committed."""

    place: Place
    before: int | None
    after: int
    bounds: Bounds
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of a move."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "before": self.before,
            "after": self.after,
            "start_offset": self.bounds.start,
            "end_offset": self.bounds.end,
            "note": self.note,
        }


# -- what a person types ---------------------------------------------------------------------


def parse_scope(text: str) -> Scope:
    """`orders`, or `orders:0,2-4`; ValueError when it is neither."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise ValueError(f"'{text}' names no topic")
    if not colon:
        return Scope(topic, None)
    chosen: set[int] = set()
    for part in numbers.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"'{text}' is not like orders or orders:0,2 or orders:0-3")
        wanted = range(int(first), int(last or first) + 1)
        if len(wanted) > _MOST_PARTITIONS:
            raise ValueError(f"'{text}' names more partitions than a topic can have")
        chosen.update(wanted)
    if not chosen:
        raise ValueError(f"'{text}' has no partitions")
    return Scope(topic, tuple(sorted(chosen)))


def parse_time(text: str, now_ms: int) -> Since:
    """A point in time: `2026-11-15T10:00`, `-1h` or `1h` ago, milliseconds since 1970; ValueError else."""
    word = text.strip()
    if word.isdecimal():
        return Since(int(word))
    try:
        position = parse_position(word.removeprefix("-"), now_ms)
    except ValueError:
        position = None
    if not isinstance(position, Since):
        raise ValueError(
            f"'{text}' is no time; allowed: 2026-11-15T10:00, -1h, 1h30m, 1731700000000 (ms since 1970)"
        )
    return position


# -- the plan --------------------------------------------------------------------------------


def plan_move(
    target: Target, place: Place, before: int | None, bounds: Bounds, since: int | None
) -> Move:
    """One partition's move. `since` is the broker's answer for a point in time, negative when no record is that late."""
    wanted, note = _wanted(target, place, before, bounds, since)
    after = min(max(wanted, bounds.start), bounds.end)
    if wanted < bounds.start:
        note = f"{wanted} is before the log start {bounds.start}"
    elif wanted > bounds.end:
        note = f"{wanted} is beyond the log end {bounds.end}"
    return Move(place, before, after, bounds, note)


def _wanted(
    target: Target, place: Place, before: int | None, bounds: Bounds, since: int | None
) -> tuple[int, str | None]:
    note = None
    match target:
        case Beginning():
            wanted = bounds.start
        case End():
            wanted = bounds.end
        case Back(count):
            wanted = bounds.end - count
        case At(offset):
            wanted = offset
        case Since() if since is None or since < 0:
            wanted, note = bounds.end, "no record is that late"
        case Since():
            wanted = since or 0
        case Listed(offsets):
            wanted = offsets[place]
        case Shift(by):
            wanted = _standing(place, before) + by
        case Current():
            wanted = _standing(place, before)
    return wanted, note


def _standing(place: Place, before: int | None) -> int:
    if before is None:
        raise Failure(
            f"{place} has no committed offset to start from",
            f"leave it out (--topic {place.topic}:0,1 names partitions), or give it one with --to-earliest or --to-latest",
        )
    return before


# -- CSV -------------------------------------------------------------------------------------


def read_plan(text: str, group: str) -> tuple[dict[Place, int], int]:
    """Offsets of `group` in a CSV, and how many lines were for other groups; ValueError with the line number."""
    offsets: dict[Place, int] = {}
    others = 0
    for number, line in enumerate(text.splitlines(), 1):
        fields = _fields(line)
        if not fields or (number == 1 and fields[-1].lower() == "offset"):
            continue
        if len(fields) == _WITH_GROUP:
            name, *fields = fields
            if name != group:
                others += 1
                continue
        place, offset = _row(number, fields)
        if place in offsets:
            raise ValueError(f"line {number}: {place} is there twice")
        offsets[place] = offset
    return offsets, others


def _fields(line: str) -> list[str]:
    """Fields of a line; rpk's files have spaces where Kafka's have commas."""
    if not line.strip() or line.lstrip().startswith("#"):
        return []
    if "," not in line:
        return line.split()
    return [field.strip() for field in next(csv.reader([line]))]


def _row(number: int, fields: Sequence[str]) -> tuple[Place, int]:
    if len(fields) != len(_COLUMNS):
        raise ValueError(
            f"line {number}: {len(fields)} fields; needed are topic,partition,offset or group,topic,partition,offset"
        )
    topic, partition, offset = fields
    for name, value in (("partition", partition), ("offset", offset)):
        if not value.isdecimal():
            raise ValueError(f"line {number}: {name} '{value}' is no number")
    return Place(topic, int(partition)), int(offset)


def write_plan(plans: Mapping[str, Iterable[Move]]) -> str:
    """The plan as CSV that `--from-file` and Kafka's own tool read; with the group when there are several."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, moves in plans.items():
        for move in moves:
            row = (*move.place, move.after)
            writer.writerow(row if len(plans) == 1 else (group, *row))
    return out.getvalue()
