"""Where the logs of a subscription start and end now, and where reading is to begin and stop.

Job: from a subscription to partitions, and from limits such as `latest` or a time to offsets, by asking the cluster. Must not know Spark.

Invariants: offsets that were given are within their logs, or the query fails, or (failOnDataLoss=false) they are moved into them; with
read_committed the end of a log is its last stable offset, so that what lies before is decided.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.client.errors import OffsetOutOfRange, UnknownTopic
from barnabas.client.offsets import EARLIEST, LATEST, NO_OFFSET
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.offsets import AtEdge, AtOffsets, AtTime, Limit, Offsets
from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from barnabas.client.offsets import ListedOffset
    from barnabas.client.reader import Chunk
    from barnabas.pipelines.options import SourceOptions

#: How often the end of a log is asked for again when it seems to lie before what was read already: a leader that was just
#: elected may not know its high watermark yet.
_END_ATTEMPTS: Final = 3


class Cluster(Protocol):
    """What is asked of a client."""

    def topics(self) -> list[str]:
        """Name the topics."""
        ...

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        """Name the partitions of topics."""
        ...

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: str
    ) -> dict[TopicPartition, ListedOffset]:
        """Find offsets."""
        ...

    def read_range(
        self, partition: TopicPartition, start: int, end: int, isolation: str
    ) -> Iterator[Chunk]:
        """Read batches."""
        ...


class Positions:
    """Answers for one reader."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        """Take who is asked, and what was subscribed to."""
        self._cluster = cluster
        self._options = options

    def subscribed(self, *, may_be_gone: bool = False) -> list[TopicPartition]:
        """Return the partitions there are now; UnknownTopic if one that was named is not there, unless it may be gone."""
        subscription = self._options.subscription
        if subscription.assigned:
            return self._assigned(subscription.assigned, may_be_gone=may_be_gone)
        topics: Iterable[str] = subscription.topics
        if subscription.pattern:
            pattern = re.compile(subscription.pattern)
            topics = [each for each in self._cluster.topics() if pattern.search(each)]
        found = self._partitions(topics, may_be_gone=may_be_gone or bool(subscription.pattern))
        return [TopicPartition(topic, each) for topic in sorted(found) for each in found[topic]]

    def starting(self) -> Offsets:
        """Return where a new query starts."""
        return self._resolve(self._options.starting, "starting")

    def ending(self) -> Offsets:
        """Return where a batch ends."""
        return self._resolve(self._options.ending, "ending")

    def latest(self, known: Offsets) -> Offsets:
        """Return where the logs end now, for a query that has come to `known`."""
        ends: Offsets = {}
        for _ in range(_END_ATTEMPTS):
            partitions = self.subscribed(may_be_gone=not self._options.fails_on_data_loss)
            ends = self._edges(partitions, LATEST)
            if all(ends.get(each, offset) >= offset for each, offset in known.items()):
                break
        return ends

    def bytes_per_offset(self, start: Offsets, latest: Offsets) -> dict[TopicPartition, float]:
        """Estimate what an offset of each partition weighs, from what comes next in its log."""
        starts = {each: start[each] for each in latest if each in start}
        starts |= self._edges([each for each in latest if each not in starts], EARLIEST)
        return {
            each: self._weight(each, starts[each], end) if end > starts[each] else 0.0
            for each, end in latest.items()
        }

    def _weight(self, partition: TopicPartition, start: int, end: int) -> float:
        chunks = self._cluster.read_range(partition, start, end, self._options.isolation)
        try:
            for chunk in chunks:
                if chunk.placed:
                    size = sum(header.size for _, header in chunk.placed)
                    # The first batch may begin before `start`.
                    first = min(start, chunk.placed[0][1].base_offset)
                    return size / (chunk.next_offset - first)
        except OffsetOutOfRange as problem:
            # Whether lost records are a failure, the task decides that misses them.
            if problem.is_loss and problem.log_start_offset < end:
                return self._weight(partition, problem.log_start_offset, end)
        return 0.0

    def _assigned(
        self, assigned: tuple[TopicPartition, ...], *, may_be_gone: bool
    ) -> list[TopicPartition]:
        found = self._partitions(sorted({each.topic for each in assigned}), may_be_gone=may_be_gone)
        there = [each for each in assigned if each.partition in found.get(each.topic, ())]
        for each in assigned:
            if each not in there and not may_be_gone:
                raise PipelineProblem(
                    f"assign names {each}, and the topic has {len(found[each.topic])} partitions, counted from 0"
                )
        return there

    def _partitions(self, topics: Iterable[str], *, may_be_gone: bool) -> dict[str, list[int]]:
        wanted = list(topics)
        while True:
            try:
                return self._cluster.partitions(wanted)
            except UnknownTopic as problem:
                if not may_be_gone:
                    raise
                wanted.remove(problem.topic)

    def _edges(self, partitions: Iterable[TopicPartition], edge: int) -> Offsets:
        wanted = dict.fromkeys(partitions, edge)
        if not wanted:
            return {}
        found = self._cluster.list_offsets(wanted, self._options.isolation)
        return {each: found[each].offset for each in wanted}

    def _resolve(self, limit: Limit, side: str) -> Offsets:
        partitions = self.subscribed()
        if isinstance(limit, AtEdge):
            return self._edges(partitions, limit.edge)
        if isinstance(limit, AtOffsets):
            _check_complete(f"{side}Offsets", limit.offsets, partitions)
            return self._within_logs(f"{side}Offsets", limit.offsets)
        if isinstance(limit, AtTime):
            return self._by_times(dict.fromkeys(partitions, limit.time_ms), side)
        _check_complete(f"{side}OffsetsByTimestamp", limit.times_ms, partitions)
        return self._by_times(limit.times_ms, side)

    def _by_times(self, times_ms: Mapping[TopicPartition, int], side: str) -> Offsets:
        found = self._cluster.list_offsets(times_ms, self._options.isolation)
        late = [each for each in times_ms if found[each].offset == NO_OFFSET]
        if late and side == "starting" and not self._options.latest_when_no_match:
            raise PipelineProblem(
                f"no record of {late[0]} is of the time {times_ms[late[0]]} or later: give an earlier time, or "
                "set startingOffsetsByTimestampStrategy=latest"
            )
        ends = self._edges(late, LATEST)
        return {each: ends.get(each, found[each].offset) for each in times_ms}

    def _within_logs(self, option: str, offsets: Offsets) -> Offsets:
        first, last = self._edges(offsets, EARLIEST), self._edges(offsets, LATEST)
        words = {EARLIEST: first, LATEST: last}
        resolved = {}
        for each, offset in offsets.items():
            asked = words[offset][each] if offset in words else offset
            resolved[each] = min(max(asked, first[each]), last[each])
            if resolved[each] != asked and self._options.fails_on_data_loss:
                raise PipelineProblem(
                    f"{option} has {asked} for {each}, whose log has {first[each]} to {last[each]}: give an offset "
                    "in it, -2 for the earliest or -1 for the latest, or set failOnDataLoss=false"
                )
        return resolved


def _check_complete(
    option: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> None:
    """Refuse to guess where partitions start that were not named, or name ones that are not read."""
    missing = sorted(set(partitions) - set(given))
    if missing:
        raise PipelineProblem(
            f"{option} must name every partition that is read, and lacks {', '.join(map(str, missing))}"
        )
    beyond = sorted(set(given) - set(partitions))
    if beyond:
        raise PipelineProblem(
            f"{option} names {', '.join(map(str, beyond))}, which is not among the partitions that are read"
        )
