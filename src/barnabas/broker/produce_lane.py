"""Produce requests that repeat: the same client, version, topic, partition and acks as before, one batch.

Job: handle them by what differs (correlation id and batch) instead of decoding and building the same message again and
again. A producer without linger sends nothing else, and there the general way (`api/produce.py`) costs several times what
the append itself does (docs/adr/0004). Must not know sockets, and has no rule of its own: whatever is
not plain, or would be refused, is left to the general way, untouched.

A lane is opened by a request that the general way has just answered well. It is closed by what could make the answer
another one: the topic's settings changed, the partition went offline or away.

What went a lane is staged and written at the end of the turn, or before anything that must not overtake it: so the
batches of one turn for one partition leave with one system call, on however many connections they came.

Invariants: the bytes answered and appended are those of the general way (a property test holds it to that); requests of one
connection are answered and appended in order; nothing is answered before it is written.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.broker.batch_check import ZSTD_SINCE_VERSION, fits_now
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    read_header,
    records_fit,
)
from barnabas.wire.compression import Codec
from barnabas.wire.primitives import uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.call import Call
    from barnabas.broker.metrics import Metrics
    from barnabas.broker.replicas import Replica
    from barnabas.ports import Clock, Link
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.messages.produce import ProduceResponse

PRODUCE: Final = 0
#: The first version whose answer has a log start offset.
FIRST_VERSION: Final = 5
#: From this one on lengths are varints and tagged fields follow the records.
_FIRST_FLEXIBLE: Final = 9
#: Partitions that one connection writes to in turns; more go the general way.
LANES_MAX: Final = 256

_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
#: A frame's length, key and version, correlation id; then comes what repeats.
_HEAD: Final = Struct(">iii").unpack_from
_PREFIX_AT: Final = 12
_LENGTH: Final = Struct(">i")
#: The tagged fields of partition, topic and request: none.
_NO_TAGS: Final = b"\0\0\0"
#: The numbers in an answer that differ each time. Encoding marks in their place shows where they stand.
_OFFSETS: Final = Struct(">qqq")
MARKS: Final = (0x7A7B_7C7D_0000_0001, 0x7A7B_7C7D_0000_0002, 0x7A7B_7C7D_0000_0003)
_NO_APPEND_TIME: Final = -1
_VARINT_BITS: Final = 35


class Lane:
    """One partition that a connection produces to, and what its answers look like."""

    __slots__ = (
        "_acks", "_after", "_before", "_codec_max", "_config", "_failed", "_pack", "_size", "_unpacker", "replica",
    )  # fmt: skip

    def __init__(self, replica: Replica, call: Call, answer: bytes, failed: bytes) -> None:
        """Take apart a marked answer and one that tells of a failed write."""
        self.replica = replica
        self._config = replica.config
        self._acks = call.request.acks
        self._unpacker = call.node.unpacker
        #: The attributes are a codec's number and nothing else.
        self._codec_max = Codec.ZSTD if call.version >= ZSTD_SINCE_VERSION else Codec.LZ4
        offsets_at = answer.index(_OFFSETS.pack(*MARKS))
        self._size = answer[:4]
        self._before = answer[8:offsets_at]
        self._after = answer[offsets_at + _OFFSETS.size :]
        self._pack: Callable[..., bytes] = Struct(
            f">4si{len(self._before)}sqqq{len(self._after)}s"
        ).pack
        self._failed = failed

    def answer(self, correlation_id: int, appended: int | ErrorCode) -> bytes:
        """Tell where the batch went, or that it could not be written."""
        if isinstance(appended, ErrorCode):
            return b"".join((self._failed[:4], _LENGTH.pack(correlation_id), self._failed[8:]))
        log_start_offset = self.replica.log.log_start_offset
        return self._pack(
            self._size, correlation_id, self._before,
            appended, _NO_APPEND_TIME, log_start_offset, self._after,
        )  # fmt: skip

    def check(self, batch: memoryview, now_ms: int) -> BatchHeader | None:
        """Check a batch; None if anything about it needs a closer look, or may be refused."""
        replica, config = self.replica, self._config
        header = read_header(batch)
        (
            base_offset, length, _epoch, magic, crc, attributes, last_delta,
            base_timestamp, max_timestamp, _producer_id, _producer_epoch, _sequence, count,
        ) = header  # fmt: skip
        if (
            replica.offline
            or replica.config is not config
            or replica.state.decide_append(self._acks, config.min_insync_replicas)
            or base_offset
            or magic != MAGIC
            or attributes > self._codec_max
            or attributes < 0
            or length != len(batch) - LOG_OVERHEAD
            or count != last_delta + 1
            or count <= 0
            or base_timestamp < -1
            or max_timestamp < -1
            or max_timestamp - now_ms > config.message_timestamp_after_max_ms
            or len(batch) > config.max_message_bytes
            or crc32c(batch[CRC_START:]) != crc
            or not (
                fits_now(batch, header, self._unpacker)
                if attributes
                else records_fit(batch, header)
            )
        ):
            return None
        return header

    def is_next(self, header: BatchHeader) -> bool:
        """Tell whether a batch of an idempotent producer comes next in its sequence."""
        return (
            header.producer_id >= 0
            and header.producer_epoch >= 0
            and header.base_sequence >= 0
            and self.replica.log.check_producer(header) is None
        )


#: A request that was recognised and checked, and whose answer waits for its batch to be written: a plain tuple,
#: because there is one per request.
Staged = tuple["Link", Lane, int, memoryview, "BatchHeader"]


class Staging:
    """The requests of a turn that went a lane. Their memory must stay theirs until `write`."""

    __slots__ = ("_clock", "_metrics", "_staged", "now_ms")

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        """Start with none."""
        self._clock = clock
        self._metrics = metrics
        self._staged: list[Staged] = []
        #: The time of the turn, as batches are judged by it.
        self.now_ms = 0

    def begin(self) -> None:
        """Look at the clock before the first of several requests."""
        if not self._staged:
            self.now_ms = self._clock.now_ms()

    def add(self, staged: Staged) -> None:
        """Have one more written with the others."""
        self._staged.append(staged)

    def write(self) -> None:
        """Write what came for each partition, with one call if that can be, then answer in the order of the requests."""
        staged, self._staged = self._staged, []
        if not staged:
            return
        self._metrics.requests[PRODUCE] += len(staged)
        runs: dict[Replica, list[tuple[memoryview, BatchHeader]]] = {}
        for _, lane, _, batch, header in staged:
            runs.setdefault(lane.replica, []).append((batch, header))
        outcomes = {replica: self._append(replica, run) for replica, run in runs.items()}
        link = staged[0][0]
        answers: list[bytes] = []
        for this_link, lane, correlation_id, _, _ in staged:
            if this_link is not link:
                link.reply_repeated(b"".join(answers))
                link, answers = this_link, []
            answers.append(lane.answer(correlation_id, next(outcomes[lane.replica])))
        link.reply_repeated(b"".join(answers))

    def _append(
        self, replica: Replica, run: list[tuple[memoryview, BatchHeader]]
    ) -> Iterator[int | ErrorCode]:
        """Append to one partition; where each batch went, or why not."""
        metrics = replica.metrics
        metrics.produces += len(run)
        if replica.offline:  # since it was staged
            outcomes: list[int | ErrorCode] = [ErrorCode.KAFKA_STORAGE_ERROR] * len(run)
        else:
            outcomes = replica.append_run(run, self.now_ms)
        for (batch, header), outcome in zip(run, outcomes, strict=True):
            if isinstance(outcome, ErrorCode):
                metrics.failed_produces += 1
            else:
                metrics.messages_in += header.record_count
                metrics.bytes_in += len(batch)
        return iter(outcomes)


class ProduceLanes:
    """The lanes of one connection."""

    __slots__ = ("_by_prefix", "_kind", "_length_at", "_link", "_staging", "_tail")

    def __init__(self, link: Link, staging: Staging) -> None:
        """Start without a lane."""
        self._link = link
        self._staging = staging
        self._by_prefix: dict[bytes, Lane] = {}
        #: Key and version of the requests, and where in them the length of the records stands.
        self._kind = self._length_at = -1
        #: What stands behind the records.
        self._tail = b""

    def add(self, frame: memoryview, length_at: int, lane: Lane) -> None:
        """Recognise requests that are the same up to the length of their records."""
        (kind,) = _LENGTH.unpack_from(frame)
        length_at += _LENGTH.size  # from here on the frame's own length counts
        is_new = kind != self._kind or length_at != self._length_at
        if is_new or len(self._by_prefix) >= LANES_MAX:
            self._by_prefix.clear()
            self._kind, self._length_at = kind, length_at
            self._tail = _NO_TAGS if kind & 0xFFFF >= _FIRST_FLEXIBLE else b""
        self._by_prefix[bytes(frame[_PREFIX_AT - _LENGTH.size : length_at - _LENGTH.size])] = lane

    def take(self, view: memoryview, position: int, end: int) -> int:
        """Stage the requests from `position` on as long as they repeat; return where they end.

        Their answers come by `Link.reply_repeated` when what is staged is written: that must be before another request of
        this link is handled, and before the memory is used again.
        """
        staging = self._staging
        staging.begin()
        while (found := self._find(view, position, end)) is not None:
            staged, position_after = found
            _, lane, _, _, header = staged
            if header.producer_id != NO_PRODUCER_ID:
                staging.write()  # what came before moves the sequence by which this one is judged
                if not lane.is_next(header):
                    break
            staging.add(staged)
            position = position_after
        return position

    def _find(self, view: memoryview, position: int, end: int) -> tuple[Staged, int] | None:
        """Find a request that repeats, whole, at this position, and check it; where it ends."""
        length_at = position + self._length_at
        if end - length_at <= HEADER_SIZE:
            return None
        size, kind, correlation_id = _HEAD(view, position)
        frame_end = position + 4 + size
        if kind != self._kind or frame_end > end:
            return None
        lane = self._by_prefix.get(bytes(view[position + _PREFIX_AT : length_at]))
        if lane is None:
            return None
        if self._tail:
            length, start = _read_compact_length(view, length_at)
        else:
            (length,) = _LENGTH.unpack_from(view, length_at)
            start = length_at + _LENGTH.size
        stop = start + length
        if length < HEADER_SIZE or bytes(view[stop:frame_end]) != self._tail:
            return None  # its records are not where they were before
        batch = view[start:stop]
        header = lane.check(batch, self._staging.now_ms)
        return (
            None
            if header is None
            else ((self._link, lane, correlation_id, batch, header), frame_end)
        )


def _read_compact_length(view: memoryview, position: int) -> tuple[int, int]:
    """Read a length as flexible versions have it, one more than it is, and where it ends."""
    value, shift = 0, 0
    while shift < _VARINT_BITS:
        byte = view[position]
        position += 1
        if byte < 0x80:
            return value + (byte << shift) - 1, position
        value += (byte & 0x7F) << shift
        shift += 7
    return -1, position


def may_repeat(call: Call, replica: Replica, header: BatchHeader) -> bool:
    """Tell whether requests like this one, which was taken, can go a lane: plain bytes into a plain topic."""
    config, topics = replica.config, call.request.topic_data
    return (
        call.version >= FIRST_VERSION
        and call.request.acks != 0
        and not header.attributes & ~CODEC_MASK
        and len(topics) == 1
        and len(topics[0].partition_data) == 1
        and config.flush_messages == _UNLIMITED
        and config.message_timestamp_before_max_ms == _UNLIMITED
        and config.compression_type == "producer"
        and not config.compact
        and not config.log_append_time
        and not replica.topic.is_internal
    )


def open_lane(
    call: Call, replica: Replica, size: int, marked: ProduceResponse, failed: ProduceResponse
) -> None:
    """Let the next requests of this connection that are like this one go a lane.

    `size` is that of its records, `marked` its answer with MARKS for the offsets, `failed` the one for a disk that failed.
    """
    frame = call.frame
    length, tail = _LENGTH.pack(size), b""
    if call.version >= _FIRST_FLEXIBLE:
        length, tail = uvarint(size + 1), _NO_TAGS
    start = len(frame) - len(tail) - size
    length_at = start - len(length)
    if frame[length_at:start] != length or frame[start + size :] != tail:
        return  # tagged fields that nobody sends, or bytes behind the request
    lanes = call.link.lanes
    if lanes is None:
        lanes = call.link.lanes = ProduceLanes(call.link, call.node.staging)
    answers = (b"".join(call.encode(answer)) for answer in (marked, failed))
    lanes.add(frame, length_at, Lane(replica, call, *answers))
