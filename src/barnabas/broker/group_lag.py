"""How far each group is behind, in records and in seconds, for the metrics.

Job: join what the groups of this broker committed with the logs it leads. Lag in records is the high watermark minus the
committed offset. Lag in seconds is the timestamp of the newest record minus that of the first one not consumed, both
read from the log: 0 when all is consumed, None where it is not known. Must not know how figures are shown.

Invariants: only the loop's thread touches groups, replicas and the remembered timestamps, in slices so that requests go on
between them; only the background reads logs. A collection reads at most MAX_READS records; partitions beyond
that have None this time and are first the next time. One collection runs at a time: who asks meanwhile gets its result.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from barnabas.broker.group_lag_times import Stamp, read_first, read_newest
from barnabas.broker.tasks import drive
from barnabas.wire.batch import BatchError
from barnabas.wire.compression import CompressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Sized

    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.core.group.shard import GroupShard
    from barnabas.ports import Background
    from barnabas.storage.log import Log

log = logging.getLogger(__name__)

#: Offsets that are looked at before others get their turn: a millisecond or so.
SLICE: Final = 500
#: Records read from logs by one collection, so that a scrape does not take the processor for long.
MAX_READS: Final = 2_000


class PartitionLag(NamedTuple):
    """One committed offset; `lag` None: this broker does not lead the partition."""

    topic: str
    partition: int
    offset: int
    lag: int | None
    lag_seconds: float | None


@dataclass(slots=True)
class GroupFigures:
    """One group."""

    group_id: str
    member_count: int
    partitions: list[PartitionLag] = field(default_factory=list)


class _HasMembers(Protocol):
    """Groups of both kinds keep their members in a table."""

    members: Sized


class _Place(NamedTuple):
    """Records never change below the high watermark of a leader epoch: what was read there stays true."""

    topic_id: bytes
    partition: int
    leader_epoch: int


class _Behind(NamedTuple):
    """A committed offset with records after it; `start` is where the first of them may be."""

    place: _Place
    log: Log
    start: int
    end: int


class _Entry(NamedTuple):
    """One committed offset on its way to a PartitionLag."""

    figures: GroupFigures
    topic: str
    partition: int
    offset: int
    lag: int | None
    behind: _Behind | None


#: By place and offset: the first record there, or None if there is none.
_Stamps = dict[tuple[_Place, int], Stamp | None]


class GroupLag:
    """Collects the figures of one broker."""

    def __init__(
        self,
        background: Background,
        shards: Callable[[], Iterable[GroupShard]],
        find_replica: Callable[[str, int], Replica | None],
    ) -> None:
        """`shards` gives the loaded shards at this moment."""
        self._background = background
        self._shards = shards
        self._find_replica = find_replica
        #: Kept from the last collection: as many as there are partitions behind, at most.
        self._firsts: _Stamps = {}
        self._newest: _Stamps = {}
        self._waiting: list[Callable[[list[GroupFigures]], None]] = []
        self._turn = 0

    def collect(self, done: Callable[[list[GroupFigures]], None]) -> None:
        """Work the figures out; `done` is called on the loop's thread, perhaps at once."""
        self._waiting.append(done)
        if len(self._waiting) > 1:
            return

        def finished(result: list[GroupFigures] | None, problem: BaseException | None) -> None:
            waiting, self._waiting = self._waiting, []
            if problem is not None:  # a scrape must not take the broker with it
                log.error("cannot work out the lag of groups", exc_info=problem)
            for waiter in waiting:
                waiter(result or [])

        drive(self._collect(), finished)

    def _collect(self) -> Task[list[GroupFigures]]:
        groups: list[GroupFigures] = []
        entries: list[_Entry] = []
        for shard in list(self._shards()):
            for group_id in list(shard.groups):
                group = shard.groups.get(group_id)
                if group is None:
                    continue
                figures = GroupFigures(group_id, len(cast("_HasMembers", group).members))
                groups.append(figures)
                before = len(entries) // SLICE
                entries += self._entries(figures, shard)
                if len(entries) // SLICE > before or len(groups) % SLICE == 0:
                    yield self._breathe
        behind = [entry.behind for entry in entries if entry.behind is not None]
        yield from self._read_stamps(behind)
        for entry in entries:
            figures, topic, partition, offset, lag, _ = entry
            seconds = self._seconds(entry)
            figures.partitions.append(PartitionLag(topic, partition, offset, lag, seconds))
        return groups

    def _breathe(self, done: Callable[[Any, BaseException | None], None]) -> None:
        """Let the loop do other things before going on."""
        self._background.run(_nothing, done)

    def _entries(self, figures: GroupFigures, shard: GroupShard) -> list[_Entry]:
        entries = []
        for record in shard.offsets.committed(figures.group_id):
            topic, partition, offset = record.topic, record.partition, record.offset
            replica = self._find_replica(topic, partition)
            if replica is None or replica.offline:
                entries.append(_Entry(figures, topic, partition, offset, None, None))
                continue
            end = replica.state.high_watermark
            lag, behind = max(0, end - offset), None
            start = max(offset, replica.log.log_start_offset)
            if start < end:
                place = _Place(replica.topic.id, partition, replica.state.leader_epoch)
                behind = _Behind(place, replica.log, start, end)
            entries.append(_Entry(figures, topic, partition, offset, lag, behind))
        return entries

    # Timestamps

    def _read_stamps(self, behind: Sequence[_Behind]) -> Task[None]:
        """Bring what the figures need into memory, and forget the rest."""
        firsts = {(one.place, one.start): one for one in behind}
        unread = self._choose(
            [one for key, one in firsts.items() if key not in self._firsts or self._unread_end(one)]
        )
        read: tuple[_Stamps, _Stamps] = ({}, {})
        if unread:
            known = {key: self._firsts[key] for key in firsts if key in self._firsts}
            read = yield lambda done: self._background.run(lambda: _read_all(unread, known), done)
        ends = {(one.place, one.end) for one in behind}
        self._firsts = _kept(self._firsts, firsts) | read[0]
        self._newest = _kept(self._newest, ends) | read[1]

    def _unread_end(self, behind: _Behind) -> bool:
        first = self._firsts[behind.place, behind.start]
        return first is not None and (behind.place, behind.end) not in self._newest

    def _choose(self, unread: list[_Behind]) -> list[_Behind]:
        """Take as many as may be read, and go on next time where this time ends."""
        if len(unread) <= MAX_READS:
            self._turn = 0
            return unread
        first = self._turn % len(unread)
        self._turn = first + MAX_READS
        return (unread[first:] + unread[:first])[:MAX_READS]

    def _seconds(self, entry: _Entry) -> float | None:
        behind = entry.behind
        if behind is None:
            return None if entry.lag is None else 0.0
        key = (behind.place, behind.start)
        if key not in self._firsts:
            return None
        first, newest = self._firsts[key], self._newest.get((behind.place, behind.end))
        if first is None:
            return 0.0  # only markers are left
        if newest is None or first.timestamp < 0 or newest.timestamp < 0:
            return None
        # Producers set timestamps as they like: the newest record may bear the older one.
        return max(0, newest.timestamp - first.timestamp) / 1000


def _read_all(unread: Sequence[_Behind], known: _Stamps) -> tuple[_Stamps, _Stamps]:
    """Read timestamps in the background. What cannot be read is left out: it is tried again next time."""
    firsts: _Stamps = {}
    newest: _Stamps = {}
    for place, log_, start, end in unread:
        try:
            first = known[place, start] if (place, start) in known else read_first(log_, start, end)
            if first is not None and (place, end) not in newest:
                newest[place, end] = read_newest(log_, first.offset, end)
            firsts[place, start] = first
        except (OSError, BatchError, CompressionError):
            continue
    return firsts, newest


def _kept(stamps: _Stamps, wanted: Iterable[tuple[_Place, int]]) -> _Stamps:
    return {key: stamps[key] for key in wanted if key in stamps}


def _nothing() -> None:
    """Do nothing: only the turn is wanted."""
