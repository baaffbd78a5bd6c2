"""B5, B7: batches that lie and sequences that do not follow. The right error, and nothing appended."""

import struct
import time

import pytest
from chaos.packed_lies import (
    CODECS,
    FIELDS,
    ODD_FIELDS,
    OFFSETS,
    batch_of,
    content_of,
    fields_batch,
    lies,
    odd_but_good,
)
from chaos.wire_kit import RawClient, batch, produce_request
from crc32c import crc32c

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.batch import Producer, Record
from barnabas.wire.compression import Codec, compress
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest

BASE_OFFSET, LENGTH, MAGIC, ATTRIBUTES, LAST_DELTA, BASE_TIME, MAX_TIME, ID, EPOCH, SEQUENCE, COUNT = (
    (0, ">q"), (8, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"), (51, ">h"),
    (53, ">i"), (57, ">i"),
)  # fmt: skip


def good():
    return bytearray(batch(b"one", b"two"))


def with_checksum(data):
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def lying(*claims, of=None):
    """A good batch with fields overwritten and its checksum right."""
    data = good() if of is None else bytearray(of)
    for (position, layout), value in claims:
        struct.pack_into(layout, data, position, value)
    return with_checksum(data)


def wrong_checksum():
    data = good()
    data[-1] ^= 1
    return bytes(data)


CORRUPT, INVALID = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
#: Where Apache Kafka 4.3.1 does something that helps nobody: no answer at all, UNKNOWN_SERVER_ERROR, or it takes the batch.
STRICTER_THAN_KAFKA = {
    "a null", "a length of 2^31-1", "a codec that is none", "bytes behind", "a sequence without a producer's epoch",
}  # fmt: skip
CASES = {
    "wrong checksum": (wrong_checksum(), CORRUPT),
    "magic 0": (lying((MAGIC, 0)), INVALID),
    "magic 1": (lying((MAGIC, 1)), INVALID),
    "magic 3": (lying((MAGIC, 3)), CORRUPT),
    "magic -1": (lying((MAGIC, -1)), CORRUPT),
    "more records claimed": (lying((COUNT, 3), (LAST_DELTA, 2)), INVALID),
    "fewer records claimed": (lying((COUNT, 1), (LAST_DELTA, 0)), INVALID),
    "no records claimed": (lying((COUNT, 0), (LAST_DELTA, -1)), INVALID),
    "a negative count": (lying((COUNT, -1)), INVALID),
    "2^31-1 records claimed": (lying((COUNT, 2**31 - 1), (LAST_DELTA, 2**31 - 2)), INVALID),
    "the last delta lies": (lying((LAST_DELTA, 7)), INVALID),
    "a negative last delta": (lying((LAST_DELTA, -2)), INVALID),
    "base offset 5": (lying((BASE_OFFSET, 5)), INVALID),
    "a base offset below 0": (lying((BASE_OFFSET, -1)), INVALID),
    "a control batch": (lying((ATTRIBUTES, 0x20), (ID, 1), (EPOCH, 0)), INVALID),
    "two batches": (bytes(good()) + bytes(good()), INVALID),
    "a null": (None, INVALID),
    "nothing": (b"", INVALID),
    "cut in the header": (bytes(good())[:40], INVALID),
    "cut in the records": (bytes(good())[:-3], INVALID),
    "bytes behind": (bytes(good()) + b"abc", INVALID),
    "a length of 0": (lying((LENGTH, 0)), CORRUPT),
    "a negative length": (lying((LENGTH, -5)), CORRUPT),
    "a length of 2^31-1": (lying((LENGTH, 2**31 - 1)), INVALID),
    "a codec that is none": (lying((ATTRIBUTES, 7)), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a sequence without a producer's epoch": (
        lying((ID, 5), (SEQUENCE, 0)),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "a producer without a sequence": (lying((ID, 5), (EPOCH, 0)), INVALID),
    "a time far ahead": (lying((BASE_TIME, 2**62), (MAX_TIME, 2**62)), ErrorCode.INVALID_TIMESTAMP),
    "a time far ahead in the records": (lying((BASE_TIME, 2**62)), ErrorCode.INVALID_TIMESTAMP),
    "append time without a time": (
        lying((ATTRIBUTES, 8), (MAX_TIME, -1)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", [3, 9])
def test_a_batch_that_lies_is_refused_and_nothing_is_appended(
    client, topic, is_ours, name, version
):
    if not is_ours and name in STRICTER_THAN_KAFKA:
        pytest.skip("Kafka does not refuse it so")
    data, code = CASES[name]
    answer = client.produce(topic, data, version=version)
    assert ErrorCode(answer.error_code) == code
    assert answer.base_offset == -1
    assert client.end_offset(topic) == 0
    assert client.produce(topic, bytes(good())).base_offset == 0


def test_a_client_may_claim_log_append_time(client, topic):
    """Unless the topic has it; it is not believed."""
    assert client.produce(topic, lying((ATTRIBUTES, 8))).error_code == 0
    assert batches.read_header(client.fetch(topic, 0).records).attributes == 0
    name = topic + "-append-time"
    assert client.create_topic(name, message_timestamp_type="LogAppendTime").error_code == 0
    refused = client.produce(name, lying((ATTRIBUTES, 8)))
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", Codec)
def test_the_largest_time_is_that_of_the_records(client, topic, codec):
    for time_ms in (-100, -1, 5, 2**62):
        data = lying((MAX_TIME, time_ms), of=batch(b"one", b"two", codec=codec))
        offset = client.produce(topic, data).base_offset
        kept = batches.read_header(client.fetch(topic, offset).records)
        assert kept.max_timestamp == kept.base_timestamp + 1


@pytest.mark.parametrize("codec", Codec)
def test_times_before_1970_count_as_none(client, topic, codec):
    data = lying((BASE_TIME, -100), (MAX_TIME, -99), of=batch(b"one", b"two", codec=codec))
    assert client.produce(topic, data).error_code == 0
    assert batches.read_header(client.fetch(topic, 0).records).max_timestamp == -1


@pytest.mark.parametrize("codec", Codec)
def test_records_whose_fields_lie(client, topic, is_ours, codec):
    for name in FIELDS:
        if name in OFFSETS and not is_ours and not codec:
            continue
        answer = client.produce(topic, fields_batch(codec, name))
        expected = INVALID if is_ours or name not in OFFSETS else ErrorCode.UNKNOWN_SERVER_ERROR
        assert (ErrorCode(answer.error_code), answer.base_offset) == (expected, -1), name
    assert client.end_offset(topic) == 0
    assert client.produce(topic, batch(b"one", codec=codec)).base_offset == 0


@pytest.mark.parametrize("codec", Codec)
def test_records_whose_fields_are_odd(client, topic, codec):
    for name in ODD_FIELDS:
        assert client.produce(topic, fields_batch(codec, name)).error_code == 0, name
    assert len(client.read_all(topic)) == 3 * len(ODD_FIELDS)


def test_a_bad_batch_does_not_harm_its_neighbour(client, topic):
    assert client.create_topic(topic + "-two", 2).error_code == 0
    request = produce_request(topic + "-two", wrong_checksum(), partition=0)
    neighbour = produce_request(topic + "-two", bytes(good()), partition=1)
    request.topic_data[0].partition_data += neighbour.topic_data[0].partition_data
    bad, fine = client.ask(request, 9).responses[0].partition_responses
    assert (bad.error_code, fine.error_code, fine.base_offset) == (CORRUPT, 0, 0)


def test_a_bad_batch_with_acks_0_closes_the_connection(client, topic, attacked):
    client.send(produce_request(topic, wrong_checksum(), acks=0), 9)
    assert client.is_closed_by_peer()


def test_acks_that_are_none(client, topic):
    answer = client.produce(topic, bytes(good()), acks=2)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_batch_over_the_topics_limit(client, topic):
    name = topic + "-small"
    assert client.create_topic(name, max_message_bytes=1000).error_code == 0
    assert client.produce(name, batch(bytes(2000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce(name, batch(bytes(500))).error_code == 0


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_batches_whose_header_lies(client, topic, codec):
    packed = batch(b"one", b"two", codec=codec)
    assert client.produce(topic, lying((LAST_DELTA, 7), of=packed)).error_code == INVALID
    assert client.produce(topic, lying((COUNT, 0), (LAST_DELTA, -1), of=packed)).error_code
    assert client.end_offset(topic) == 0
    assert client.produce(topic, packed).error_code == 0


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_whose_content_lies(client, topic, is_ours, codec):
    """Kafka answers UNKNOWN_SERVER_ERROR to what does not decompress."""
    for name, data in lies(codec, kafka_refuses=not is_ours):
        answer = client.produce(topic, data)
        assert answer.base_offset == -1, name
        assert ErrorCode(answer.error_code) in (INVALID, ErrorCode.UNKNOWN_SERVER_ERROR), name
        assert answer.error_code == INVALID or not is_ours, name
    assert client.end_offset(topic) == 0
    assert client.produce(topic, batch(b"one", codec=codec)).base_offset == 0


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_that_are_odd_but_can_be_read(client, topic, codec):
    for name, data in odd_but_good(codec):
        assert client.produce(topic, data).error_code == 0, name


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_opened_too_and_keeps_its_place(client, topic, codec):
    """Megabytes are opened in the background: what the connection sends behind it comes behind it."""
    values = [bytes(1000)] * 3000
    large, small = batch(*values, codec=codec), batch(b"small")
    lie = lying((COUNT, 2999), (LAST_DELTA, 2998), of=large)
    sent = [large, small, lie, small, large, small]
    requests = [produce_request(topic, data) for data in sent]
    numbers = [client.send(request, 9) for request in requests]
    answers = [
        client.receive_for(request, 9, number).responses[0].partition_responses[0]
        for request, number in zip(requests, numbers, strict=True)
    ]
    assert [answer.error_code for answer in answers] == [0, 0, INVALID, 0, 0, 0]
    assert [answer.base_offset for answer in answers] == [0, 3000, -1, 3001, 3002, 6002]
    assert len(client.read_all(topic)) == 6003


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_taken_or_refused_while_others_are_served(client, topic, attacked, codec):
    """As in Kafka, a batch of one megabyte may hold a hundred: it is counted piece by piece, beside the loop."""
    megabytes = 21 if codec == Codec.SNAPPY else 120
    content = content_of(1, size=megabytes * 1_000_000)
    bomb = batch_of(codec, compress(codec, content + b"\0"), count=1)
    assert len(bomb) < 1_048_576
    number = client.send(produce_request(topic, bomb), 9)
    with RawClient(attacked) as other:
        assert other.produce(topic, batch(b"meanwhile")).base_offset == 0
    answer = client.receive_for(produce_request(topic, bomb), 9, number).responses[0]
    assert answer.partition_responses[0].error_code == INVALID
    good = batch_of(codec, compress(codec, content), count=1)
    assert client.produce(topic, good).base_offset == 1


def test_zstd_is_for_those_who_know_it(client, topic):
    packed = batch(b"one", codec=Codec.ZSTD)
    refused = client.produce(topic, packed, version=6)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce(topic, packed, version=7).error_code == 0


# B7: an idempotent producer's sequences


class Sequenced:
    """A producer that says any sequence it likes."""

    def __init__(self, client, topic):
        self.client = client
        self.topic = topic
        self.id = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id

    def send(self, sequence, count=1, epoch=0):
        """The error, or the base offset."""
        # Now: a producer whose last batch is a day old may be forgotten at any time.
        records = [
            Record(at, time.time_ns() // 1_000_000, None, b"v%d" % at) for at in range(count)
        ]
        data = batches.build(records, producer=Producer(self.id, epoch, sequence))
        answer = self.client.produce(self.topic, bytes(data))
        return ErrorCode(answer.error_code) if answer.error_code else answer.base_offset


@pytest.fixture
def sequenced(client, topic):
    return Sequenced(client, topic)


def test_a_repeated_batch_gets_its_first_offset_and_is_not_appended(client, topic, sequenced):
    assert [sequenced.send(0, 3), sequenced.send(3), sequenced.send(4)] == [0, 3, 4]
    assert [sequenced.send(0, 3), sequenced.send(3), sequenced.send(4)] == [0, 3, 4]
    assert client.end_offset(topic) == 5


def test_a_gap_is_refused(client, topic, sequenced):
    assert sequenced.send(0) == 0
    assert sequenced.send(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.end_offset(topic) == 1
    assert sequenced.send(1) == 1


def test_a_batch_older_than_what_is_kept_is_refused(client, topic, sequenced):
    for sequence in range(8):
        assert sequenced.send(sequence) == sequence
    assert sequenced.send(3) == 3
    assert sequenced.send(0) in (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    )
    assert client.end_offset(topic) == 8


def test_half_a_repetition_is_refused(client, topic, sequenced):
    assert sequenced.send(0, 4) == 0
    assert sequenced.send(0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sequenced.send(2, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.end_offset(topic) == 4


def test_sequences_wrap_after_2_to_the_31(client, topic, sequenced):
    top = 2**31 - 1
    assert sequenced.send(top - 1, 2) == 0, "a producer that is not known may start anywhere"
    assert sequenced.send(0) == 2
    assert sequenced.send(top - 1, 2) == 0, "recognised across the wrap"
    assert sequenced.send(1) == 3
    assert client.end_offset(topic) == 4


def test_a_batch_across_the_wrap(client, topic, sequenced):
    top = 2**31 - 1
    assert sequenced.send(top - 1, 4) == 0
    assert sequenced.send(top - 1, 4) == 0
    assert sequenced.send(2) == 4
    assert client.end_offset(topic) == 5


def test_an_old_epoch_is_fenced(client, topic, sequenced):
    assert sequenced.send(0, epoch=1) == 0
    assert sequenced.send(1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert sequenced.send(1, epoch=1) == 1
    assert sequenced.send(5, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sequenced.send(0, epoch=2) == 2
    assert client.end_offset(topic) == 3
