"""A simulated consumer of a cluster: reads its partitions from whoever leads them.

Job: fetch, and note in `history.History` what was polled. Must not judge values; it does see that nothing above the high watermark is
told. OFFSET_OUT_OF_RANGE is never right: nothing is deleted, and what a reader has seen stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import REQUEST_TIMEOUT_US
from barnabas.sim.cluster_client import ClusterClient
from barnabas.sim.consumer import read_all
from barnabas.sim.history import Poll, Seek
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.sim.history import History, Key
    from barnabas.sim.network import Network
    from barnabas.wire.messages.fetch import FetchResponse, PartitionData

FOLLOWERS_SINCE: Final = 11
TOPIC_IDS_SINCE: Final = 13
PASSING: Final = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)


class ClusterConsumer(ClusterClient):
    """Reads its partitions until it is told to stop."""

    def __init__(
        self, name: str, networks: Mapping[int, Network], history: History, keys: list[Key]
    ) -> None:
        """Start at the beginning of every partition."""
        super().__init__(name, networks, sorted({key[0] for key in keys}))
        self.positions: dict[Key, int] = dict.fromkeys(keys, 0)
        self._history = history
        self._version = self.chance.choice((9, 11, 12, 13, 16, 17))
        # Since followers may be asked (KIP-392) only the epoch tells one that lost its tail from the leader that it was.
        self._tells_epochs = self.chance.random() < 0.5 or self._version >= FOLLOWERS_SINCE
        self._seeks = self.chance.random() < 0.5
        self._asked: dict[int, list[Key]] = {}

    def step(self) -> None:
        """Ask every leader for what it leads, one request at a time."""
        self._seek_sometimes()
        by_leader: dict[int, list[Key]] = {}
        for key in self.positions:
            leader = self.leaders.get(key)
            if leader is None:
                self.refresh()
            elif leader not in self._asked:
                by_leader.setdefault(leader, []).append(key)
        for leader, keys in by_leader.items():
            self._fetch(leader, keys)

    def _seek_sometimes(self) -> None:
        if self._seeks and self.chance.random() < 0.02:
            key = self.chance.choice(list(self.positions))
            if any(key in keys for keys in self._asked.values()):
                return
            self.positions[key] = self.chance.randint(0, self.positions[key])
            self._history.add(self.name, Seek(key))

    def _fetch(self, leader: int, keys: list[Key]) -> None:
        self._asked[leader] = keys
        wait_ms = self.chance.choice((0, 400, 500))
        topics: dict[str, FetchTopic] = {}
        for key in keys:
            topic = topics.setdefault(
                key[0],
                FetchTopic(
                    topic=key[0], topic_id=self.topic_ids.get(key[0], bytes(16)), partitions=[]
                ),
            )
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=self.epochs[key] if self._tells_epochs else -1,
                    fetch_offset=self.positions[key],
                    partition_max_bytes=self.chance.choice((300, 1 << 20)),
                )
            )
        request = FetchRequest(
            replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=0,
            session_epoch=-1, topics=list(topics.values()),
        )  # fmt: skip
        self.lines[leader].put(
            request,
            self._version,
            lambda response: self._on_fetched(leader, response),
            REQUEST_TIMEOUT_US + wait_ms * MS,
        )

    def _on_fetched(self, leader: int, response: FetchResponse | None) -> None:
        keys = self._asked.pop(leader)
        if self.is_finished:
            return
        if response is None:
            for key in keys:
                self.leaders.pop(key, None)
            self.wake_after_backoff()
            return
        if response.error_code:
            raise Violation(
                "good fetches are taken",
                f"{self.name} got {ErrorCode(response.error_code).name} for a fetch",
            )
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        for topic in response.responses:
            name = names[topic.topic_id] if self._version >= TOPIC_IDS_SINCE else topic.topic
            for partition in topic.partitions:
                self._on_partition((name, partition.partition_index), partition)
        self.wake(self.chance.randint(0, 20 * MS))

    def _on_partition(self, key: Key, data: PartitionData) -> None:
        code, position = ErrorCode(data.error_code), self.positions[key]
        if code in PASSING:
            self.leaders.pop(key, None)
        elif code:
            raise Violation(
                "good fetches are taken",
                f"{self.name} got {code.name} for offset {position} of {key[0]}-{key[1]}",
            )
        else:
            self._take(key, position, data)

    def _take(self, key: Key, position: int, data: PartitionData) -> None:
        records = [one for one in read_all(data.records) if one.offset >= position]
        if records:
            if records[-1].offset >= data.high_watermark:
                raise Violation(
                    "readers see what is committed",
                    f"{self.name} got offset {records[-1].offset} of {key[0]}-{key[1]}, high watermark {data.high_watermark}",
                )
            polled = tuple((one.offset, one.value or b"") for one in records)
            self._history.add(self.name, Poll(key, polled))
            self.positions[key] = records[-1].offset + 1
        self.on_end(key, data.high_watermark)

    def on_end(self, key: Key, high_watermark: int) -> None:
        """Take how far there is to go; for subclasses."""


class ClusterAuditor(ClusterConsumer):
    """Reads every partition from its start to its end, then is finished."""

    def __init__(
        self, name: str, networks: Mapping[int, Network], history: History, keys: list[Key]
    ) -> None:
        """Start with nothing read."""
        super().__init__(name, networks, history, keys)
        self._seeks = False
        self._ends: dict[Key, int] = {}

    @property
    def unfinished(self) -> str:
        """Say how far it came."""
        return ", ".join(
            f"{key[0]}-{key[1]} at {position} of {self._ends.get(key)}"
            for key, position in self.positions.items()
        )

    def step(self) -> None:
        """Read on until all is read."""
        if all(self.positions[key] == self._ends.get(key) for key in self.positions):
            self.is_finished = True
            self.hang_up()
        else:
            super().step()

    def on_end(self, key: Key, high_watermark: int) -> None:
        """Note how far there is to go."""
        self._ends[key] = high_watermark
