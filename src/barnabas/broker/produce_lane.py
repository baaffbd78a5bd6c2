"""Produce requests that repeat: the same client, version, topic, partition and acks as before, one batch.

Job: check and append their batch, and pack the answer, instead of decoding and building the same message again and again
(see `repeats.py`). Has no rule of its own: whatever is not plain is left to the general way (`api/produce.py`).

A lane is closed by what could make the answer another one: the topic's settings changed, or the replica's tenure ended (it went offline
or away, or got another role or epoch). Other followers close it, too (`Replica`).

Invariants: the bytes answered and appended are those of the general way (a property test holds it to that).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.broker.batch_check import ZSTD_SINCE_VERSION, look_now
from barnabas.broker.repeats import may_open, open_lane
from barnabas.core.producer_state import SEQUENCE_MASK
from barnabas.wire.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    read_header,
)
from barnabas.wire.compression import Codec
from barnabas.wire.primitives import uvarint
from barnabas.wire.record_survey import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.call import Call
    from barnabas.broker.repeats import Lane, Staging
    from barnabas.broker.replicas import Replica
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.messages.produce import ProduceResponse

PRODUCE: Final = 0
_ACKS_ALL: Final = -1
#: The first version whose answer has a log start offset.
FIRST_VERSION: Final = 5
#: From this one on lengths are varints and tagged fields follow the records.
_FIRST_FLEXIBLE: Final = 9

_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
_LENGTH: Final = Struct(">i")
#: The tagged fields of partition, topic and request: none.
_NO_TAGS: Final = b"\0\0\0"
#: The numbers in an answer that differ each time. Encoding marks in their place shows where they stand.
_OFFSETS: Final = Struct(">qqq")
MARKS: Final = (0x7A7B_7C7D_0000_0001, 0x7A7B_7C7D_0000_0002, 0x7A7B_7C7D_0000_0003)
_NO_APPEND_TIME: Final = -1
_VARINT_BITS: Final = 35


class ProduceLane:
    """One partition that requests of one form go to, and what their answers look like."""

    __slots__ = (
        "_acks", "_after", "_before", "_codec_max", "_config", "_failed", "_pack", "_size", "_tail_size",
        "_tenure", "_unpacker", "target",
    )  # fmt: skip

    api_key: Final = PRODUCE

    def __init__(self, replica: Replica, call: Call, answer: bytes, failed: bytes) -> None:
        """Take apart a marked answer and one that tells of a failed write."""
        self.target = replica
        self._tenure = replica.tenure
        self._config = replica.config
        self._acks = call.request.acks
        self._unpacker = call.node.unpacker
        self._tail_size = len(_NO_TAGS) if call.version >= _FIRST_FLEXIBLE else 0
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
        return self._tenure is replica.tenure and self._config is replica.config

    def stage(
        self, view: memoryview, position: int, end: int, staging: Staging
    ) -> tuple[memoryview, BatchHeader] | None:
        """Find the batch behind its length, and check it; None if anything about it needs a closer look, or may be refused.

        One long function, because there is one call per request.
        """
        start = self._find_batch(view, position, end)
        stop = end - self._tail_size
        size = stop - start
        if size < HEADER_SIZE:
            return None
        replica, config = self.target, self._config
        header = read_header(view, start)
        (
            base_offset, length, _epoch, magic, crc, attributes, last_delta,
            base_timestamp, max_timestamp, producer_id, producer_epoch, sequence, count,
        ) = header  # fmt: skip
        if (
            self._tenure.is_over
            or replica.config is not config
            or replica.state.decide_append(self._acks, config.min_insync_replicas)
            or base_offset
            or magic != MAGIC
            or not 0 <= attributes <= self._codec_max
            or length != size - LOG_OVERHEAD
            or count != last_delta + 1
            or count <= 0
            or max_timestamp - staging.now_ms > config.message_timestamp_after_max_ms
            or size > config.max_message_bytes
            or crc32c(view[start + CRC_START : stop]) != crc
        ):
            return None
        batch = view[start:stop]
        if (
            count != 1
            or attributes
            or not 0 <= base_timestamp == max_timestamp
            or not is_plain(view, start + HEADER_SIZE, stop)
        ):
            seen = look_now(batch, header, self._unpacker)
            if seen is None or seen.latest_ms != max_timestamp or (seen.earliest_ms or 0) < 0:
                return None
        if producer_id != NO_PRODUCER_ID:
            producer, sequences = (replica, producer_id), staging.sequences
            staged = sequences.get(producer)
            if staged != (producer_epoch, sequence):
                if staged is not None:
                    staging.write()  # what came before moves the sequence by which this one is judged
                if not self._is_next(header):
                    return None
            sequences[producer] = producer_epoch, (sequence + count) & SEQUENCE_MASK
        return batch, header

    def _find_batch(self, view: memoryview, position: int, end: int) -> int:
        """Find where the records start behind their length; at the end of the frame if that is not all there is."""
        if end - position <= HEADER_SIZE:
            return end
        if self._tail_size:
            low, high = view[position], view[position + 1]
            if low < 0x80:
                length, start = low - 1, position + 1
            elif high < 0x80:
                length, start = (high << 7) + low - 0x81, position + 2
            else:
                length, start = _read_compact_length(view, position)
            stop = start + length
            # its records are not where they were before, or it has tagged fields
            if stop + 3 != end or view[stop] or view[stop + 1] or view[stop + 2]:
                return end
            return start
        (length,) = _LENGTH.unpack_from(view, position)
        start = position + _LENGTH.size
        return start if start + length == end else end

    def _is_next(self, header: BatchHeader) -> bool:
        """Tell whether a batch of an idempotent producer comes next in its sequence."""
        return (
            header.producer_id >= 0
            and header.producer_epoch >= 0
            and header.base_sequence >= 0
            and self.target.log.check_producer(header) is None
        )

    def write(self, run: list[tuple[memoryview, BatchHeader]], now_ms: int) -> list[int | None]:
        """Append to the partition; where each batch went, None if the disk failed."""
        replica = self.target
        if replica.offline:  # since it was staged
            return [None] * len(run)
        return replica.append_run(run, now_ms)

    def answer(
        self, correlation_id: int, item: tuple[memoryview, BatchHeader], outcome: int | None
    ) -> bytes:
        """Tell where the batch went, or that it could not be written."""
        replica = self.target
        metrics = replica.metrics
        metrics.produces += 1
        if outcome is None:
            metrics.failed_produces += 1
            return b"".join((self._failed[:4], _LENGTH.pack(correlation_id), self._failed[8:]))
        batch, header = item
        metrics.messages_in += header.record_count
        metrics.bytes_in += len(batch)
        return self._pack(
            self._size, correlation_id, self._before,
            outcome, _NO_APPEND_TIME, replica.log.log_start_offset, self._after,
        )  # fmt: skip


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
        may_open(call)
        and call.version >= FIRST_VERSION
        and call.request.acks != 0
        and not (call.request.acks == _ACKS_ALL and replica.state.followers)
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


def open_produce_lane(
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
    if frame[length_at:start] != length or frame[start + size :] != tail:
        return  # tagged fields that nobody sends, or bytes behind the request

    def is_open(lane: Lane) -> bool:
        return isinstance(lane, ProduceLane) and lane.is_open_to(replica)

    def make() -> Lane:
        marked, failed = (b"".join(call.encode(answer)) for answer in answers())
        return ProduceLane(replica, call, marked, failed)

    open_lane(call, length_at, is_open, make)
