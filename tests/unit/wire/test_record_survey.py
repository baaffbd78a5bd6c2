"""Surveys of records: what a plain reading of every field finds, they find, on right records and on spoilt ones."""

import itertools
import os
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire import record_survey
from barnabas.wire.batch import HEADER_SIZE, BatchError, Record, build, read_header, write_varint
from barnabas.wire.record_survey import EffortError, Survey, survey, survey_pieces

NOW_MS = 1_700_000_000_000
PLENTY = 10_000_000
EXAMPLES = 20_000 if os.environ.get("BARNABAS_EXPLORE") else 60
LONG = 1 << 64


# The oracle: every field of every record, one byte at a time


class Reader:
    def __init__(self, data):
        self.data, self.position = data, 0

    def byte(self):
        self.position += 1
        return self.data[self.position - 1]

    def number(self, bytes_max):
        raw = 0
        for place in range(bytes_max):
            byte = self.byte()
            raw |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                raw &= (1 << (32 if bytes_max == 5 else 64)) - 1
                return (raw >> 1) ^ -(raw & 1)
        raise ValueError

    def field(self, *, nullable=True):
        size = self.number(5)
        assert size >= 0 or nullable
        self.position += max(size, 0)
        return size >= 0


def expected(data, count, base_ms):
    """The survey, or None if the records are not right."""
    reader, times, keys = Reader(data), [], []
    try:
        for index in range(count):
            length = reader.number(5)
            start = reader.position
            reader.byte()
            times.append((base_ms + reader.number(10) + LONG // 2) % LONG - LONG // 2)
            assert reader.number(5) == index
            keys.append(reader.field())
            reader.field()
            headers = reader.number(5)
            assert 0 <= headers <= len(data)
            for _ in range(headers):
                reader.field(nullable=False)
                reader.field()
            assert reader.position - start == length
        assert reader.position == len(data)
    except (AssertionError, IndexError, ValueError):
        return None
    timed = [time for time in times if time != -1]
    return Survey(min(timed, default=None), max([-1, *timed]), not all(keys))


def found(data, count, base_ms=NOW_MS, pieces=None, effort=PLENTY):
    header = read_header(bytes(HEADER_SIZE))._replace(record_count=count, base_timestamp=base_ms)
    try:
        return survey_pieces(pieces, header, effort) if pieces else survey(data, header, effort)
    except BatchError:
        return None


def pieces_of(data, cuts):
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(edges)] or [b""]


def agree(data, count, base_ms=NOW_MS, cuts=(3, 50, 51, 1000)):
    right = expected(data, count, base_ms)
    assert found(data, count, base_ms) == right
    assert found(memoryview(data), count, base_ms) == right
    assert found(data, count, base_ms, pieces=pieces_of(data, cuts)) == right
    return right


# Records of all sorts

lengths = st.sampled_from([None, 0, 1, 5, 40, 62, 63, 64, 100, 8190, 8200])
times = st.sampled_from([0, 0, 0, 1, 63, 64, 8191, 8192, 2_000_000, -1, -70, -NOW_MS - 1, 2**40])
headers = st.lists(st.tuples(st.sampled_from(["", "h", "trace", "n" * 70]), st.none() | st.binary(max_size=80)), max_size=3)  # fmt: skip
kinds = st.tuples(lengths, lengths, st.sampled_from([()]) | headers.map(tuple))


def content(value):
    return None if value is None else bytes(value)


plans = st.tuples(
    kinds, times, st.sampled_from([0, 0, 1, 40]), st.sampled_from([1, 1, 2, 3, 15, 17, 40, 70, 130])
)


def built(*runs):
    """Runs of records of one kind, with times that stand or run, and how many there are."""
    records = []
    for (key, value, pairs), time, step, count in runs:
        if max(key or 0, value or 0) > 8000:
            count = min(count, 3)
        for at in range(count):
            time_ms = NOW_MS + time + step * at if records else NOW_MS
            records.append(Record(len(records), time_ms, content(key), content(value), pairs))
    return bytes(build(records)[HEADER_SIZE:]), len(records)


@settings(max_examples=EXAMPLES)
@given(st.lists(plans, min_size=1, max_size=3), st.lists(st.integers(0, 1 << 20), max_size=6))
def test_right_records_are_surveyed_as_a_plain_reading_does(runs, cuts):
    assert agree(*built(*runs), cuts=cuts) is not None


@settings(max_examples=EXAMPLES)
@given(plans, st.integers(-1, 1))
def test_a_count_that_lies_is_seen(run, lie):
    data, count = built(run)
    assert (agree(data, count + lie) is None) == (lie != 0)


edits = st.lists(
    st.tuples(st.sampled_from(["set", "flip", "insert", "delete"]), st.integers(0, 1 << 30), st.integers(0, 255)),
    min_size=1, max_size=3,
)  # fmt: skip


@settings(max_examples=10 * EXAMPLES)
@given(
    st.lists(plans, min_size=1, max_size=2), edits, st.lists(st.integers(0, 1 << 20), max_size=4)
)
def test_spoilt_records_are_judged_as_a_plain_reading_does(runs, changes, cuts):
    right, count = built(*runs)
    data = bytearray(right)
    # Most bytes are content, where a change changes nothing: aim at the first bytes of a record.
    for kind, place, byte in changes:
        record = len(data) // count * (place % count)
        at = min(record + (place >> 20) % 12, len(data) - 1)
        if kind == "set":
            data[at] = byte
        elif kind == "flip":
            data[at] ^= 1 << byte % 8
        elif kind == "insert":
            data.insert(at, byte)
        else:
            del data[at]
    agree(bytes(data), count, cuts=cuts)


# Numbers at their edges


def number(value):
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def record(index=0, *, time=b"\0", offset=None, key=b"\x02k", value=b"\x02v", pairs=b"\0", lie=0):
    body = b"\0" + time + (number(index) if offset is None else offset) + key + value + pairs
    return number(len(body) + lie) + body


@pytest.mark.parametrize("count", [1, 2, 20, 100])
@pytest.mark.parametrize(
    ("spoilt", "is_right"),
    [
        ({}, True),
        ({"lie": 1}, False),
        ({"lie": -1}, False),
        ({"key": number(100) + b"k"}, False),
        ({"key": number(-2)}, True),
        ({"key": number(70) + bytes(70)}, True),
        ({"value": number(2) + b"v"}, False),
        ({"value": number(0) + b"v"}, False),
        ({"value": number(-(2**31))}, True),
        ({"value": number(9000) + bytes(9000)}, True),
        ({"value": b"\x81\x00"}, True),
        ({"pairs": number(-1)}, False),
        ({"pairs": number(1)}, False),
        ({"pairs": number(2**31 - 1)}, False),
        ({"pairs": number(1) + b"\x01\x02v"}, False),
        ({"pairs": number(1) + b"\x02\xff\x01"}, True),
        ({"pairs": number(1) + b"\x02h" + number(50) + b"v"}, False),
        ({"pairs": number(70) + b"\x02h\x01" * 70}, True),
        ({"time": b"\x80" * 9 + b"\0"}, True),
        ({"time": b"\x80" * 9 + b"\x02"}, True),
        ({"time": b"\x80" * 10 + b"\0"}, False),
        ({"time": number(2**63 - 1)}, True),
        ({"offset": number(-1)}, False),
        ({"offset": b"\x80" * 5 + b"\0"}, False),
    ],
)
def test_each_field(count, spoilt, is_right):
    for place in {0, count // 2, count - 1}:
        data = b"".join(record(i, **(spoilt if i == place else {})) for i in range(count))
        assert (agree(data, count) is not None) == is_right
    if "offset" not in spoilt:
        data = b"".join(record(i, **spoilt) for i in range(count))
        assert (agree(data, count) is not None) == is_right


def test_numbers_longer_than_they_need_be_are_numbers():
    data = b"".join(record(i, offset=bytes((0x80 | 2 * i, 0x80, 0))) for i in range(60))
    assert agree(data, 60) is not None
    assert agree(b"\x8e\x80\x80\x80\x10" + record()[1:], 1) is None
    length = record()[0]
    assert agree(bytes((0x80 | length, 0x80, 0x80, 0x80, 0x10)) + record()[1:], 1) is not None


@pytest.mark.parametrize("base_ms", [-1, -1000, 0, NOW_MS, 2**63 - 1, -(2**63)])
def test_times_before_1970_and_beyond_64_bits(base_ms):
    for delta in (0, 1, -1, NOW_MS, -NOW_MS, 2**63 - 1, -(2**63), -1 - base_ms):
        if -(2**63) <= delta < 2**63:
            data = record(0) + record(1, time=number(delta))
            assert agree(data, 2, base_ms) is not None


def test_thousands_of_records_of_one_form_and_of_many():
    alike = b"".join(record(i) for i in range(20_000))
    assert agree(alike, 20_000) == Survey(NOW_MS, NOW_MS, has_keyless=False)
    keys = [b"\x01", b"\x02k", b"\x04kk"]
    mixed = b"".join(record(i, key=keys[i * i % 3], time=number(i % 300)) for i in range(20_000))
    assert agree(mixed, 20_000) == Survey(NOW_MS, NOW_MS + 299, has_keyless=True)
    assert agree(mixed[:-1], 20_000) is None


def test_more_times_than_are_remembered(monkeypatch):
    monkeypatch.setattr(record_survey, "DELTAS_MAX", 10)
    deltas = [-1 - NOW_MS if i % 7 == 0 else (i * 37 % 500) - 200 for i in range(300)]
    data = b"".join(record(i, time=number(delta), value=number(i) + bytes(i)) for i, delta in enumerate(deltas))  # fmt: skip
    assert agree(data, 300).earliest_ms > 0


def test_the_effort_is_bounded():
    alike = b"".join(record(i) for i in range(20_000))
    assert found(alike, 20_000, effort=1000) is not None, "a run takes next to none"
    mixed = b"".join(record(i, value=(b"\x01", b"\x02v")[i % 2]) for i in range(20_000))
    for effort, data, count in (
        (1000, mixed, 20_000),
        (1000, record(pairs=number(20_000) + b"\0\x01" * 20_000), 1),
        (1000, b"".join(record(i, pairs=number(60) + b"\0\x01" * 60) for i in range(40)), 40),
    ):
        assert found(data, count) is not None
        with pytest.raises(EffortError):
            found(data, count, effort=effort)


def test_a_piece_at_a_time():
    data = b"".join(record(i, value=number(500) + bytes(500)) for i in range(50))
    right = agree(data, 50)
    for size in (1, 2, 3, 7, 505, 1000):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert found(data, 50, pieces=pieces) == right
        assert found(data, 50, pieces=[b"", *pieces, b""]) == right
        assert found(data, 50, pieces=[*pieces, b"\0"]) is None
        assert found(data, 50, pieces=pieces[:-1]) is None


def test_a_header_of_61_bytes_is_where_the_count_comes_from():
    batch = memoryview(build([Record(i, NOW_MS, None, b"v") for i in range(3)]))
    struct.pack_into(">i", batch, 57, 4)
    with pytest.raises(BatchError, match=r"3 records of 4|cut short"):
        survey(batch[HEADER_SIZE:], read_header(batch), PLENTY)


def test_one_copy_at_a_time_is_held():
    """Two at once made the C library give memory back after each batch and ask for it again: 90,000 page faults for a gigabyte in batches of 4 MB."""
    data = build([Record(number, NOW_MS, None, bytes(1000)) for number in range(4000)])
    content, header = memoryview(data)[HEADER_SIZE:], read_header(memoryview(data))
    assert len(content) > 3 * record_survey.PIECE_BYTES
    tracemalloc.start()
    try:
        assert survey(content, header, PLENTY).has_keyless
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert record_survey.PIECE_BYTES < most < 1.5 * record_survey.PIECE_BYTES
