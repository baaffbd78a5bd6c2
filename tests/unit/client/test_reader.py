"""Reading a range: complete, in order, from whoever leads, with nothing lost in silence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk_kit import World

from barnabas.client.errors import (
    CorruptBatch,
    OffsetOutOfRange,
    Refused,
    UnknownTopic,
    Unreachable,
)
from barnabas.client.reader import SHORT_LOG_PATIENCE_MS, RangeReader, read_all
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import Record, build, headers, read_header, read_records
from barnabas.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

PLACE = TopicPartition("t", 0)


class Log:
    """A partition whose broker answers Fetch and ListOffsets, with as many bytes as it is asked for, and one batch at least."""

    def __init__(self, batches, *, start=0, end=None, **settings):
        self.world = World({"t": [1]}, **settings)
        self.world.on["Fetch"] = self.fetch
        self.world.on["ListOffsets"] = self.list_offsets
        self.batches = batches
        self.start = start
        self.end = read_header(batches[-1]).next_offset if end is None else end
        #: Answers to give before the usual ones.
        self.before = []

    def fetch(self, request, address):
        if self.before:
            answer = self.before.pop(0)
            if answer is not None:
                return answer
        if address != self.world.brokers[self.world.topics["t"][0]]:
            return self.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        (wanted,) = request.topics[0].partitions
        if not self.start <= wanted.fetch_offset <= self.end:
            return self.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
        found = b"".join(
            each for each in self.batches if read_header(each).last_offset >= wanted.fetch_offset
        )
        first = read_header(found).size if found else 0
        return self.answer(records=bytearray(found[: max(first, wanted.partition_max_bytes)]))

    def answer(self, code=0, records=b""):
        data = PartitionData(
            partition_index=0, error_code=int(code), high_watermark=self.end,
            last_stable_offset=self.end, log_start_offset=self.start, records=records,
        )  # fmt: skip
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    def list_offsets(self, request, _address):
        (wanted,) = request.topics[0].partitions
        offset = self.start if wanted.timestamp == -2 else self.end
        part = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])

    def read(self, start, end, isolation="read_uncommitted"):
        reader = RangeReader(self.world.cluster, PLACE, start, end, isolation)
        return [
            record.offset
            for chunk in read_all(reader, self.world.run)
            for batch in chunk.batches
            for record in read_records(batch, 1 << 20)
            if start <= record.offset < end
        ]


def batches(*offsets):
    """Batches of these lists of offsets."""
    return [build([Record(each, 0, None, b"v" * 50) for each in some]) for some in offsets]


USUAL = batches(range(3), range(3, 7), range(7, 8), range(8, 20))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.lists(st.integers(0, 3), min_size=9, max_size=9),
    st.integers(100, 2000),
    st.data(),
)
def test_every_range_of_every_log(sizes, gaps, max_bytes, data):
    offset, groups = 0, []
    for size, gap in zip(sizes, gaps, strict=False):
        offset += gap
        groups.append(range(offset, offset + size))
        offset += size
    end_of_log = offset + data.draw(st.integers(0, 3))  # compaction has taken the last ones
    log = Log(batches(*groups), end=end_of_log, max_partition_fetch_bytes=max_bytes)
    start = data.draw(st.integers(0, end_of_log))
    end = data.draw(st.integers(start, end_of_log))
    log.before = data.draw(
        st.lists(st.sampled_from([None, None, Unreachable("x"), log.answer(6)]), max_size=5)
    )
    wanted = [each for some in groups for each in some if start <= each < end]
    assert log.read(start, end) == wanted


def test_the_next_request_is_sent_before_the_last_answer_is_handed_out():
    log = Log(USUAL, max_partition_fetch_bytes=1)
    reader = RangeReader(log.world.cluster, PLACE, 0, 20, "read_uncommitted")
    chunks = read_all(reader, log.world.run)
    next(chunks)
    assert log.world.names().count("Fetch") == 2
    chunks.close()
    assert len(log.world.forgotten) == 1


def test_a_leader_that_moves_is_followed():
    log = Log(USUAL)
    log.world.run(log.world.cluster.locate([PLACE]))
    log.world.topics["t"] = [2]
    assert log.read(0, 20) == list(range(20))


def test_a_position_before_the_log_is_a_loss():
    log = Log(USUAL, start=5)
    with pytest.raises(OffsetOutOfRange) as raised:
        log.read(2, 20)
    assert raised.value.is_loss
    assert (raised.value.log_start_offset, raised.value.log_end_offset) == (5, 20)
    assert log.read(5, 20) == list(range(5, 20))


@pytest.mark.parametrize("start", [3, 25])
def test_a_log_that_is_too_short_is_waited_for_and_then_told(start):
    log = Log(USUAL)
    started = log.world.clock.now
    with pytest.raises(OffsetOutOfRange, match="has 0 to 20: the log ends before"):
        log.read(start, 30)
    assert log.world.clock.now - started > SHORT_LOG_PATIENCE_MS / 2


def test_a_high_watermark_that_lags_after_a_change_of_leader():
    log = Log(USUAL)
    short = log.answer()
    short.responses[0].partitions[0].high_watermark = 0
    log.before = [short, short, log.answer(ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert log.read(0, 20) == list(range(20))


def test_a_broker_that_slows_down_is_waited_for():
    log = Log(USUAL)
    log.before = [FetchResponse(responses=[], throttle_time_ms=700)]
    started = log.world.clock.now
    assert log.read(0, 20) == list(range(20))
    assert log.world.clock.now - started >= 700


def test_bytes_that_were_changed_on_the_way():
    damaged = [bytearray(each) for each in USUAL]
    damaged[1][-1] ^= 1
    log = Log(damaged)
    with pytest.raises(CorruptBatch, match="t-0 at offset 3: the checksum does not match"):
        log.read(0, 20)


@pytest.mark.parametrize(
    ("at", "value", "words"), [(16, 1, "record format 1"), (11, 5, "no record batch")]
)
def test_bytes_that_are_no_batches(at, value, words):
    damaged = bytearray(USUAL[0])
    damaged[at] = value
    log = Log([damaged])
    log.before = [log.answer(records=damaged)]
    with pytest.raises(CorruptBatch, match=words):
        log.read(0, 3)


def test_what_is_refused_is_told_at_once():
    log = Log(USUAL)
    log.before = [log.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(Refused) as raised:
        log.read(0, 20)
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_that_was_deleted():
    log = Log(USUAL)
    del log.world.topics["t"]
    with pytest.raises(UnknownTopic):
        log.read(0, 20)


def test_the_whole_request_refused():
    log = Log(USUAL)
    log.before = [FetchResponse(error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR), responses=[])]
    with pytest.raises(Refused):
        log.read(0, 20)


def test_chunks_show_whole_batches():
    log = Log(USUAL)
    reader = RangeReader(log.world.cluster, PLACE, 4, 8, "read_committed")
    (chunk,) = read_all(reader, log.world.run)
    assert [header.base_offset for _, header in chunk.placed] == [3, 7]
    assert chunk.next_offset == 8
    assert [len(each) for each in chunk.batches] == [header.size for _, header in chunk.placed]
    assert next(headers(chunk.data))[1].base_offset == 3
    assert log.world.requests("Fetch")[0].isolation_level == 1
