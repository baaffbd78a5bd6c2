"""A simulated consumer: assigned partitions, fetch sessions, long polls, starts over from some offset.

Job: read and hand everything to `checkers.History`. Must not judge records itself.

An error of a session makes the next fetch a full one. OFFSET_OUT_OF_RANGE is right only for an offset that a power loss
took, then the reader goes on at the end of the log, or for one that was deleted, then at its start. An `Auditor` reads
every partition whole once everything is healed, and looks some of its records up by their time.
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
    from collections.abc import Callable, Iterator

    from barnabas.sim.checkers import History, Key
    from barnabas.sim.network import Network
    from barnabas.wire.messages.fetch import FetchResponse, PartitionData
    from barnabas.wire.messages.list_offsets import (
        ListOffsetsPartitionResponse,
        ListOffsetsResponse,
    )

LATEST: Final = -1
EARLIEST: Final = -2
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
            self._ask_offset(self._out_of_range.pop())
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

    def _ask_offset(self, key: Key) -> None:
        """Find out where to go on: at the start if records were deleted, else at the end."""
        deleted = self.history.may_be_deleted(key, self.positions[key])

        def answered(found: ListOffsetsPartitionResponse | None) -> None:
            if found is None:
                self._out_of_range.append(key)
            else:
                self.positions[key] = found.offset
                self.on_reset(key, found.offset)
                self._watermarks.pop(key, None)

        self.look_up(key, EARLIEST if deleted else LATEST, answered)

    def look_up(
        self,
        key: Key,
        timestamp: int,
        answered: Callable[[ListOffsetsPartitionResponse | None], None],
    ) -> None:
        """Ask for an offset by time; None if there was no answer, or one to try again."""
        asked = ListOffsetsPartition(
            partition_index=key[1], current_leader_epoch=-1, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=key[0], partitions=[asked])]
        )

        def take(response: ListOffsetsResponse | None) -> None:
            found = None if response is None else response.topics[0].partitions[0]
            if found is not None and found.error_code:
                self.pause()
                found = None
            answered(found)

        self.ask(request, self.chance.choice((4, 7, 9)), take)

    def on_reset(self, key: Key, offset: int) -> None:
        """Go on somewhere else; for subclasses."""

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
            position = self.positions[key]
            if not (
                self.history.may_be_gone(key, position - 1)
                or self.history.may_be_deleted(key, position)
            ):
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
        self.on_found(key, [record for record in found if record.offset >= position])
        records = [
            (record.offset, record.value or b"") for record in found if record.offset >= position
        ]
        self.history.on_watermark(key, self.name, self._watermarks.get(key, -1), watermark)
        self._watermarks[key] = watermark
        self.history.on_read(
            key, self.name, self.connection.life.number, position, records, watermark
        )
        self.positions[key] = position + len(records)
        if not records:
            self._pass_empty(key, data.records)
        self.on_end(key, watermark)

    def _pass_empty(self, key: Key, data: Any) -> None:  # noqa: ANN401
        """Go on behind batches without records, as clients do: a node puts them where it has lost some."""
        position = self.positions[key]
        end = max((at.next_offset for at in headers_in(data)), default=position)
        if end > position:
            self.history.on_missing(key, position, end)
            self.positions[key] = end

    def on_found(self, key: Key, records: list[batches.Record]) -> None:
        """Take what was read; for subclasses."""

    def on_end(self, key: Key, high_watermark: int) -> None:
        """Take where the log ends; for subclasses."""


class Auditor(Consumer):
    """Reads every partition from its start to its end, then is finished."""

    def __init__(self, name: str, network: Network, history: History, keys: list[Key]) -> None:
        """Start with nothing read."""
        super().__init__(name, network, history, keys)
        self.found: dict[Key, list[batches.Record]] = {key: [] for key in keys}
        self.starts: dict[Key, int] = dict.fromkeys(keys, 0)
        self._ends: dict[Key, int] = {}
        self._to_look_up = [key for key in keys for _ in range(2)]

    @property
    def unfinished(self) -> str:
        """Say how far it came."""
        return ", ".join(
            f"{key[0]}-{key[1]} at {position} of {self._ends.get(key)}"
            for key, position in self.positions.items()
        )

    def step(self) -> None:
        """Read on; when all is read, look some records up."""
        if self.requests_in_flight or self._pausing or not self._has_read_all:
            super().step()
        elif self._to_look_up:
            self._look_up_one(self._to_look_up.pop())
        else:
            self.is_finished = True
            self.hang_up()

    @property
    def _has_read_all(self) -> bool:
        return all(self.positions[key] == self._ends.get(key) for key in self.positions)

    def _look_up_one(self, key: Key) -> None:
        records = self.found[key]
        if not records:
            return self.wake()
        timestamp = self.chance.choice(records).timestamp + self.chance.choice((-1, 0, 1))
        expected = next((one for one in records if one.timestamp >= timestamp), None)

        def answered(found: ListOffsetsPartitionResponse | None) -> None:
            if found is None:
                self._to_look_up.append(key)
            elif found.offset != (-1 if expected is None else expected.offset):
                raise Violation(
                    "times are found",
                    f"{key[0]}-{key[1]} says that {timestamp} is at offset {found.offset}, not {expected}",
                )

        return self.look_up(key, timestamp, answered)

    def on_reset(self, key: Key, offset: int) -> None:
        """Begin where the log begins."""
        self.starts[key] = offset

    def on_found(self, key: Key, records: list[batches.Record]) -> None:
        """Keep them."""
        self.found[key].extend(records)

    def on_end(self, key: Key, high_watermark: int) -> None:
        """Note how far there is to go."""
        self._ends[key] = high_watermark

    def _start_over_sometimes(self) -> None:
        return


def headers_in(data: Any) -> Iterator[batches.BatchHeader]:  # noqa: ANN401
    """Walk over the whole batches of an answer."""
    for _position, header in batches.headers(memoryview(data) if data else memoryview(b"")):
        yield header


def read_all(data: Any) -> list[batches.Record]:  # noqa: ANN401
    """Decode every whole batch, as clients do: half a batch at the end is passed over."""
    view = memoryview(data) if data else memoryview(b"")
    records = []
    epoch = 0
    for position, header in batches.headers(view):
        batch = view[position : position + header.size]
        if not batches.checksum_matches(batch, header):
            raise Violation(
                "nothing invented", f"a batch at offset {header.base_offset} has a wrong checksum"
            )
        if header.partition_leader_epoch < epoch:
            raise Violation(
                "epochs never fall",
                f"offset {header.base_offset} is of epoch {header.partition_leader_epoch}, after {epoch}",
            )
        epoch = header.partition_leader_epoch
        records += batches.read_records(batch, UNPACKED_BYTES_MAX)
    return records
