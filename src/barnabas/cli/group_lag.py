"""How far a group is behind: in records, and in seconds by the records' own timestamps.

One job. Lag in records is the log end minus the committed offset, as Kafka's tools have it. Lag in seconds is the
timestamp of the newest record minus that of the first one not yet consumed, both read from the log: 0 when every
record is consumed, None where it cannot be known. Offsets without a record (compacted away, transaction markers)
are stepped over. Reading joins no group and commits nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.failure import reason
from barnabas.cli.group_view import Bounds, Committed, Place, ask_bounds
from barnabas.cli.output import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka import Consumer, KafkaError, Message

    from barnabas.cli.connection import Connection

POLL_S = 0.1
# librdkafka insists on a group id; with assign() and no commits no group comes into being.
GROUP_ID = "barnabas-cli"
# How far before the end the newest record is looked for: this, then 16 times as far, and so on.
FIRST_STEP = 1
STEP_GROWTH = 16
# Fewer than this are read before a bar could be seen.
BAR_FROM = 50
# One batch of each partition is all that is wanted, so little is fetched and nothing ahead.
_READ_LITTLE: dict[str, object] = {
    "fetch.message.max.bytes": 65_536,
    "queued.min.messages": 1,
    "fetch.wait.max.ms": 10,
}


class Stamp(NamedTuple):
    """Offset of a record and its timestamp in milliseconds; None when it has none."""

    offset: int
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group. None: not known (nothing committed, no such topic, no leader)."""

    place: Place
    committed: Committed | None
    bounds: Bounds | None
    lag_seconds: float | None

    @property
    def lag(self) -> int | None:
        """Records from the committed offset to the end."""
        return _lag(self.committed, self.bounds)


def _lag(committed: Committed | None, bounds: Bounds | None) -> int | None:
    if committed is None or bounds is None:
        return None
    # An offset beyond the end is one of a topic that was deleted and made again.
    return max(0, bounds.end - committed.offset)


def seconds_between(first: Stamp | None, newest: Stamp | None) -> float | None:
    """Lag in seconds, from the first record not consumed and the newest one.

    Producers set timestamps as they like, so the newest record may bear the older one: that is no lag.
    """
    if first is None:
        return 0.0
    if first.timestamp is None or newest is None or newest.timestamp is None:
        return None
    return max(0, newest.timestamp - first.timestamp) / 1000


def total_lag(partitions: Iterable[PartitionLag]) -> tuple[int | None, float | None]:
    """Sum of the records and maximum of the seconds; None when no partition has them."""
    lags = [p.lag for p in partitions if p.lag is not None]
    seconds = [p.lag_seconds for p in partitions if p.lag_seconds is not None]
    return (sum(lags) if lags else None), max(seconds, default=None)


# -- reading ---------------------------------------------------------------------------------


def read_lags(
    connection: Connection, groups: Mapping[str, Mapping[Place, Committed | None]]
) -> dict[str, list[PartitionLag]]:
    """The lag of every partition of every group. None for a partition that has no commit."""
    bounds, errors = ask_bounds(connection, (p for places in groups.values() for p in places))
    _note_unknown(errors)
    behind = {
        (place, max(committed.offset, bounds[place].start)): bounds[place].end
        for places in groups.values()
        for place, committed in places.items()
        if committed is not None and _lag(committed, bounds.get(place))
    }
    seconds = read_seconds(connection, behind) if behind else {}
    return {
        name: [_partition(place, c, bounds.get(place), seconds) for place, c in places.items()]
        for name, places in groups.items()
    }


def _note_unknown(errors: Mapping[Place, KafkaError]) -> None:
    for place, error in errors.items():
        click.echo(f"note: lag of {place} is not known: {reason(error)}", err=True)


def _partition(
    place: Place,
    committed: Committed | None,
    bounds: Bounds | None,
    seconds: Mapping[tuple[Place, int], float | None],
) -> PartitionLag:
    known: float | None = None
    if committed is not None and bounds is not None:
        start = max(committed.offset, bounds.start)
        known = seconds.get((place, start)) if _lag(committed, bounds) else 0.0
    return PartitionLag(place, committed, bounds, known)


def read_seconds(
    connection: Connection, behind: Mapping[tuple[Place, int], int]
) -> dict[tuple[Place, int], float | None]:
    """Lag in seconds of each (partition, offset), given the log end; what cannot be read is missing."""
    ends = {place: end for (place, _), end in behind.items()}
    with _progress(len(behind) + len(ends)) as advance, StampReader(connection, advance) as reader:
        firsts: dict[tuple[Place, int], Stamp | None] = {}
        # A partition can be read at one offset at a time: groups that share it take turns.
        for turn in _turns(behind):
            for place, stamp in reader.first(turn, ends).items():
                firsts[place, turn[place]] = stamp
        floors: dict[Place, int] = {}
        for (place, _), stamp in firsts.items():
            if stamp is not None:
                floors[place] = min(stamp.offset, floors.get(place, stamp.offset))
        newest = reader.newest(floors, ends)
    return {key: seconds_between(stamp, newest.get(key[0])) for key, stamp in firsts.items()}


def _turns(behind: Iterable[tuple[Place, int]]) -> list[dict[Place, int]]:
    turns: list[dict[Place, int]] = []
    for place, offset in behind:
        turn = next((turn for turn in turns if place not in turn), None)
        if turn is None:
            turn = {}
            turns.append(turn)
        turn[place] = offset
    return turns


@contextlib.contextmanager
def _progress(size: int) -> Iterator[Callable[[int], None]]:
    if size < BAR_FROM or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=size, label="reading timestamps", file=sys.stderr) as bar:
        yield bar.update


class StampReader:
    """Reads timestamps at offsets with a consumer that belongs to no group."""

    def __init__(self, connection: Connection, advance: Callable[[int], None]) -> None:
        """`advance` is told how many partitions were done."""
        self._connection = connection
        self._advance = advance
        self._open: dict[Place, int] = {}
        self._consumer: Consumer = connection.consumer(
            {
                "group.id": GROUP_ID,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                # Records dropped since the log start was asked for: the next existing one is the answer.
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                "isolation.level": "read_uncommitted",
                **_READ_LITTLE,
            }
        )

    def __enter__(self) -> StampReader:
        """For `with`: closes at the end."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the consumer."""
        self._consumer.close()

    def first(
        self, offsets: Mapping[Place, int], ends: Mapping[Place, int]
    ) -> dict[Place, Stamp | None]:
        """The first record at or after each offset and below the end; None: there is none."""
        found: dict[Place, Stamp | None] = {}
        for place, stamp in self._read(offsets, ends):
            if place not in found:
                found[place] = stamp
                self._done(place)
        return found

    def newest(self, floors: Mapping[Place, int], ends: Mapping[Place, int]) -> dict[Place, Stamp]:
        """The last record below each end. One is known to be at `floors`."""
        found: dict[Place, Stamp] = {}
        wanted, step = dict(floors), FIRST_STEP
        while wanted:
            starts = {place: max(floor, ends[place] - step) for place, floor in wanted.items()}
            read = self._last_each(starts, ends)
            found |= read
            # Not read at all (no answer in time) ends the search too.
            wanted = {
                place: floor
                for place, floor in wanted.items()
                if place not in read and starts[place] > floor
            }
            step *= STEP_GROWTH
        return found

    def _last_each(
        self, starts: Mapping[Place, int], ends: Mapping[Place, int]
    ) -> dict[Place, Stamp]:
        last: dict[Place, Stamp] = {}
        for place, stamp in self._read(starts, ends):
            if stamp is None:
                self._done(place)
            else:
                last[place] = stamp
                if stamp.offset == ends[place] - 1:
                    self._done(place)
        return last

    # -- one pass --------------------------------------------------------------------------------

    def _read(
        self, offsets: Mapping[Place, int], ends: Mapping[Place, int]
    ) -> Iterator[tuple[Place, Stamp | None]]:
        """Records from each offset on, until `_done` was called for all; None when the end is reached."""
        from confluent_kafka import TopicPartition

        self._open = {place: ends[place] for place in offsets}
        assigned = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        self._consumer.assign(assigned)
        self._consumer.resume(assigned)  # a pause of the pass before outlives assign()
        silent_since = time.monotonic()
        while self._open:
            message = self._consumer.poll(POLL_S)
            if message is not None:
                silent_since = time.monotonic()
                yield from self._accept(message)
            elif time.monotonic() - silent_since > self._connection.timeout_s:
                self._give_up()
                return

    def _accept(self, message: Message) -> Iterator[tuple[Place, Stamp | None]]:
        place = Place(str(message.topic()), message.partition() or 0)
        end, error, offset = self._open.get(place), message.error(), message.offset()
        if end is None:
            return
        if error is None:
            assert offset is not None
            yield place, Stamp(offset, _timestamp(message)) if offset < end else None
        elif error.name() == "_PARTITION_EOF":
            yield place, None
        elif not error.retriable():
            click.echo(f"note: lag of {place} in seconds: {reason(error)}", err=True)
            self._done(place)

    def _done(self, place: Place) -> None:
        from confluent_kafka import TopicPartition

        if self._open.pop(place, None) is not None:
            self._consumer.pause([TopicPartition(*place)])
            self._advance(1)

    def _give_up(self) -> None:
        silent = counted(len(self._open), "partition")
        waited = duration(self._connection.timeout_s)
        click.echo(
            f"note: lag in seconds is missing for {silent}: no record came within {waited}; "
            "--timeout waits longer",
            err=True,
        )


def _timestamp(message: Any) -> int | None:  # noqa: ANN401 - Message, whose type is too wide
    kind, timestamp = message.timestamp()
    return timestamp if kind in {1, 2} and timestamp >= 0 else None
