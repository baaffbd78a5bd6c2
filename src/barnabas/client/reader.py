"""Reading a range of one partition, in raw record batches.

Job: fetch from the leader, wherever it moves, and hand out what a reader may see, with checked checksums. The next request is under way
before the last answer is handed out, so the broker works while the caller decodes. Must not know records.

Invariants:
- Everything from `start` up to `end` is handed out once and in order, but for what compaction, markers and aborted transactions leave out.
- A log that starts behind `start`, or ends before `end` and stays so, is an error and never a silent gap.
- Memory is bounded by two answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.errors import (
    ClientError,
    CorruptBatch,
    OffsetOutOfRange,
    UnknownTopic,
    Unreachable,
    refusal,
)
from barnabas.client.isolation import visible
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets
from barnabas.client.retry import Attempts
from barnabas.client.settings import READ_COMMITTED
from barnabas.client.talk import Collect, Forget, Pause, Post, Reply, usable
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as record_batch
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.client.cluster import Cluster
    from barnabas.client.talk import Talk
    from barnabas.model.ids import TopicPartition
    from barnabas.wire.batch import BatchHeader

#: How long a log may be shorter than it was: after a change of leader the high watermark takes a moment to be known again.
SHORT_LOG_PATIENCE_MS: Final = 10_000


@dataclass(slots=True)
class Chunk:
    """What one answer brought: whole batches in one piece of memory, at these places, and where reading goes on."""

    data: memoryview
    placed: list[tuple[int, BatchHeader]]
    next_offset: int

    @property
    def batches(self) -> Iterator[memoryview]:
        """Yield the batches one by one."""
        return (self.data[at : at + header.size] for at, header in self.placed)


class RangeReader:
    """Reads [start, end) of one partition."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, start: int, end: int, isolation: str
    ) -> None:
        """Stand at `start`; nothing is asked yet."""
        self.partition = partition
        self.position = start
        self._end = end
        self._cluster = cluster
        self._is_committed = isolation == READ_COMMITTED
        self._ticket: int | None = None
        self._attempts: Attempts | None = None

    def next_chunk(self) -> Talk[Chunk | None]:
        """Fetch what comes next; None at the end."""
        while self.position < self._end:
            try:
                data = yield from self._answer()
                chunk = self._read(data)
            except ClientError as problem:
                yield from self._recover(problem)
                continue
            if chunk is not None:
                self._attempts = None
                self.position = chunk.next_offset
                if self.position < self._end:
                    self._ticket = yield from self._send_ahead()
                return chunk
            if (
                data.last_stable_offset if self._is_committed else data.high_watermark
            ) >= self._end:
                self.position = self._end  # the rest was compacted away
            else:
                yield from self._wait_for_log(data)
        return None

    def close(self) -> Talk[None]:
        """Give up what is under way."""
        if self._ticket is not None:
            ticket, self._ticket = self._ticket, None
            yield Forget(ticket)

    # -- asking -------------------------------------------------------------------------------

    def _send(self) -> Talk[int]:
        yield from self._cluster.locate((self.partition,))
        address = self._cluster.leader_address(self.partition)
        ticket: int = yield Post(address, self._request())
        return ticket

    def _send_ahead(self) -> Talk[int | None]:
        """Ask for what follows; what goes wrong is found when it is missed."""
        try:
            return (yield from self._send())
        except ClientError:
            return None

    def _request(self) -> FetchRequest:
        settings = self._cluster.settings
        wanted = FetchPartition(
            partition=self.partition.partition,
            current_leader_epoch=self._cluster.leader_of(self.partition).epoch,
            fetch_offset=self.position,
            partition_max_bytes=settings.max_partition_fetch_bytes,
        )
        # No waiting at the broker: all that is asked for should be there.
        return FetchRequest(
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(self._is_committed),
            topics=[FetchTopic(topic=self.partition.topic, partitions=[wanted])],
        )

    def _answer(self) -> Talk[PartitionData]:
        ticket = self._ticket
        if ticket is None:
            ticket = yield from self._send()
        self._ticket = None
        reply: Reply = yield Collect((ticket,))
        answer: FetchResponse = usable(reply.answer)
        if answer.error_code:
            raise refusal(answer.error_code, f"reading {self.partition}")
        for topic in answer.responses:
            for data in topic.partitions:
                if (topic.topic, data.partition_index) == self.partition:
                    yield from self._check(data)
                    return data
        # A broker that slows us down answers with nothing.
        yield Pause(max(answer.throttle_time_ms, self._cluster.settings.retry_backoff_ms))
        raise Unreachable(f"no answer about {self.partition}")

    def _check(self, data: PartitionData) -> Talk[None]:
        code = data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            yield from self._raise_out_of_range()
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(self.partition.topic, self.partition.partition)
        if code:
            raise refusal(code, f"reading {self.partition}")

    def _raise_out_of_range(self) -> Talk[None]:
        """Tell what there is. A position that is in the log after all was judged by a leader that is behind: ask again."""
        bounds = []
        for which in (EARLIEST, LATEST):
            found = yield from list_offsets(self._cluster, {self.partition: which})
            bounds.append(found[self.partition].offset)
        if bounds[0] <= self.position <= bounds[1]:
            raise refusal(ErrorCode.OFFSET_NOT_AVAILABLE, f"reading {self.partition}")
        problem = OffsetOutOfRange(self.partition, self.position, bounds[0], bounds[1])
        problem.retriable = not problem.is_loss
        raise problem

    def _recover(self, problem: ClientError) -> Talk[None]:
        """Look for the leader again and wait a little; raise what cannot be helped."""
        self._cluster.forget_leader(self.partition)
        if isinstance(problem, OffsetOutOfRange):
            yield from self._pause(problem, SHORT_LOG_PATIENCE_MS)
        else:
            yield from self._pause(problem)

    def _wait_for_log(self, data: PartitionData) -> Talk[None]:
        bound = data.last_stable_offset if self._is_committed else data.high_watermark
        problem = OffsetOutOfRange(self.partition, self._end, data.log_start_offset, bound)
        problem.retriable = True
        yield from self._pause(problem, SHORT_LOG_PATIENCE_MS)

    def _pause(self, problem: ClientError, patience_ms: int | None = None) -> Talk[None]:
        if self._attempts is None:
            cluster = self._cluster
            self._attempts = Attempts(cluster.clock, cluster.settings, patience_ms)
        yield from self._attempts.pause(problem)

    # -- answers ------------------------------------------------------------------------------

    def _read(self, found: PartitionData) -> Chunk | None:
        """Check what came; None if there is no whole batch in it."""
        data = memoryview(found.records or b"")
        start, end = self.position, self._end
        placed, next_offset = [], start
        for position, header in record_batch.headers(data):
            if header.base_offset >= end:
                next_offset = end
                break
            if not _is_sound(data, position, header):
                raise self._damage(header)
            behind = header.base_offset + header.last_offset_delta + 1
            if behind > start:
                placed.append((position, header))
                next_offset = max(next_offset, behind)
        if next_offset == start:
            self._check_nothing(data)
            return None
        aborted = found.aborted_transactions if self._is_committed else None
        return Chunk(data, visible(data, placed, aborted), min(next_offset, end))

    def _check_nothing(self, data: memoryview) -> None:
        # The first batch is always sent whole, however large it is.
        if data:
            raise CorruptBatch(
                f"{self.partition} at offset {self.position}: what the broker sent is no record batch"
            )

    def _damage(self, header: BatchHeader) -> CorruptBatch:
        where = f"{self.partition} at offset {header.base_offset}"
        if header.magic != record_batch.MAGIC:
            return CorruptBatch(
                f"{where}: record format {header.magic}, of before Kafka 0.11, is not read here"
            )
        return CorruptBatch(f"{where}: the checksum does not match, bytes were changed on the way")


def _is_sound(data: memoryview, position: int, header: BatchHeader) -> bool:
    """Check a batch as a whole; what is in its records, who decodes them sees."""
    return (
        header.magic == record_batch.MAGIC
        and header.last_offset_delta >= 0
        and header.record_count >= 0
        and record_batch.checksum_matches(data[position:], header)
    )


def read_all(reader: RangeReader, run: Any) -> Iterator[Chunk]:  # noqa: ANN401  # a driver's run
    """Yield every chunk, with a driver that holds conversations; gives up what is under way when abandoned."""
    try:
        while (chunk := run(reader.next_chunk())) is not None:
            yield chunk
    finally:
        run(reader.close())
