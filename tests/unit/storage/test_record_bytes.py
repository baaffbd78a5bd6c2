"""Stepping through records where they lie, against the decoder that builds objects."""

import random

import pytest

from barnabas.storage.record_bytes import read_keys, select, select_shifted
from barnabas.wire.batch import (
    HEADER_SIZE,
    BatchError,
    Record,
    build,
    read_header,
    walk_content,
    write_varint,
)


def some_records(seed, count=40):
    """Records whose lengths, deltas and keys take varints of one, two and more bytes."""
    chance = random.Random(seed)
    offset, records = 0, []
    for _ in range(count):
        key = chance.choice([None, b"", b"k" * chance.choice([1, 63, 64, 9000])])
        value = chance.choice([None, b"", b"v" * chance.choice([5, 60, 200, 20_000])])
        timestamp = 1000 + chance.choice([-70, -1, 0, 1, 63, 64, 9000, 10**10])
        headers = chance.choice([(), (("h", None), ("i", b"x"))])
        records.append(Record(offset, timestamp, key, value, headers))
        offset += chance.choice([1, 1, 2, 60, 9000])
    return records


def content_of(records):
    return bytes(build(records)[HEADER_SIZE:])


@pytest.mark.parametrize("seed", range(5))
def test_keys_deltas_and_missing_values(seed):
    records = some_records(seed)
    keys, deltas, nulls = read_keys(b"123" + content_of(records), 3, len(records))
    assert keys == [record.key for record in records]
    assert deltas == [record.offset for record in records]
    assert nulls == [number for number, record in enumerate(records) if record.value is None]


def test_offsets_of_one_two_and_three_bytes_and_the_smallest_record_at_the_end():
    records = [Record(number, 1000, b"key", b"v" * 100) for number in range(9000)]
    keys, deltas, _ = read_keys(content_of(records), 0, len(records))
    assert (keys, deltas) == ([b"key"] * 9000, list(range(9000)))
    smallest = content_of([Record(0, 1000, None, None)])
    assert len(smallest) == 7
    assert read_keys(smallest, 0, 1) == ([None], [0], [0])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("shift", [None, -86_400_000, 5])
def test_kept_records_come_out_as_they_were(seed, share, shift):
    records = some_records(seed)
    chance = random.Random(seed)
    kept = [1] + [int(chance.random() < share) for _ in records[1:]]
    content = content_of(records)
    if shift is None:
        pieces, largest = select(b"12" + content, 2, kept)
    else:
        pieces, largest = select_shifted(b"12" + content, 2, kept, shift)
    expected = [record for record, keep in zip(records, kept, strict=True) if keep]
    base_timestamp = records[0].timestamp - (shift or 0)
    header = read_header(build(records))._replace(
        record_count=len(expected), base_timestamp=base_timestamp
    )
    assert list(walk_content(b"".join(pieces), header)) == expected
    assert base_timestamp + largest == max(record.timestamp for record in expected)


def test_what_stays_together_is_one_piece():
    records = [Record(number, 0, b"k", b"v") for number in range(6)]
    pieces, _ = select(content_of(records), 0, [0, 1, 1, 0, 1, 0])
    assert len(pieces) == 2


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_record_that_is_cut_short(cut):
    content = content_of([Record(0, 0, b"key", b"")])[:-cut]
    with pytest.raises(BatchError):
        read_keys(content, 0, 1)


@pytest.mark.parametrize("read", [select, lambda *these: select_shifted(*these, 1)])
def test_bytes_that_end_before_the_last_record(read):
    with pytest.raises(BatchError):
        read(content_of([Record(0, 0, b"key", b"")]), 0, [1, 1])


def test_a_key_that_goes_beyond_its_record():
    body = bytearray(b"\0\0\0")
    write_varint(body, 50)
    body += b"k\0"
    content = bytearray()
    write_varint(content, len(body))
    with pytest.raises(BatchError):
        read_keys(bytes(content + body + bytes(60)), 0, 1)


def test_a_varint_without_end():
    with pytest.raises(BatchError):
        read_keys(b"\xff" * 20, 0, 1)
