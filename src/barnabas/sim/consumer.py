"""A simulated consumer: assigned partitions, fetch sessions, long polls, starts over from some offset.

Job: read and hand everything to `checkers.History`. Must not judge records itself.

An error of a session makes the next fetch a full one. OFFSET_OUT_OF_RANGE is right only for an offset that a power loss
took: then the reader goes on at the end of the log. An `Auditor` reads every partition whole once everything is healed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.model.errors import ErrorCode
from barnabas.sim.client import REQUEST_TIMEOUT_US, Client
from barnabas.sim.violation import Violation
from barnabas.sim.world import MS
from barnabas.wire import batch as batches
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from barnabas.sim.checkers import History, Key
    from barnabas.sim.network import Network
    from barnabas.wire.messages.fetch import FetchResponse, PartitionData

SESSIONS_SINCE: Final = 7
TOPIC_IDS_SINCE: Final = 13
VERSIONS: Final = (4, 6, 7, 9, 11, 12, 13, 15, 17, 18)
UNPACKED_BYTES_MAX: Final = 1 << 24
_SESSION_LOST: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)
_PASSING: Final = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)


class Consumer(Client):
    """Reads its partitions until it is told to stop."""

    def __init__(self, name: str, network: Network, history: History, keys: list[Key]) -> None:
        """Start at the beginning of every partition."""
        super().__init__(name, network)
        self.history = history
        self.positions: dict[Key, int] = dict.fromkeys(keys, 0)
        self.version = self.chance.choice(VERSIONS)
        self._uses_session = self.version >= SESSIONS_SINCE and self.chance.random() < 0.8
        self._uses_epochs = self.version >= 9 and self.chance.random() < 0.5
        self._session_id = 0
        self._session_epoch = 0
        #: What the session was last told of each partition.
        self._told: dict[Key, tuple[int, int]] = {}
        self._ids: dict[str, bytes] = {}
        self._epochs: dict[Key, int] = {}
        self._watermarks: dict[Key, int] = {}
        self._out_of_range: list[Key] = []
        self._pausing = False

    def step(self) -> None:
        """Ask for what is missing, then for records."""
        if self.requests_in_flight or self._pausing:
            return
        if not self._ids:
            self.ask_metadata(sorted({key[0] for key in self.positions}), self._on_metadata)
        elif self._out_of_range:
            self._ask_end()
        else:
            self._start_over_sometimes()
            self._fetch()

    def on_lost(self) -> None:
        """Forget what belonged to the connection; the session may be known to the node all the same."""
        self._watermarks.clear()
        self._ids = {}
        if self.chance.random() < 0.5:
            self._drop_session()

    def pause(self) -> None:
        """Hold still for a while."""
        self._pausing = True

        def go_on() -> None:
            self._pausing = False
            self.wake()

        self.scheduler.after(self.chance.randint(10 * MS, 100 * MS), f"{self.name} goes on", go_on)

    # Metadata and offsets

    def _on_metadata(self, response: Any) -> None:  # noqa: ANN401
        if response is None:
            return
        if any(topic.error_code for topic in response.topics):
            self.pause()
            return
        self._drop_session()  # a session keeps the ids it was given
        for topic in response.topics:
            self._ids[topic.name] = topic.topic_id
            for partition in topic.partitions:
                self._epochs[topic.name, partition.partition_index] = partition.leader_epoch

    def _ask_end(self) -> None:
        topic, index = self._out_of_range.pop()
        asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )

        def answered(response: Any) -> None:  # noqa: ANN401
            found = None if response is None else response.topics[0].partitions[0]
            if found is None or found.error_code:
                self._out_of_range.append((topic, index))
                if response is not None:
                    self.pause()
            else:
                self.positions[topic, index] = found.offset
                self._watermarks.pop((topic, index), None)

        self.ask(request, self.chance.choice((4, 7, 9)), answered)

    # Fetching

    def _start_over_sometimes(self) -> None:
        if self.chance.random() < 0.03:
            key = self.chance.choice(list(self.positions))
            self.positions[key] = self.chance.randint(0, self.positions[key])

    def _fetch(self) -> None:
        wait_ms = self.chance.choice((0, 20, 300))
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=self.chance.choice((1, 1, 1, 2000)),
            max_bytes=self.chance.choice((300, 5000, 1 << 20)),
            session_id=self._session_id,
            session_epoch=self._session_epoch if self._uses_session else -1,
            topics=self._topics(),
        )
        full = not self._session_id
        self.ask(
            request,
            self.version,
            lambda response: self._on_fetched(response, full=full),
            timeout_us=REQUEST_TIMEOUT_US + wait_ms * MS,
        )

    def _topics(self) -> list[FetchTopic]:
        """Name all partitions, or in a session those that changed."""
        topics: dict[str, FetchTopic] = {}
        max_bytes = self.chance.choice((100, 4000, 1 << 20))
        for key, position in self.positions.items():
            epoch = self._epochs.get(key, -1) if self._uses_epochs else -1
            if self._session_id and self._told.get(key) == (position, epoch):
                continue
            self._told[key] = (position, epoch)
            topic = topics.setdefault(
                key[0],
                FetchTopic(topic=key[0], topic_id=self._ids.get(key[0], bytes(16)), partitions=[]),
            )
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=epoch,
                    fetch_offset=position,
                    partition_max_bytes=max_bytes,
                )
            )
        return list(topics.values())

    def _drop_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._told.clear()

    def _on_fetched(self, response: FetchResponse | None, *, full: bool) -> None:
        if response is None:
            return
        if response.error_code:
            if response.error_code not in _SESSION_LOST or full:
                raise Violation(
                    "good fetches are taken",
                    f"{self.name} got {ErrorCode(response.error_code).name} for a fetch",
                )
            self._drop_session()
            return
        if self._uses_session:
            self._session_id = response.session_id
            self._session_epoch = self._session_epoch + 1 if response.session_id else 0
        names = {topic_id: name for name, topic_id in self._ids.items()}
        for topic in response.responses:
            name = names[topic.topic_id] if self.version >= TOPIC_IDS_SINCE else topic.topic
            for partition in topic.partitions:
                self._on_partition((name, partition.partition_index), partition)

    def _on_partition(self, key: Key, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not self.history.may_be_gone(key, self.positions[key] - 1):
                raise Violation(
                    "acknowledged is kept",
                    f"{self.name} was told that offset {self.positions[key]} of {key[0]}-{key[1]} is out of range",
                )
            self._out_of_range.append(key)
        elif data.error_code:
            if data.error_code not in _PASSING:
                raise Violation(
                    "good fetches are taken",
                    f"{self.name} got {ErrorCode(data.error_code).name} for {key[0]}-{key[1]}",
                )
            self._ids = {}
            if not self._pausing:
                self.pause()
        else:
            self._take(key, data)

    def _take(self, key: Key, data: PartitionData) -> None:
        assert self.connection is not None
        position, watermark = self.positions[key], data.high_watermark
        found = read_all(data.records)
        records = [
            (record.offset, record.value or b"") for record in found if record.offset >= position
        ]
        self.history.on_watermark(key, self.name, self._watermarks.get(key, -1), watermark)
        self._watermarks[key] = watermark
        self.history.on_read(
            key, self.name, self.connection.life.number, position, records, watermark
        )
        self.positions[key] = position + len(records)
        self.on_records(key, records, watermark)

    def on_records(self, key: Key, records: list[tuple[int, bytes]], high_watermark: int) -> None:
        """Take what was read; for subclasses."""


class Auditor(Consumer):
    """Reads every partition from its start to its end, then is finished."""

    def __init__(self, name: str, network: Network, history: History, keys: list[Key]) -> None:
        """Start with nothing read."""
        super().__init__(name, network, history, keys)
        self.found: dict[Key, list[tuple[int, bytes]]] = {key: [] for key in keys}
        self._ends: dict[Key, int] = {}

    @property
    def unfinished(self) -> str:
        """Say how far it came."""
        return ", ".join(
            f"{key[0]}-{key[1]} at {position} of {self._ends.get(key)}"
            for key, position in self.positions.items()
        )

    def on_records(self, key: Key, records: list[tuple[int, bytes]], high_watermark: int) -> None:
        """Keep them, and see whether that was all."""
        self.found[key].extend(records)
        self._ends[key] = high_watermark
        if all(self.positions[one] == self._ends.get(one) for one in self.positions):
            self.is_finished = True

    def _start_over_sometimes(self) -> None:
        return


def read_all(data: Any) -> list[batches.Record]:  # noqa: ANN401
    """Decode every whole batch, as clients do: half a batch at the end is passed over."""
    view = memoryview(data) if data else memoryview(b"")
    records = []
    for position, header in batches.headers(view):
        batch = view[position : position + header.size]
        if not batches.checksum_matches(batch, header):
            raise Violation(
                "nothing invented", f"a batch at offset {header.base_offset} has a wrong checksum"
            )
        records += batches.read_records(batch, UNPACKED_BYTES_MAX)
    return records
