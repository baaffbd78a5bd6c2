"""Rows are written as given, to the partitions that Kafka's own clients would choose; rows that no topic takes are told."""

import struct
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.errors import UnknownTopic
from barnabas.client.settings import ClientSettings
from barnabas.client.topics import TopicLimits
from barnabas.model.ids import TopicPartition
from barnabas.pipelines.columns import RowWriter
from barnabas.pipelines.columns.headers import HEADERS
from barnabas.wire import batch as record_batch
from barnabas.wire.batch import Producer, read_header, read_records
from barnabas.wire.compression import Codec

LIMIT = 1 << 26


class Cluster:
    """Topics with their partitions and limits, as far as a writer asks."""

    def __init__(self, **changes):
        self.settings = ClientSettings(bootstrap=(("nowhere", 1),)).replace(**changes)
        self.topics = {"orders": 3, "compacted": 2}

    def partitions(self, names):
        for name in names:
            if name not in self.topics:
                raise UnknownTopic(name)
        return {name: list(range(self.topics[name])) for name in names}

    def topic_limits(self, topic):
        return TopicLimits(10_000, topic == "compacted")


class Session:
    """Takes batches and keeps them, as a producer session would send them."""

    def __init__(self, *, is_transactional=False):
        self.is_transactional = is_transactional
        self.batches = []
        self.sequences = {}

    def claim(self, partition, count):
        first = self.sequences.get(partition, 0)
        self.sequences[partition] = first + count
        return Producer(7, 1, first)

    def add(self, partition, data):
        self.batches.append((partition, data))

    def records(self):
        found = {}
        for partition, data in self.batches:
            found.setdefault(partition, []).extend(read_records(memoryview(data), LIMIT))
        return found


def rows(count=None, **columns):
    arrays = {
        name: column if isinstance(column, pa.Array) else pa.array(column)
        for name, column in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def write(batch, *, topic="orders", compression=None, session=None, **changes):
    session = session or Session()
    writer = RowWriter(Cluster(**changes), session, topic=topic, compression=compression)
    return session, writer.write(batch)


pairs = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
row = st.tuples(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=300),
    st.none() | pairs,
    st.none() | st.integers(0, 2),
)


@given(
    st.lists(row, min_size=1, max_size=40), st.sampled_from(sorted(Codec)), st.integers(70, 2000)
)
def test_what_is_written_is_what_is_read(given_rows, codec, batch_size):
    keys, values, headers, partitions = zip(*given_rows, strict=True)
    shown = [None if p is None else [{"key": k, "value": v} for k, v in p] for p in headers]
    batch = rows(
        key=pa.array(keys, pa.binary()),
        value=pa.array(values, pa.binary()),
        # Times tell which row it was.
        timestamp=pa.array(range(len(given_rows)), pa.timestamp("ms", "UTC")),
        headers=pa.array(shown, HEADERS),
        partition=pa.array(partitions, pa.int32()),
    )
    session, poison = write(batch, compression=codec.name.lower(), batch_size=batch_size)
    assert poison == []
    found = {}
    for place, records in session.records().items():
        times = [each.timestamp for each in records]
        assert times == sorted(times)
        for each in records:
            found[each.timestamp] = (each.key, each.value, each.headers)
            assert partitions[each.timestamp] in (None, place.partition)
    assert found == {
        index: (key, value, tuple(pair or ()))
        for index, (key, value, pair, _) in enumerate(given_rows)
    }


def test_rows_without_a_time_are_of_now():
    times = pa.array([5, None], pa.timestamp("ms"))
    session, _ = write(rows(key=[b"a", b"a"], value=[b"1", b"2"], timestamp=times))
    ((old, new),) = session.records().values()
    assert old.timestamp == 5
    assert new.timestamp > 1_700_000_000_000


def test_batches_are_sound_and_carry_the_producer():
    session = Session(is_transactional=True)
    batch = rows(key=[b"a"] * 1000, value=[b"x" * 100] * 1000)
    write(batch, session=session, batch_size=5000)
    assert len(session.batches) > 10
    sequence = 0
    for place, data in session.batches:
        header = read_header(data)
        assert header.size == len(data) <= 5000
        assert record_batch.checksum_matches(memoryview(data), header)
        assert record_batch.records_fit(memoryview(data), header)
        assert (header.producer_id, header.producer_epoch) == (7, 1)
        assert header.base_sequence == sequence
        assert header.is_transactional
        assert place == session.batches[0][0]
        sequence += header.record_count
    assert sequence == 1000


def test_keys_choose_partitions_as_java_does():
    keys = [b"21", b"foobar", b"abc", b"a-little-bit-longer-string"]
    session, _ = write(rows(key=keys, value=[b"v"] * 4))
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"abc": 479470107,
        b"a-little-bit-longer-string": -1486304829,
    }
    for place, records in session.records().items():
        for each in records:
            assert (hashes[each.key] & 0x7FFFFFFF) % 3 == place.partition


def test_rows_without_a_key_fill_one_partition_after_another():
    session, _ = write(rows(value=[b"x" * 100] * 100), batch_size=2000)
    counts = {place.partition: len(records) for place, records in session.records().items()}
    assert sum(counts.values()) == 100
    assert len(counts) == 3
    assert len(session.batches) < 20


def test_rows_without_a_key_that_come_a_few_at_a_time_reach_all_partitions():
    """Each batch of a stream has a writer of its own."""
    session = Session()
    for _ in range(100):
        write(rows(value=[b"x"]), session=session)
    assert len(session.records()) == 3


def test_headers_are_known_by_their_names():
    swapped = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
    session, poison = write(
        rows(value=[b"x"], headers=pa.array([[{"key": "k", "value": b"v"}]], swapped))
    )
    assert poison == []
    ((record,),) = session.records().values()
    assert record.headers == (("k", b"v"),)


def test_a_header_without_a_key_is_poison():
    headers = [None, [{"key": "k", "value": b"v"}], [{"key": None, "value": b"v"}], [None]]
    batch = rows(value=[b"0", b"1", b"2", b"3"], headers=pa.array(headers, HEADERS))
    for part, first in ((batch, 2), (batch.slice(1), 1)):
        session, poison = write(part)
        assert [each.row for each in poison] == [first, first + 1]
        assert {each.reason for each in poison} == {"one of its headers has no key"}
        assert sum(map(len, session.records().values())) == first


def test_texts_and_other_types_are_taken():
    batch = rows(
        key=pa.array(["a"], pa.large_string()),
        value=pa.array(["ä"], pa.string()),
        timestamp=pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC")),
    )
    session, _ = write(batch)
    ((record,),) = session.records().values()
    assert (record.key, record.value) == (b"a", "ä".encode())
    assert record.timestamp == 1767225600000


def test_a_column_names_topics():
    batch = rows(
        topic=["orders", "compacted", None], key=[b"a", b"b", b"c"], value=[b"1", b"2", b"3"]
    )
    session, poison = write(batch, topic=None)
    assert {
        place.topic: [r.value for r in records] for place, records in session.records().items()
    } == {
        "orders": [b"1"],
        "compacted": [b"2"],
    }
    assert poison == [(2, None, "the row has no topic")]
    session, poison = write(batch, topic="orders")
    assert poison == []


def test_poison_is_told_and_the_rest_written():
    batch = rows(
        topic=["orders", "gone", "compacted", "orders", "orders", "orders"],
        key=[b"a", b"b", None, b"d", b"e", b"f"],
        value=[b"v", b"v", b"v", b"v" * 20_000, b"v", b"v"],
        partition=pa.array([None, None, None, None, 9, -1], pa.int32()),
    )
    session, poison = write(batch, topic=None)
    assert [(each.row, each.topic) for each in poison] == [
        (1, "gone"), (2, "compacted"), (3, "orders"), (4, "orders"), (5, "orders"),
    ]  # fmt: skip
    reasons = [each.reason for each in poison]
    assert "there is no topic 'gone'" in reasons[0]
    assert "no key" in reasons[1]
    assert "max.message.bytes of topic 'orders' is 10000" in reasons[2]
    assert "3 partitions" in reasons[3]
    ((place, (record,)),) = session.records().items()
    assert (place.topic, record.key) == ("orders", b"a")


def test_a_codec_may_make_a_large_row_fit():
    import random

    noise = random.Random(1).randbytes(20_000)
    batch = rows(value=[b"v" * 20_000, noise])
    session, (poison,) = write(batch, compression="zstd")
    assert (poison.row, poison.topic) == (1, "orders")
    ((record,),) = session.records().values()
    assert record.value == b"v" * 20_000
    _, poison = write(batch, compression="zstd", max_request_size=5_000)
    assert "max.request.size of the client is 5000" in poison[0].reason


def test_a_large_batch_is_written_in_pieces(monkeypatch):
    monkeypatch.setattr("barnabas.pipelines.columns.writing.PIECE_BYTES", 1000)
    values = [b"%04d" % each * 10 for each in range(200)]
    values[150] = b"x" * 20_000
    session, poison = write(rows(value=values, key=[b"k"] * 200))
    assert [each.row for each in poison] == [150]
    ((records),) = session.records().values()
    assert [each.value for each in records] == values[:150] + values[151:]


def test_nothing_is_nothing():
    assert write(rows(value=pa.array([], pa.binary())))[1] == []


def test_slices_of_batches_are_what_they_show():
    whole = rows(
        key=[b"a", b"b", b"c", b"d"],
        value=[b"1", b"2", b"3", b"4"],
        headers=pa.array(
            [None, [{"key": "x", "value": b"y"}], [], [{"key": "z", "value": None}]], HEADERS
        ),
    )
    session, _ = write(whole.slice(1, 2))
    found = sorted(r for records in session.records().values() for r in records)
    assert sorted((r.key, r.value, r.headers) for r in found) == [
        (b"b", b"2", (("x", b"y"),)),
        (b"c", b"3", ()),
    ]


def test_a_sealed_batch_is_one_that_build_makes():
    records = [record_batch.Record(i, 100 + i, b"k%d" % i, b"v") for i in range(5)]
    made = record_batch.build(records, producer=Producer(7, 1, 0))
    batch = rows(
        key=[r.key for r in records],
        value=[r.value for r in records],
        timestamp=pa.array([r.timestamp for r in records], pa.timestamp("ms")),
        partition=pa.array([0] * 5, pa.int32()),
    )
    session, _ = write(batch)
    ((place, data),) = session.batches
    assert place == TopicPartition("orders", 0)
    assert bytes(data) == bytes(made)
    assert struct.unpack_from(">i", data, 8) == (len(data) - 12,)
