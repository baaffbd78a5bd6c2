"""Batches with a right header and a right checksum, whose content is another matter.

Each lie is made for each codec. What Apache Kafka 4.3.1 does with them was asked with tests/compat/test_same_answers.py.
"""

import struct

import zstandard
from crc32c import crc32c

from barnabas.wire import batch as batches
from barnabas.wire.batch import HEADER_SIZE, LOG_OVERHEAD, Record
from barnabas.wire.compression import Codec, compress

NOW_MS = 1_700_000_000_000
CODECS = [codec for codec in Codec if codec]
COUNT = 3


def content_of(count=COUNT, size=20):
    """The records of a batch, not compressed."""
    records = [Record(i, NOW_MS, b"k", b"v" * size) for i in range(count)]
    return bytes(batches.build(records)[HEADER_SIZE:])


CONTENT = content_of()
#: One record of it: all are of the same size.
SIZE = len(CONTENT) // COUNT


def batch_of(codec, packed, count=COUNT):
    """A batch around bytes that are said to be compressed records."""
    template = batches.build([Record(i, NOW_MS, b"k", b"v") for i in range(count)], codec=codec)
    data = template[:HEADER_SIZE] + packed
    struct.pack_into(">i", data, 8, len(data) - LOG_OVERHEAD)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[batches.CRC_START :])))
    return bytes(data)


def with_length(index, change):
    """The content with another length before one of its records."""
    data = bytearray(CONTENT)
    data[index * SIZE] += 2 * change
    return bytes(data)


#: What is compressed is not what the header says.
INSIDE = {
    "a record more": content_of(COUNT + 1),
    "a record fewer": content_of(COUNT - 1),
    "nothing": b"",
    "a byte behind the last record": CONTENT + b"\0",
    "zeros behind the last record": CONTENT + bytes(40),
    "cut in the last record": CONTENT[:-3],
    "cut behind a length": CONTENT[: 2 * SIZE + 1],
    "a length of 2^34": b"\xff\xff\xff\xff\xff\x01" + CONTENT,
    "text": b"this is no record at all, and was never meant to be one",
}
#: As above, but Apache Kafka reads the fields of compressed records without their lengths and takes it. Its consumer does not.
LENGTHS = {
    "a length too large": with_length(1, 5),
    "a length too small": with_length(1, -5),
    "the last length too large": with_length(2, 5),
    "the last length too small": with_length(2, -5),
    "lengths that only add up": with_length(0, 1)[:SIZE] + with_length(1, -1)[SIZE:],
    "a negative length": CONTENT[:SIZE] + b"\x01" + CONTENT[SIZE + 1 :],
}
#: What is there does not decompress.
OUTSIDE = {
    "no bytes": lambda _packed: b"",
    "garbage": lambda _packed: b"\x07garbage that is no frame of any kind",
    "zeros": lambda _packed: bytes(100),
    "not compressed": lambda _packed: CONTENT,
    "cut by one byte": lambda packed: packed[:-1],
    "cut by nine bytes": lambda packed: packed[:-9],
    "half of it": lambda packed: packed[: len(packed) // 2],
    "three bytes of it": lambda packed: packed[:3],
}


def number(value):
    out = bytearray()
    batches.write_varint(out, value)
    return bytes(out)


def record_of(
    index, *, time=b"\0", offset=None, key=b"\x02k", value=b"\x02v", headers=b"\0", lie=0
):
    """A record of fields as they stand there."""
    body = b"\0" + time + (number(index) if offset is None else offset) + key + value + headers
    return number(len(body) + lie) + body


#: What is wrong with one record; its length is right.
FIELDS = {
    "a key beyond the batch": {"key": number(5000) + b"k"},
    "a key into the next record": {"key": number(12) + b"k"},
    "a value one byte too long": {"value": number(2) + b"v"},
    "a value one byte too short": {"value": number(0) + b"v"},
    "-1 headers": {"headers": number(-1)},
    "a header that is not there": {"headers": number(1)},
    "2^31-1 headers": {"headers": number(2**31 - 1)},
    "one header fewer": {"headers": number(2) + b"\x02h\x02v"},
    "bytes behind the headers": {"headers": number(0) + b"\x02h\x02v"},
    "a header without a name": {"headers": number(1) + b"\x01\x02v"},
    "a header's name too long": {"headers": number(1) + number(50) + b"h\x02v"},
    "a header's value too long": {"headers": number(1) + b"\x02h" + number(50) + b"v"},
    "an offset delta of six bytes": {"offset": b"\x82\x80\x80\x80\x80\x00"},
    "a timestamp delta of eleven bytes": {"time": b"\x80" * 10 + b"\0"},
}
#: Apache Kafka takes these if they are not compressed, and its consumers skip records; else it answers UNKNOWN_SERVER_ERROR.
OFFSETS = {
    "an offset delta of 0": {"offset": number(0)},
    "an offset delta below 0": {"offset": number(-1)},
    "an offset delta far off": {"offset": number(1000)},
}
FIELDS |= OFFSETS
#: Odd, and taken.
ODD_FIELDS = {
    "a key of -2 bytes": {"key": number(-2)},
    "a value of -2^31 bytes": {"value": number(-(2**31))},
    "a header of -7 bytes": {"headers": number(1) + b"\x02h" + number(-7)},
    "a header's name that is no text": {"headers": number(1) + b"\x02\xff\x02v"},
    "an offset delta longer than need be": {"offset": b"\x82\x80\x00"},
    "a timestamp delta longer than need be": {"time": b"\x80" * 9 + b"\0"},
    "a timestamp delta of 65 bits": {"time": b"\x80" * 9 + b"\x02"},
}


def fields_batch(codec, name):
    """A batch of three records, the second of which is spoilt."""
    spoilt = (FIELDS | ODD_FIELDS)[name]
    content = b"".join(record_of(i, **(spoilt if i == 1 else {})) for i in range(COUNT))
    return batch_of(codec, compress(codec, content) if codec else content)


def streamed(content):
    """Compress with zstd as those do who do not know the size before: the frame does not announce it."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(content) + stream.flush()


def lies(codec, *, kafka_refuses=False):
    """Yield (name, batch); without those that Apache Kafka takes if that is asked for."""
    for name, content in INSIDE.items():
        yield name, batch_of(codec, compress(codec, content))
    if not kafka_refuses:
        for name, content in LENGTHS.items():
            yield name, batch_of(codec, compress(codec, content))
    for name, spoil in OUTSIDE.items():
        yield name, batch_of(codec, spoil(compress(codec, CONTENT)))
    if codec == Codec.ZSTD and not kafka_refuses:  # it takes one of these
        for behind in (b"\0", b"bytes behind", streamed(CONTENT)[:-1]):
            yield (
                f"{len(behind)} bytes behind a stream",
                batch_of(codec, streamed(CONTENT) + behind),
            )
    for other in CODECS:
        if other != codec:
            yield f"packed by {other.name}", batch_of(codec, compress(other, CONTENT))


def odd_but_good(codec):
    """Yield (name, batch): what Apache Kafka takes as well."""
    packed = compress(codec, CONTENT)
    yield "as it should be", batch_of(codec, packed)
    first, rest = compress(codec, CONTENT[:SIZE]), compress(codec, CONTENT[SIZE:])
    if codec != Codec.LZ4:
        yield "two streams", batch_of(codec, first + rest)
    yield "an empty stream behind", batch_of(codec, packed + compress(codec, b""))
    if codec == Codec.ZSTD:
        yield "as a stream", batch_of(codec, streamed(CONTENT))
        two = streamed(CONTENT[:SIZE]) + streamed(CONTENT[SIZE:])
        yield "two streams of no announced size", batch_of(codec, two)
        yield "an empty frame before", batch_of(codec, compress(codec, b"") + packed)
    else:
        yield "a byte behind", batch_of(codec, packed + b"\0")
