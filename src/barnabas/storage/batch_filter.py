"""What of a batch survives compaction, and the bytes that are written in its place.

Job: Kafka's rules for one batch at a time, in the order of the log. Must not know files or segments.

| batch                             | its records                                                             |
|-----------------------------------|-------------------------------------------------------------------------|
| of an aborted transaction         | all go                                                                  |
| marker                            | goes once nothing of its transaction is left and its delete horizon has passed |
| any other                         | one goes if it has no key, if a later one has its key, or if it is a tombstone whose delete horizon has passed; above the mapped offsets all stay |

A batch without records goes, unless it is the last one of an active producer, whose sequence it carries, or the last
one of its new segment, which so ends where the old ones did. Then its header stays. A batch of which all records
stay is written as it is; of others, base offset, last offset, producer and codec stay.

Delete horizon (KIP-534): the first time that a batch is seen whose tombstones, or whose marker, will go, the time after
which they may is put in its header: an attribute, and the base timestamp. The timestamps of its records count from there.

Batches must have a right checksum when they come here: a damaged one would get a good one.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from barnabas.storage.offset_map import ALIVE, TOMBSTONE
from barnabas.storage.record_bytes import read_keys, select, select_shifted
from barnabas.storage.segment import MAX_UNPACKED_BYTES
from barnabas.wire.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchError,
)
from barnabas.wire.compression import Codec, Unpacker, compress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.storage.cleaner_transactions import CleanedTransactions
    from barnabas.storage.offset_map import OffsetMap
    from barnabas.wire.batch import BatchHeader

_HEADER: Final = Struct(">qiibIhiqqqhii")
_CRC: Final = Struct(">I")
#: By fate, whether a record stays while tombstones do, and when they do not.
_KEEP: Final = bytes(int(fate in (ALIVE, TOMBSTONE)) for fate in range(256))
_KEEP_VALUES: Final = bytes(int(fate == ALIVE) for fate in range(256))


class LastBatch(NamedTuple):
    """What of an active producer must stay: its batch that ends at `offset`, or markers of `epoch` if that is -1."""

    offset: int
    epoch: int


class Kept(NamedTuple):
    """What is written of a batch."""

    data: bytes | bytearray | memoryview
    max_timestamp: int
    record_count: int


class BatchFilter:
    """The rules of one cleaning. `keep` is called for every batch in turn."""

    __slots__ = (
        "_delete_retention_ms",
        "_map",
        "_now_ms",
        "_producers",
        "_transactions",
        "_unpacker",
    )

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastBatch],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """Take what the cleaning goes by; the map is complete."""
        self._map = offset_map
        self._transactions = transactions
        self._producers = producers
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._unpacker = Unpacker()

    def keep(self, data: bytes, start: int, header: BatchHeader, *, is_last: bool) -> Kept | None:
        """Return what is written of the batch at `start` of the data; None if nothing is.

        `is_last` says that it is the last one of its new segment.
        """
        if header.is_control:
            kept = self._keep_marker(data, start, header)
        elif self._transactions.is_aborted(header):
            kept = None
        else:
            kept = self._keep_records(data, start, header)
        if kept is None and (is_last or self._is_last_of_producer(header)):
            return _emptied(header)
        return kept

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch

    def _horizon_has_passed(self, header: BatchHeader) -> bool:
        """Tell whether what is to be deleted may go now: never in a batch that was not marked before."""
        return bool(header.attributes & DELETE_HORIZON) and header.base_timestamp <= self._now_ms

    def _keep_marker(self, data: bytes, start: int, header: BatchHeader) -> Kept | None:
        key = None
        if header.record_count:
            content, position = self._open(data, start, header)
            key = read_keys(content, position, 1)[0][0]
        is_needless = self._transactions.is_needless(header, key)
        if not header.record_count or (is_needless and self._horizon_has_passed(header)):
            return None
        if is_needless and not header.attributes & DELETE_HORIZON:
            return self._rewrite(data, start, header, b"\1" * header.record_count, mark=True)
        return _whole(data, start, header)

    def _keep_records(self, data: bytes, start: int, header: BatchHeader) -> Kept | None:
        count, offset_map = header.record_count, self._map
        if not count:
            return None
        if header.base_offset >= offset_map.end_offset:
            return _whole(data, start, header)
        if (
            header.base_offset >= offset_map.first_offset
            and header.last_offset < offset_map.end_offset
            and header.last_offset_delta == count - 1
        ):
            fates = offset_map.fates_of(header.base_offset, header.last_offset)
            alive, tombstones = fates.count(ALIVE), fates.count(TOMBSTONE)
            if alive == count:
                return _whole(data, start, header)
            if tombstones and self._horizon_has_passed(header):
                tombstones = 0
                kept: Sequence[int] = fates.translate(_KEEP_VALUES)
            else:
                kept = fates.translate(_KEEP)
        else:
            kept, alive, tombstones = self._look_up(data, start, header)
        mark = tombstones > 0 and not header.attributes & DELETE_HORIZON
        if alive + tombstones == 0:
            return None
        if alive + tombstones == count and not mark:
            return _whole(data, start, header)
        return self._rewrite(data, start, header, kept, mark=mark)

    def _look_up(
        self, data: bytes, start: int, header: BatchHeader
    ) -> tuple[Sequence[int], int, int]:
        """Decide over each record by its key: which stay, how many with a value, how many without."""
        content, position = self._open(data, start, header)
        keys, deltas, nulls = read_keys(content, position, header.record_count)
        without_value = set(nulls)
        drops_tombstones = self._horizon_has_passed(header)
        end_offset, base_offset = self._map.end_offset, header.base_offset
        latest = self._map.latest([key or b"" for key in keys])
        kept = bytearray(len(keys))
        tombstones = 0
        for number, (key, delta, found) in enumerate(zip(keys, deltas, latest, strict=True)):
            offset = base_offset + delta
            if offset < end_offset and (
                key is None or found > offset or (drops_tombstones and number in without_value)
            ):
                continue
            kept[number] = 1
            tombstones += number in without_value
        return kept, sum(kept) - tombstones, tombstones

    def _open(self, data: bytes, start: int, header: BatchHeader) -> tuple[bytes, int]:
        """Return the content of a batch, and where in it the records begin."""
        return open_content(data, start, header, self._unpacker)

    def _rewrite(
        self, data: bytes, start: int, header: BatchHeader, kept: Sequence[int], *, mark: bool
    ) -> Kept:
        content, position = self._open(data, start, header)
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if mark:
            base_timestamp = self._now_ms + self._delete_retention_ms
            attributes |= DELETE_HORIZON
            shift = header.base_timestamp - base_timestamp
            pieces, largest = select_shifted(content, position, kept, shift)
        else:
            pieces, largest = select(content, position, kept)
        max_timestamp = (
            header.max_timestamp if attributes & LOG_APPEND_TIME else base_timestamp + largest
        )
        codec = Codec(header.codec)
        parts: list[bytes | memoryview] = [*pieces]
        if codec:
            parts = [compress(codec, b"".join(pieces))]
        record_count = sum(kept)
        again = header._replace(
            attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp,
            record_count=record_count,
        )  # fmt: skip
        return Kept(_assemble(again, parts), max_timestamp, record_count)


def open_content(
    data: bytes, start: int, header: BatchHeader, unpacker: Unpacker
) -> tuple[bytes, int]:
    """Return a batch's content and where in it the records begin; BatchError if it does not unpack."""
    if not header.codec:
        return data, start + HEADER_SIZE
    packed = memoryview(data)[start + HEADER_SIZE : start + header.size]
    try:
        return unpacker.unpack(Codec(header.codec), packed, MAX_UNPACKED_BYTES), 0
    except ValueError as problem:  # also a codec that nobody knows
        raise BatchError(f"the batch at offset {header.base_offset}: {problem}") from None


def _whole(data: bytes, start: int, header: BatchHeader) -> Kept:
    batch = memoryview(data)[start : start + header.size]
    return Kept(batch, header.max_timestamp, header.record_count)


def _emptied(header: BatchHeader) -> Kept:
    """Make the header of a batch without records, as Kafka leaves it."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    again = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return Kept(_assemble(again, []), header.max_timestamp, 0)


def _assemble(header: BatchHeader, parts: Sequence[bytes | memoryview]) -> bytearray:
    """Put a header that has everything right but length and checksum before its records."""
    batch = bytearray(HEADER_SIZE)
    batch += b"".join(parts)
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD, crc=0))
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return batch
