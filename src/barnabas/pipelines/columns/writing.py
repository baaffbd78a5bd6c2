"""Rows to topics: which partition each belongs to, which cannot be written, and batches for the producer.

Job: look at a batch of rows as a whole, put aside what no topic takes, hand the rest to a producer session. Must not know Spark or
transactions.

Invariants: rows of one partition keep their order; a row is either queued or told with its reason, never both or neither.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.client.errors import UnknownTopic
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.columns.encoding import (
    Rows,
    encode,
    encode_headers,
    lengths,
    nameless_headers,
)
from barnabas.pipelines.columns.murmur2 import murmur2, partitions_of
from barnabas.runtime.clock import SystemClock
from barnabas.wire import batch as record_batch
from barnabas.wire.compression import BY_NAME as CODECS
from barnabas.wire.compression import Codec, compress

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from barnabas.client.topics import TopicLimits
    from barnabas.pipelines.columns.encoding import Content
    from barnabas.runtime.blocking_client import BlockingClient, ProducerSession

#: Rows are encoded in pieces of this size: some copies of them are in memory at a time, and Arrow's arrays end at 2 GB.
PIECE_BYTES: Final = 64 * 1024 * 1024
_NOWHERE: Final = -1
_NO_SUCH_PARTITION: Final = 2**31
_NO_TOPIC: Final = "the row has no topic"
_NO_NAME: Final = "one of its headers has no key"


class PoisonRow(NamedTuple):
    """A row that cannot be written: its place in the batch of rows, where it should go, and why it does not."""

    row: int
    topic: str | None
    reason: str


@dataclass(slots=True)
class _Topic:
    """What is known of a topic that is written to."""

    name: str
    partitions: NDArray[np.int64]
    limits: TopicLimits
    #: Rows without a key go to one partition until a batch of them is full. Who writes little must not always begin with the same.
    turn: int


@dataclass(slots=True)
class _Plan:
    """Where the rows of one batch go; `_NOWHERE` for those that are told."""

    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    poison: list[PoisonRow] = field(default_factory=list)

    def refuse(self, rows: NDArray[np.int64], topic: str | None, reason: str) -> None:
        self.topic[rows] = _NOWHERE
        self.poison += [PoisonRow(int(row), topic, reason) for row in rows]


class RowWriter:
    """Writes rows through one producer session."""

    def __init__(
        self,
        client: BlockingClient,
        session: ProducerSession,
        *,
        topic: str | None = None,
        compression: str | None = None,
    ) -> None:
        """Write to `topic`, or where a column `topic` says; `compression` overrides the client's setting."""
        self._client = client
        self._session = session
        self._settings = client.settings
        self._default_topic = topic
        self._codec = CODECS[compression or self._settings.compression_type]
        self._topics: dict[str, _Topic | None] = {}
        self._clock = SystemClock()

    def write(self, batch: Any) -> list[PoisonRow]:  # noqa: ANN401  # pyarrow is untyped
        """Queue and send the rows of an Arrow record batch; return those that cannot be written."""
        if batch.nbytes > PIECE_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            poison = self.write(batch.slice(0, half))
            rest = self.write(batch.slice(half))
            return poison + [each._replace(row=each.row + half) for each in rest]
        return self._write(batch)

    def _write(self, batch: Any) -> list[PoisonRow]:  # noqa: ANN401
        columns = {name: batch.column(name) for name in batch.schema.names}
        count = batch.num_rows
        if not count:
            return []
        rows = self._rows(columns, count)
        names, topic = self._name_topics(columns.get("topic"), count)
        plan = _Plan(topic, np.full(count, _NOWHERE, np.int64))
        plan.refuse(np.flatnonzero(topic < 0), None, _NO_TOPIC)
        for row in nameless_headers(columns.get("headers")):
            if topic[row] >= 0:
                plan.refuse(np.array([row]), names[topic[row]], _NO_NAME)
        wanted = _wanted_partitions(columns.get("partition"), count)
        sizes = rows.sizes()
        for index, name in enumerate(names):
            self._plan_topic(plan, index, name, rows, wanted, sizes)
        self._send(plan, names, rows)
        plan.poison.sort()
        return plan.poison

    def flush(self) -> None:
        """Wait until everything is acknowledged; raise the first failure."""
        self._session.flush()

    # -- columns ------------------------------------------------------------------------------

    def _rows(self, columns: dict[str, Any], count: int) -> Rows:
        key, value = columns.get("key"), columns["value"]
        headers, time = columns.get("headers"), columns.get("timestamp")
        now_ms = self._clock.now_ms()
        return Rows(
            pa.nulls(count, pa.binary()) if key is None else _binary(key),
            _binary(value),
            None if headers is None else encode_headers(headers),
            np.full(count, now_ms, np.int64) if time is None else _times_ms(time, now_ms),
        )

    def _name_topics(self, column: Any, count: int) -> tuple[list[str], NDArray[np.int64]]:  # noqa: ANN401
        """Return the topics that occur, and for each row which of them; -1 where there is none."""
        if column is None:
            if self._default_topic is None:
                return [], np.full(count, _NOWHERE, np.int64)
            return [self._default_topic], np.zeros(count, np.int64)
        if self._default_topic is not None:
            column = pc.fill_null(column.cast(pa.string()), self._default_topic)
        encoded = column.cast(pa.string()).dictionary_encode()
        indices = pc.fill_null(encoded.indices, _NOWHERE).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices.astype(np.int64)

    # -- deciding -----------------------------------------------------------------------------

    def _plan_topic(
        self,
        plan: _Plan,
        index: int,
        name: str,
        rows: Rows,
        wanted: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> None:
        """Give the rows of one topic their partitions."""
        topic = self._topic(name)
        here = np.flatnonzero(plan.topic == index)
        if topic is None:
            plan.refuse(here, name, f"there is no topic '{name}'")
            return
        here = self._refuse_large(plan, here, topic, sizes)
        if topic.limits.is_compacted:
            keyless = lengths(rows.key)[here] < 0
            plan.refuse(
                here[keyless],
                name,
                f"it has no key, and topic '{name}' is compacted: a record without a key cannot be kept there",
            )
            here = here[~keyless]
        plan.partition[here] = self._choose(topic, rows, here, sizes)
        given = here[wanted[here] >= 0]
        plan.partition[given] = wanted[given]
        outside = given[~np.isin(wanted[given], topic.partitions)]
        count = topic.partitions.size
        plan.refuse(
            outside,
            name,
            f"topic '{name}' has {count} partitions and not the one that is asked for",
        )

    def _refuse_large(
        self, plan: _Plan, here: NDArray[np.int64], topic: _Topic, sizes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        largest, setting = self._settings.max_request_size, "max.request.size of the client"
        allowed = topic.limits.max_message_bytes
        # A codec may make it fit: then the packed size decides, in `_seal`.
        if allowed is not None and allowed < largest and self._codec == Codec.NONE:
            largest, setting = allowed, f"max.message.bytes of topic '{topic.name}'"
        too_large = sizes[here] + record_batch.HEADER_SIZE > largest
        for row in here[too_large]:
            reason = f"it takes about {int(sizes[row])} bytes, and {setting} is {largest}"
            plan.refuse(np.array([row]), topic.name, reason)
        return here[~too_large]

    def _choose(
        self, topic: _Topic, rows: Rows, here: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Choose by the hash of the key; rows without one fill a batch for one partition, then the next."""
        count = topic.partitions.size
        chosen = np.empty(here.size, np.int64)
        picked = rows.key if here.size == len(rows.key) else rows.key.take(pa.array(here))
        key_lengths = lengths(picked)
        keyed = np.flatnonzero(key_lengths >= 0)
        if keyed.size:
            buffer, starts = _memory(picked)
            hashes = murmur2(buffer, starts[keyed], key_lengths[keyed])
            chosen[keyed] = partitions_of(hashes, count)
        keyless = np.flatnonzero(key_lengths < 0)
        if keyless.size:
            filled = np.cumsum(sizes[here[keyless]]) // max(self._settings.batch_size, 1)
            chosen[keyless] = (topic.turn + filled) % count
            topic.turn = int(topic.turn + filled[-1] + 1) % count
        return topic.partitions[chosen]

    def _topic(self, name: str) -> _Topic | None:
        """Look a topic up once; None if there is no such topic."""
        if name not in self._topics:
            try:
                found = self._client.partitions([name])[name]
            except UnknownTopic:
                self._topics[name] = None
            else:
                numbers, limits = np.array(found, np.int64), self._client.topic_limits(name)
                self._topics[name] = _Topic(name, numbers, limits, secrets.randbelow(len(found)))
        return self._topics[name]

    # -- sending ------------------------------------------------------------------------------

    def _send(self, plan: _Plan, names: list[str], rows: Rows) -> None:
        wanted = np.flatnonzero(plan.topic >= 0)
        if not wanted.size:
            return
        destination = (plan.topic[wanted] << 32) + plan.partition[wanted]
        order = np.argsort(destination, kind="stable")
        wanted, destination = wanted[order], destination[order]
        is_all = wanted.size == len(rows.value) and bool((np.diff(wanted) == 1).all())
        sorted_rows = rows if is_all else rows.take(wanted)
        for content in encode(sorted_rows, destination, self._batch_bytes(names)):
            where = int(destination[content.first_row])
            place = TopicPartition(names[where >> 32], where & 0xFFFFFFFF)
            self._seal(plan, place, content, lambda row: int(wanted[row]))

    def _batch_bytes(self, names: list[str]) -> int:
        allowed = [self._settings.batch_size, self._settings.max_request_size]
        for name in names:
            topic = self._topics[name]
            if topic is not None and topic.limits.max_message_bytes is not None:
                allowed.append(topic.limits.max_message_bytes)
        return min(allowed) - record_batch.HEADER_SIZE

    def _seal(
        self, plan: _Plan, place: TopicPartition, content: Content, row_of: Callable[[int], int]
    ) -> None:
        """Pack a batch and hand it to the producer; a row alone that is still too large is told."""
        packed = compress(self._codec, content.data) if self._codec else content.data
        topic = self._topics[place.topic]
        assert topic is not None, "only rows of known topics get here"
        allowed = topic.limits.max_message_bytes
        size = len(packed) + record_batch.HEADER_SIZE
        if allowed is not None and size > allowed and content.row_count == 1:
            reason = f"it takes {size} bytes, and max.message.bytes of topic '{place.topic}' is {allowed}"
            plan.poison.append(PoisonRow(row_of(content.first_row), place.topic, reason))
            return
        producer = self._session.claim(place, content.row_count)
        attributes = int(self._codec)
        if self._session.is_transactional:
            attributes |= record_batch.TRANSACTIONAL
        header = record_batch.BatchHeader(
            0, 0, -1, record_batch.MAGIC, 0, attributes, content.row_count - 1,
            content.base_timestamp, content.max_timestamp, *producer, content.row_count,
        )  # fmt: skip
        self._session.add(place, record_batch.seal(packed, header))


def _binary(column: Any) -> Any:  # noqa: ANN401
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.binary())
    return column.cast(pa.binary())


def _times_ms(column: Any, now_ms: int) -> NDArray[np.int64]:  # noqa: ANN401
    """Return times in ms; now where there is none."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    numbers = pc.fill_null(column.cast(pa.int64()), now_ms)
    return numbers.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _wanted_partitions(column: Any, count: int) -> NDArray[np.int64]:  # noqa: ANN401
    """Return the partitions that rows ask for, -1 where they do not; a number that is none is one that no topic has."""
    if column is None:
        return np.full(count, _NOWHERE, np.int64)
    numbers = column.cast(pa.int64())
    given = pc.if_else(pc.less(numbers, 0), _NO_SUCH_PARTITION, numbers)
    wanted = pc.fill_null(given, _NOWHERE).to_numpy(zero_copy_only=False)
    return wanted.astype(np.int64)  # type: ignore[no-any-return]


def _memory(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:  # noqa: ANN401
    """Return the bytes of a binary array, and where its elements start."""
    _, bounds, data = array.buffers()
    starts = np.frombuffer(bounds, np.int32)[array.offset : array.offset + len(array)]
    buffer = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return buffer, starts.astype(np.int64)
