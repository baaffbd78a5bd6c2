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
    from collections.abc import Callable, Iterable, Iterator

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
#: Lanes of one version that the node keeps, the oldest goes first: about 1 KB each.
LANES_MAX: Final = 16_384
#: What repeats may have this many bytes: a client id or tagged fields can be of any length, and it is kept.
PREFIX_BYTES_MAX: Final = 1024
#: Lengths of what repeats that a connection tries, one for each length of a topic's name.
LENGTHS_MAX: Final = 4

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
    """One partition that requests of one form go to, and what their answers look like."""

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

    def is_open_to(self, replica: Replica) -> bool:
        """Tell whether requests like the first one still mean this partition, with these settings."""
        return self.replica is replica and self._config is replica.config

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
    """All lanes, and the requests of a turn that went one. Their memory must stay theirs until `write`."""

    __slots__ = ("_clock", "_lanes", "_metrics", "_staged", "now_ms", "request_bytes_max")

    def __init__(self, clock: Clock, metrics: Metrics, request_bytes_max: int) -> None:
        """Start with none."""
        self._clock = clock
        self._metrics = metrics
        self.request_bytes_max = request_bytes_max
        self._staged: list[Staged] = []
        self._lanes: dict[int, dict[bytes, Lane]] = {}
        #: The time of the turn, as batches are judged by it.
        self.now_ms = 0

    def lanes(self, kind: int) -> dict[bytes, Lane]:
        """Give the lanes of one API version by what repeats in their requests: client id, topic, partition, acks.

        They are no connection's own. Once connections have principals these belong to what is looked up.
        """
        return self._lanes.setdefault(kind, {})

    def close_lanes(self, replicas: list[Replica]) -> None:
        """Let go of partitions that are here no more."""
        for lanes in self._lanes.values():
            for prefix in [prefix for prefix, lane in lanes.items() if lane.replica in replicas]:
                del lanes[prefix]

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
    """The lanes that one connection has found."""

    __slots__ = ("_by_prefix", "_kind", "_lengths", "_link", "_staging", "_tail")

    def __init__(self, link: Link, staging: Staging) -> None:
        """Start without a lane."""
        self._link = link
        self._staging = staging
        #: Key and version of the requests, and their lanes.
        self._kind = -1
        self._by_prefix: dict[bytes, Lane] = {}
        #: Where in the requests the length of the records stands.
        self._lengths: list[int] = []
        #: What stands behind the records.
        self._tail = b""

    def find(self, frame: memoryview, length_at: int) -> Lane | None:
        """Look up the lane of a request whose records' length stands there, and recognise such requests from now on."""
        (kind,) = _LENGTH.unpack_from(frame)
        if kind != self._kind:
            self._kind = kind
            self._by_prefix = self._staging.lanes(kind)
            self._lengths = []
            self._tail = _NO_TAGS if kind & 0xFFFF >= _FIRST_FLEXIBLE else b""
        if length_at + _LENGTH.size not in self._lengths:
            self._lengths = [length_at + _LENGTH.size, *self._lengths[: LENGTHS_MAX - 1]]
        return self._by_prefix.get(bytes(frame[_PREFIX_AT - _LENGTH.size : length_at]))

    def add(self, frame: memoryview, length_at: int, lane: Lane) -> None:
        """Let requests that are the same up to the length of their records go this lane."""
        lanes = self._by_prefix
        if len(lanes) >= LANES_MAX:
            del lanes[next(iter(lanes))]
        lanes[bytes(frame[_PREFIX_AT - _LENGTH.size : length_at])] = lane

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
        if end - position <= _PREFIX_AT:
            return None
        size, kind, correlation_id = _HEAD(view, position)
        frame_end = position + 4 + size
        if kind != self._kind or frame_end > end or size > self._staging.request_bytes_max:
            return None
        for length in self._lengths:
            length_at = position + length
            lane = self._by_prefix.get(bytes(view[position + _PREFIX_AT : length_at]))
            if lane is not None:
                break
        else:
            return None
        if frame_end - length_at <= HEADER_SIZE:
            return None
        if self._tail:
            length, start = _read_compact_length(view, length_at)
        else:
            (length,) = _LENGTH.unpack_from(view, length_at)
            start = length_at + _LENGTH.size
        stop = start + length
        tail = self._tail
        if (
            length < HEADER_SIZE
            or stop + len(tail) != frame_end
            or bytes(view[stop:frame_end]) != tail
        ):
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
    call: Call, replica: Replica, size: int, answers: Callable[[], Iterable[ProduceResponse]]
) -> None:
    """Let the next requests that are like this one, whose records have this size, go a lane.

    `answers` makes the answer to it with MARKS for the offsets, and the one for a disk that failed.
    """
    frame = call.frame
    length, tail = _LENGTH.pack(size), b""
    if call.version >= _FIRST_FLEXIBLE:
        length, tail = uvarint(size + 1), _NO_TAGS
    start = len(frame) - len(tail) - size
    length_at = start - len(length)
    if length_at > PREFIX_BYTES_MAX:
        return
    if frame[length_at:start] != length or frame[start + size :] != tail:
        return  # tagged fields that nobody sends, or bytes behind the request
    lanes = call.link.lanes
    if lanes is None:
        lanes = call.link.lanes = ProduceLanes(call.link, call.node.staging)
    lane = lanes.find(frame, length_at)
    if lane is None or not lane.is_open_to(replica):
        marked, failed = (b"".join(call.encode(answer)) for answer in answers())
        lanes.add(frame, length_at, Lane(replica, call, marked, failed))
