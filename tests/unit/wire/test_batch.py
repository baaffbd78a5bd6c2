"""Batches: what is built reads back, and what lies is found out."""

import contextlib
import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire import batch
from barnabas.wire.batch import BatchError, Producer, Record, build, read_header, read_records
from barnabas.wire.compression import Codec, CompressionError, decompress

LIMIT = 1 << 20
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def some(count=3, **how):
    return build(
        [Record(i, 1000 + i, b"k%d" % i, b"v" * i, (("h", None),)) for i in range(count)], **how
    )


record_contents = st.tuples(
    st.integers(0, 2**40),
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
)


@given(
    st.lists(record_contents, min_size=1, max_size=20),
    st.sampled_from(Codec),
    st.integers(0, 2**60),
)
def test_records_read_back_with_every_codec(contents, codec, base):
    records = [Record(base + i, t, k, v, tuple(h)) for i, (t, k, v, h) in enumerate(contents)]
    built = memoryview(build(records, codec=codec, producer=Producer(7, 1, 5)))
    header = read_header(built)
    assert read_records(built, LIMIT) == records
    assert batch.checksum_matches(built, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert header.size == len(built)
    assert header.next_offset == base + len(records)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("other", Codec)
def test_repack_keeps_the_records(codec, other):
    built = memoryview(some(50, codec=codec))
    content = decompress(codec, built[batch.HEADER_SIZE :], LIMIT)
    again = memoryview(batch.repack(built, content, other))
    assert read_header(again).codec == other
    assert batch.checksum_matches(again, read_header(again))
    assert read_records(again, LIMIT) == read_records(built, LIMIT)


def test_stamp_leaves_the_checksum_right():
    built = memoryview(some())
    batch.stamp(built, 77, 5)
    header = read_header(built)
    assert (header.base_offset, header.partition_leader_epoch) == (77, 5)
    assert batch.checksum_matches(built, header)


def test_append_time_is_what_readers_see():
    built = memoryview(some())
    header = batch.stamp_append_time(built, read_header(built), 9999)
    assert header == read_header(built)
    assert batch.checksum_matches(built, header)
    assert {r.timestamp for r in read_records(built, LIMIT)} == {9999}


def test_headers_stops_at_a_partial_batch():
    one = bytes(some())
    found = list(batch.headers(memoryview(one + one + one[:-1])))
    assert [position for position, _ in found] == [0, len(one)]


@pytest.mark.parametrize("count", [1, 2, 4, 1000])
def test_a_lie_about_the_count_is_seen(count):
    built = memoryview(some(3))
    assert batch.records_fit(built, read_header(built))
    struct.pack_into(">i", built, 57, count)
    assert not batch.records_fit(built, read_header(built))


def test_long_records_are_walked():
    built = memoryview(build([Record(i, 0, None, b"x" * 5000) for i in range(3)]))
    assert batch.records_fit(built, read_header(built))


@given(st.data())
def test_any_bytes_as_records_end_in_an_error_of_ours(data):
    built = some(4)
    for _ in range(3):
        built[data.draw(st.integers(61, len(built) - 1))] = data.draw(st.integers(0, 255))
    view = memoryview(built)
    batch.records_fit(view, read_header(view))
    with contextlib.suppress(BatchError):
        read_records(view, LIMIT)


def test_a_short_header_is_refused():
    with pytest.raises(BatchError, match="61 bytes"):
        read_header(b"\0" * 60)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_stopped_at_the_limit(codec):
    bomb = memoryview(build([Record(0, 0, None, bytes(5_000_000))], codec=codec))
    with pytest.raises(CompressionError, match="more than"):
        read_records(bomb, LIMIT)


@pytest.mark.parametrize("codec", PACKED)
def test_garbage_does_not_decompress(codec):
    with pytest.raises(CompressionError):
        decompress(codec, b"\x07garbage that is no frame of any kind", LIMIT)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 150)), min_size=1, max_size=6),
    st.integers(-3, 3),
)
def test_the_walk_agrees_with_decoding(runs, lie):
    """Runs of equal records, where offsets and lengths grow by a byte in between; counts that lie or do not."""
    sizes = [size for size, count in runs for _ in range(count)]
    built = memoryview(build([Record(i, i, None, b"x" * size) for i, size in enumerate(sizes)]))
    struct.pack_into(">i", built, 57, len(sizes) + lie)
    header = read_header(built)
    assert batch.records_fit(built, header) == (lie == 0)
    assert batch.content_fits(built[batch.HEADER_SIZE :], len(sizes) + lie) == (lie == 0)


@given(st.lists(st.sampled_from([0, 0, 0, 1, 9]), min_size=1, max_size=400), st.integers(-1, 1))
def test_the_walk_over_few_lengths_in_any_order(sizes, lie):
    built = memoryview(build([Record(i, 0, None, b"x" * size) for i, size in enumerate(sizes)]))
    content = built[batch.HEADER_SIZE :]
    assert batch.content_fits(content, len(sizes) + lie) == (lie == 0)


def test_a_run_that_ends_outside_of_the_batch_is_no_run():
    built = build([Record(i, 0, None, b"x" * 20) for i in range(50)])
    short = memoryview(built)[: len(built) - 1]
    struct.pack_into(">i", short, 8, len(short) - 12)
    assert not batch.records_fit(short, read_header(short))


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=60),
    st.lists(st.integers(0, 9000), max_size=30),
    st.integers(-1, 1),
    st.integers(-1, 1),
)
def test_content_is_counted_however_it_is_cut_into_pieces(sizes, cuts, more_records, more_bytes):
    built = build([Record(i, i, None, b"x" * size) for i, size in enumerate(sizes)])
    content = bytes(built[batch.HEADER_SIZE :]) + b"\0" * more_bytes
    content = content[: len(content) + min(more_bytes, 0)]
    edges = sorted(min(cut, len(content)) for cut in (0, *cuts, len(content)))
    pieces = [content[start:end] for start, end in itertools.pairwise(edges)]
    is_right = more_records == more_bytes == 0
    assert batch.content_fits(content, len(sizes) + more_records) == is_right
    assert batch.pieces_fit(pieces, len(sizes) + more_records) == is_right


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "start", [b"\x01", b"\x0a", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f"]
)  # fmt: skip
def test_a_length_that_cannot_be_is_found_in_pieces(piece, start):
    content = start + bytes(40)
    pieces = [content[at : at + piece] for at in range(0, len(content), piece)]
    assert not batch.content_fits(content, 1)
    assert not batch.pieces_fit(pieces, 1)
