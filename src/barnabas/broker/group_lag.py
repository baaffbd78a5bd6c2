"""How far each group is behind, in records and in seconds, for the metrics.

Job: join what the groups of this broker committed with the logs it leads. Lag in records is the high watermark minus the
committed offset. Lag in seconds is the timestamp of the newest record minus that of the first one not consumed, both
read from the log: 0 when all is consumed, None where it is not known. Must not know how figures are shown.

Invariants: only the loop's thread touches groups and replicas, in slices so that requests go on between them; only the
background reads logs, and only it touches the remembered timestamps. One collection runs at a time: who asks meanwhile
gets its result. A collection reads for at most MAX_READS offsets; partitions beyond that have None this time and are first the
next time.
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
#: Offsets whose timestamps one collection reads from logs, so that a scrape does not take the processor for long.
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
        self._times = _Times()
        self._waiting: list[Callable[[list[GroupFigures]], None]] = []

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
        if entries:
            yield lambda done: self._background.run(lambda: self._times.complete(entries), done)
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


class _Times:
    """The background's part: timestamps, read or remembered, and the figures made of them."""

    def __init__(self) -> None:
        """Remember nothing."""
        #: Kept from the last collection: as many as there are partitions behind, at most.
        self.firsts: _Stamps = {}
        self.newest: _Stamps = {}
        self._turn = 0

    def complete(self, entries: Sequence[_Entry]) -> None:
        """Add each entry to the figures of its group."""
        behind = [entry.behind for entry in entries if entry.behind is not None]
        self._forget({(b.place, b.start) for b in behind}, {(b.place, b.end) for b in behind})
        unread = {(b.place, b.start, b.end): b for b in behind if not self._is_known(b)}
        for one in self._choose(list(unread.values())):
            self._read(one)
        for entry in entries:
            figures, topic, partition, offset, lag, _ = entry
            seconds = self._seconds(entry)
            figures.partitions.append(PartitionLag(topic, partition, offset, lag, seconds))

    def _forget(self, starts: set[tuple[_Place, int]], ends: set[tuple[_Place, int]]) -> None:
        self.firsts = {key: stamp for key, stamp in self.firsts.items() if key in starts}
        self.newest = {key: stamp for key, stamp in self.newest.items() if key in ends}

    def _is_known(self, behind: _Behind) -> bool:
        key = (behind.place, behind.start)
        if key not in self.firsts:
            return False
        return self.firsts[key] is None or (behind.place, behind.end) in self.newest

    def _choose(self, unread: list[_Behind]) -> list[_Behind]:
        """Take as many as may be read, and go on next time where this time ends."""
        if len(unread) <= MAX_READS:
            self._turn = 0
            return unread
        first = self._turn % len(unread)
        self._turn = first + MAX_READS
        return (unread[first:] + unread[:first])[:MAX_READS]

    def _read(self, behind: _Behind) -> None:
        """Read what is missing. What cannot be read stays unknown: it is tried again next time."""
        place, log_, start, end = behind
        try:
            if (place, start) not in self.firsts:
                self.firsts[place, start] = read_first(log_, start, end)
            first = self.firsts[place, start]
            if first is not None and (place, end) not in self.newest:
                self.newest[place, end] = read_newest(log_, first.offset, end)
        except (OSError, BatchError, CompressionError) as problem:
            log.debug("%s: no timestamps for the lag of groups: %s", log_.directory, problem)

    def _seconds(self, entry: _Entry) -> float | None:
        behind = entry.behind
        if behind is None:
            return None if entry.lag is None else 0.0
        if not self._is_known(behind):
            return None
        first = self.firsts[behind.place, behind.start]
        if first is None:
            return 0.0  # only markers are left
        newest = self.newest[behind.place, behind.end]
        if newest is None or first.timestamp < 0 or newest.timestamp < 0:
            return None
        # Producers set timestamps as they like: the newest record may bear the older one.
        return max(0, newest.timestamp - first.timestamp) / 1000


def _nothing() -> None:
    """Do nothing: only the turn is wanted."""
