"""Record batches, format version 2: what is in the log and on the wire, byte for byte.

The broker's way through here is per batch: `read_header` and `checksum_matches` look at 61 bytes and
one checksum, `stamp` patches the two fields that lie outside the checksum. `records_fit` and its like step over records by their
lengths, which is enough for what is in the log; what a producer's records must be is told by `record_survey`. Decoding records is
for who needs their contents. Nothing here knows about requests, files or topics.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from barnabas.wire.compression import Codec, compress, decompress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from barnabas.wire.compression import Bytes

MAGIC: Final = 2
HEADER_SIZE: Final = 61
#: base offset and length: what stands before the counted bytes.
LOG_OVERHEAD: Final = 12
#: Where the checksummed bytes start: the attributes.
CRC_START: Final = 21
#: Where the checksum stands, and the base and max timestamps.
CRC_AT: Final = 17
TIMESTAMPS_AT: Final = 27
#: A record without key, value and headers: length, attributes, two deltas, two lengths, a count.
MIN_RECORD_SIZE: Final = 7

#: Records compared at once when a run of equal lengths is likely, and when one has just been that long.
RUN_FIRST: Final = 128
RUN_MAX: Final = 1024
#: From this length on a run is quicker than so many steps.
RUN_WORTH: Final = 16
#: Bytes of a length prefix: five hold 32 bits.
_PREFIX_MAX: Final = 5
_NO_END: Final = 0x7FFFFFFFFFFFFFFF

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
#: What Kafka leaves of a header that it writes anew.
_KNOWN_ATTRIBUTES: Final = 0x7F

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STAMP: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES_TO_TIMES: Final = struct.Struct(">hiqq")


#: What `BatchHeader._make` does, without its look at the number of fields: the format gives as many.
_new: Final = tuple.__new__


class BatchHeader(NamedTuple):
    """The fixed part of a batch. `batch_length` counts the bytes after itself."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Number of the compression codec, as it stands in the attributes."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Tell whether it holds markers and no records of a user."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Tell whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)


class BatchError(ValueError):
    """Bytes that are no batch."""


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the 61 bytes at `position`; BatchError if there are fewer."""
    try:
        return _new(BatchHeader, _HEADER.unpack_from(data, position))
    except struct.error:
        raise BatchError(f"a batch header needs {HEADER_SIZE} bytes") from None


def checksum_matches(batch: memoryview, header: BatchHeader) -> bool:
    """Check the CRC-32C of a batch that is there whole."""
    return crc32c(batch[CRC_START : header.batch_length + LOG_OVERHEAD]) == header.crc


def stamp(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch in place; neither is under the checksum."""
    _STAMP.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, 12, leader_epoch)


def stamp_append_time(batch: memoryview, header: BatchHeader, append_time_ms: int) -> BatchHeader:
    """Turn a batch to LogAppendTime in place, checksum anew. Records keep their deltas, as in Kafka."""
    return _stamp_times(batch, header, header.attributes | LOG_APPEND_TIME, append_time_ms)


def stamp_create_time(batch: memoryview, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Turn a batch to CreateTime in place, with this as its largest timestamp, checksum anew."""
    return _stamp_times(batch, header, header.attributes & ~LOG_APPEND_TIME, max_timestamp)


def _stamp_times(
    batch: memoryview, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    attributes &= _KNOWN_ATTRIBUTES
    _ATTRIBUTES_TO_TIMES.pack_into(
        batch,
        CRC_START,
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        max_timestamp,
    )
    crc = crc32c(batch[CRC_START : header.size])
    _CRC.pack_into(batch, 17, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def headers(data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch; a partial one at the end is left out."""
    position, end = 0, len(data)
    while position + HEADER_SIZE <= end:
        header = read_header(data, position)
        behind = position + header.batch_length + LOG_OVERHEAD
        if behind < position + HEADER_SIZE or behind > end:
            return
        yield position, header
        position = behind


def records_fit(batch: memoryview, header: BatchHeader) -> bool:
    """Tell whether an uncompressed batch holds exactly the records that its header counts."""
    end = header.size
    return _step_over(batch, HEADER_SIZE, end, end, header.record_count) == (end, 0)


def content_fits(content: Bytes, count: int) -> bool:
    """Tell whether what a compressed batch holds is exactly `count` records."""
    end = len(content)
    return _step_over(memoryview(content), 0, end, end, count) == (end, 0)


def pieces_fit(pieces: Iterable[Bytes], count: int) -> bool:
    """Tell whether what a compressed batch holds, in pieces cut anywhere, is exactly `count` records."""
    skip, carried = 0, b""
    for piece in pieces:
        data = memoryview(carried + piece if carried else piece)
        end = len(data)
        # A length prefix that may go on in the next piece is read there.
        position, count = _step_over(data, skip, end - _PREFIX_MAX + 1, _NO_END, count)
        if position < 0 or (not count and position < end):
            return False
        skip = max(position - end, 0)
        carried = bytes(data[position:])
    end = len(carried)
    return _step_over(memoryview(carried), skip, end, end, count) == (end, 0)


def _step_over(data: memoryview, position: int, stop: int, end: int, left: int) -> tuple[int, int]:
    """Step over `left` records by their length prefixes, but over none that starts at `stop` or later.

    Returns the position after the last one and how many are left; -1 for a position where no record can be, or a
    record that goes beyond `end`. Where two of the same length follow each other, more are likely to: a run of them is
    compared in one go, which is ten times quicker than a step each. Where runs turn out short, it takes more of the
    same length to look for one again.
    """
    before, alike, alike_needed, reach = -1, 0, 1, RUN_FIRST
    try:
        while left > 0 and position < stop:
            start, length = position, data[position]
            position += 1
            if length >= 0x80:
                length, position = _long_varint(data, position, length)
            if length & 1 or length < 2 * (MIN_RECORD_SIZE - 1):
                return -1, left  # negative, or too short for a record
            position += length >> 1
            if position > end:
                return -1, left
            left -= 1
            if length != before:
                before, alike = length, 0
                continue
            alike += 1
            if alike >= alike_needed and left:
                run = _count_run(data, start, position, min(left, reach))
                left -= run
                position += run * (position - start)
                before = -1
                alike_needed = 1 if run >= RUN_WORTH else min(2 * alike_needed, RUN_WORTH)
                reach = RUN_MAX if run == reach else RUN_FIRST
    except (IndexError, BatchError):
        return -1, left
    return position, left


def _count_run(batch: memoryview, start: int, stop: int, most: int) -> int:
    """Count the records from `stop` on whose length prefixes are those of the record in [start, stop)."""
    size = stop - start
    run = most
    for column in range(_PREFIX_MAX):
        byte = batch[start + column]
        found = bytes(batch[stop + column : stop + column + most * size : size])
        run = min(run, len(found) - len(found.lstrip(bytes((byte,)))))
        if byte < 0x80:
            return run
    return 0


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(batch: memoryview, limit_bytes: int) -> list[Record]:
    """Decode all records of one whole batch; at most `limit_bytes` once decompressed."""
    return list(walk_records(batch, limit_bytes))


def walk_records(batch: memoryview, limit_bytes: int) -> Iterator[Record]:
    """Decode the records of one whole batch one by one: for who may stop early, or wants no list."""
    header = read_header(batch)
    payload: Bytes = batch[HEADER_SIZE : header.size]
    if header.codec:
        payload = decompress(Codec(header.codec), payload, limit_bytes)
    return walk_content(payload, header)


def walk_content(content: Bytes, header: BatchHeader) -> Iterator[Record]:
    """Decode the records of a batch whose content is unpacked already."""
    data, position = memoryview(content), 0
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    for _ in range(header.record_count):
        try:
            record, position = _read_record(data, position, header, append_time)
        except IndexError as problem:
            raise BatchError(f"a record is cut short or malformed: {problem}") from None
        yield record
    if position != len(data):
        raise BatchError(f"{len(data) - position} bytes after the last record")


def _read_record(
    data: memoryview, position: int, header: BatchHeader, append_time: int | None
) -> tuple[Record, int]:
    length, position = read_varint(data, position)
    end = position + length
    if length < MIN_RECORD_SIZE - 1 or end > len(data):
        raise BatchError(f"a record of {length} bytes does not fit its batch")
    timestamp_delta, position = read_varint(data, position + 1)
    offset_delta, position = read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise BatchError(f"a record claims {count} headers")
    pairs = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise BatchError("a header without a name")
        content, position = _read_bytes(data, position, end)
        pairs.append((name.decode(errors="replace"), content))  # as Java's consumer does
    if position != end:
        raise BatchError("a record's length contradicts its fields")
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(pairs)), end


def _read_bytes(data: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise BatchError(f"a field of {length} bytes does not fit its record")
    return bytes(data[position : position + length]), position + length


class Producer(NamedTuple):
    """Who wrote a batch, and its place in that producer's sequence."""

    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


_NO_PRODUCER: Final = Producer()


def build(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    attributes: int = 0,
    producer: Producer = Producer(),  # noqa: B008  (immutable)
    leader_epoch: int = -1,
) -> bytearray:
    """Encode a batch: offsets of the records count from the first one's."""
    assert records, "a batch holds at least one record"
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    payload = bytearray()
    for record in records:
        body = _record_body(record, base_offset, base_timestamp)
        write_varint(payload, len(body))
        payload += body
    packed: Bytes = compress(codec, payload) if codec else payload
    batch = bytearray(HEADER_SIZE)
    batch += packed
    _HEADER.pack_into(
        batch, 0,
        base_offset, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC, 0,
        attributes | codec, records[-1].offset - base_offset, base_timestamp,
        max(record.timestamp for record in records),
        producer.id, producer.epoch, producer.base_sequence, len(records),
    )  # fmt: skip
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def build_pairs(
    pairs: Iterable[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    codec: Codec = Codec.NONE,
    producer: Producer | None = None,
) -> tuple[memoryview, BatchHeader]:
    """Encode keys and values, all of one time, as one batch ready to append; give its header too.

    With a producer the batch is part of its transaction.
    """
    payload = bytearray()
    count = 0
    for key, value in pairs:
        body = bytearray(b"\0\0")  # no attributes, the batch's own timestamp
        write_varint(body, count)
        write_varint(body, len(key))
        body += key
        if value is None:
            body.append(1)  # a length of -1: a tombstone
        else:
            write_varint(body, len(value))
            body += value
        body.append(0)  # no headers
        write_varint(payload, len(body))
        payload += body
        count += 1
    return put_head(payload, count, timestamp_ms, codec, producer)


def put_head(
    payload: Bytes,
    record_count: int,
    timestamp_ms: int,
    codec: Codec = Codec.NONE,
    producer: Producer | None = None,
) -> tuple[memoryview, BatchHeader]:
    """Make a batch of records that are encoded already, all of one time and numbered from 0; give its header too."""
    packed: Bytes = compress(codec, payload) if codec else payload
    length = len(packed) + HEADER_SIZE - LOG_OVERHEAD
    last = record_count - 1
    attributes = int(codec)
    if producer is None:
        producer = _NO_PRODUCER
    else:
        attributes |= TRANSACTIONAL
    batch = bytearray(HEADER_SIZE)
    batch += packed
    _HEADER.pack_into(
        batch, 0,
        0, length, -1, MAGIC, 0, attributes, last, timestamp_ms, timestamp_ms, *producer, record_count,
    )  # fmt: skip
    view = memoryview(batch)
    crc = crc32c(view[CRC_START:])
    _CRC.pack_into(batch, CRC_AT, crc)
    header = BatchHeader(
        0, length, -1, MAGIC, crc, attributes, last, timestamp_ms, timestamp_ms, *producer, record_count,
    )  # fmt: skip
    return view, header


def seal(content: Bytes, header: BatchHeader) -> bytearray:
    """Put a header before content that is packed already; its length and checksum are worked out here."""
    batch = bytearray(HEADER_SIZE)
    batch += content
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def repack(batch: memoryview, content: Bytes, codec: Codec, level: int | None = None) -> bytearray:
    """Encode a batch again whose content is unpacked, with another codec; everything else stays as it was."""
    again = bytearray(batch[:HEADER_SIZE])
    again += compress(codec, content, level) if codec else content
    (attributes,) = struct.unpack_from(">h", again, CRC_START)
    struct.pack_into(">i", again, 8, len(again) - LOG_OVERHEAD)
    kept = attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    struct.pack_into(">h", again, CRC_START, kept | codec)
    _CRC.pack_into(again, CRC_AT, crc32c(memoryview(again)[CRC_START:]))
    return again


def _record_body(record: Record, base_offset: int, base_timestamp: int) -> bytearray:
    body = bytearray(b"\0")
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, content in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, content)
    return body


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(content))
        out += content


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag varint (or varlong: the bytes are the same)."""
    rest = (value << 1) ^ (value >> 63)
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def read_varint(data: Bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint or varlong: (value, position after it)."""
    raw = data[position]
    position += 1
    if raw >= 0x80:
        raw, position = _long_varint(data, position, raw)
    return (raw >> 1) ^ -(raw & 1), position


def _long_varint(data: Bytes, position: int, first: int) -> tuple[int, int]:
    raw, shift = first & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
        if shift > 63:
            raise BatchError("a varint longer than ten bytes")
