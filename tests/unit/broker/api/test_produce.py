"""Produce: acks, topics by name and id, idempotence, settings of the topic, what a full disk answers."""

import errno
import random
import struct

import pytest
from crc32c import crc32c
from node_kit import DATA, NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.sim.world import START_MS
from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record, read_header, read_records
from barnabas.wire.compression import Codec
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

HOUR_MS = 3_600_000


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=2)
    return kit


def records(count=1, *, timestamp=START_MS, key=b"k", **how):
    return batch.build([Record(i, timestamp, key, b"v") for i in range(count)], **how)


def request(data, *, topic="t", index=0, acks=-1, **fields):
    partition = PartitionProduceData(index=index, records=data)
    topics = [TopicProduceData(name=topic, partition_data=[partition])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **fields)


def answer(kit, data, version=9, **how):
    found = kit.ask(request(data, **how), version).responses[0].partition_responses[0]
    return ErrorCode(found.error_code), found.base_offset


def stored(kit, topic="t"):
    found = kit.ask(kit.fetch_request(topic, 0), 11).responses[0].partitions[0]
    return memoryview(bytearray(found.records))


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_count_up(kit, acks):
    assert answer(kit, records(3), acks=acks) == (ErrorCode.NONE, 0)
    assert answer(kit, records(2), acks=acks) == (ErrorCode.NONE, 3)
    assert kit.offset("t", -1) == 5


def test_acks_0_is_not_answered(kit):
    kit.client.send(request(records(3), acks=0), 9)
    kit.client.sent.pop()
    kit.run(lambda: kit.node.replicas.get("t", 0).log.log_end_offset == 3)
    assert kit.client.answers[1:] == []


def test_acks_0_that_fails_loses_its_link(kit):
    kit.client.send(request(records(3), topic="nosuch", acks=0), 9)
    kit.run(lambda: kit.client.is_closed)


def test_other_acks_are_refused(kit):
    assert answer(kit, records(), acks=2)[0] == ErrorCode.INVALID_REQUIRED_ACKS
    assert kit.offset("t", -1) == 0


def test_unknown_partitions_are_told_and_the_others_written(kit):
    both = request(records())
    both.topic_data[0].partition_data.append(PartitionProduceData(index=9, records=records()))
    found = kit.ask(both, 9).responses[0].partition_responses
    assert [p.error_code for p in found] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert kit.offset("t", -1) == 1


def test_topics_are_named_by_id_from_version_13_on(kit):
    topic_id = kit.node.topics.by_name["t"].id
    for asked, code in ((topic_id, 0), (bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID)):
        data = PartitionProduceData(index=0, records=records())
        topic = TopicProduceData(topic_id=asked, partition_data=[data])
        found = kit.ask(ProduceRequest(acks=1, timeout_ms=9, topic_data=[topic]), 13)
        assert found.responses[0].topic_id == asked
        assert found.responses[0].partition_responses[0].error_code == code


def test_a_repeated_batch_is_acknowledged_and_not_written_again(kit):
    producer = kit.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    one = records(3, producer=Producer(producer, 0, 0))
    two = records(2, producer=Producer(producer, 0, 3))
    assert answer(kit, bytes(one)) == (ErrorCode.NONE, 0)
    assert answer(kit, bytes(two)) == (ErrorCode.NONE, 3)
    assert answer(kit, bytes(one)) == (ErrorCode.NONE, 0)
    assert kit.offset("t", -1) == 5
    gap = records(1, producer=Producer(producer, 0, 9))
    assert answer(kit, gap)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def log_start(kit, data):
    found = kit.ask(request(data), 9).responses[0].partition_responses[0]
    assert found.error_code
    return found.log_start_offset


def test_where_the_log_starts_is_told_beside_what_the_log_refuses_and_nothing_else(kit):
    answer(kit, records(5, producer=Producer(7, 1, 0)))
    cut = DeleteRecordsPartition(partition_index=0, offset=3)
    topics = [DeleteRecordsTopic(name="t", partitions=[cut])]
    kit.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
    assert log_start(kit, records(producer=Producer(7, 1, 9))) == 3
    assert log_start(kit, records(producer=Producer(7, 0, 5))) == 3
    assert log_start(kit, records(attributes=batch.CONTROL)) == 3
    assert log_start(kit, records(timestamp=START_MS * 2)) == 3
    good = bytes(records())
    for no_batch in (b"", good + good, good[:-1], good[:-1] + b"x"):
        assert log_start(kit, no_batch) == -1
    assert log_start(kit, batch.build([Record(0, START_MS, None, b"v" * 2_000_000)])) == -1


@pytest.mark.parametrize("again", ["restart", "crash"])
def test_sequences_outlive_the_process(kit, again):
    producer = kit.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    one = records(3, producer=Producer(producer, 0, 0))
    answer(kit, bytes(one))
    kit.restart() if again == "restart" else kit.crash(Crash.PROCESS)
    assert answer(kit, bytes(one)) == (ErrorCode.NONE, 0)
    assert kit.offset("t", -1) == 3
    assert kit.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id != producer


def test_transactional_batches_of_nobody_are_refused(kit):
    data = records(1, attributes=batch.TRANSACTIONAL, producer=Producer(1, 0, 0))
    assert answer(kit, data)[0] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert kit.offset("t", -1) == 0


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("sent", Codec)
def test_compression_type_of_the_topic(kit, wanted, sent):
    kit.create("c", compression_type=wanted)
    assert answer(kit, records(20, codec=sent), topic="c") == (ErrorCode.NONE, 0)
    found = stored(kit, "c")
    assert read_header(found).codec == getattr(Codec, wanted.upper(), Codec.NONE)
    assert len(read_records(found, 1 << 20)) == 20


def test_log_append_time(kit):
    kit.create("a", message_timestamp_type="LogAppendTime")
    found = kit.ask(request(records(2, timestamp=5), topic="a"), 9)
    time = found.responses[0].partition_responses[0].log_append_time_ms
    assert time > START_MS - HOUR_MS
    assert {r.timestamp for r in read_records(stored(kit, "a"), 1 << 20)} == {time}


@pytest.mark.parametrize(
    ("ahead_ms", "code"),
    [
        (2 * HOUR_MS, ErrorCode.INVALID_TIMESTAMP),
        (HOUR_MS // 2, ErrorCode.NONE),
        (-2 * HOUR_MS, ErrorCode.INVALID_TIMESTAMP),
        (-HOUR_MS // 2, ErrorCode.NONE),
    ],
)
def test_bounds_of_timestamps(kit, ahead_ms, code):
    kit.create(
        "b",
        message_timestamp_before_max_ms=str(HOUR_MS),
        message_timestamp_after_max_ms=str(HOUR_MS),
    )
    now_ms = kit.node.world.clock.now_ms()
    assert answer(kit, records(timestamp=now_ms + ahead_ms), topic="b")[0] == code


def test_max_message_bytes(kit):
    kit.create("small", max_message_bytes="500")
    assert answer(kit, records(100), topic="small")[0] == ErrorCode.MESSAGE_TOO_LARGE
    assert answer(kit, records(1), topic="small")[0] == ErrorCode.NONE


def test_min_insync_replicas_counts_for_acks_all_only(kit):
    kit.create("two", min_insync_replicas="2")
    assert answer(kit, records(), topic="two")[0] == ErrorCode.NONE, "one of one is all"
    kit.node.replicas.get("two", 0).state.replicas = (1, 2)  # and the other is not in sync
    assert answer(kit, records(), topic="two")[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert answer(kit, records(), topic="two", acks=1)[0] == ErrorCode.NONE


def test_with_flush_messages_an_answer_outlives_a_power_loss(kit):
    kit.create("safe", flush_messages="1")
    for count in range(1, 4):
        assert answer(kit, records(count), topic="safe")[0] == ErrorCode.NONE
    kit.crash(Crash.POWER)
    assert kit.offset("safe", -1) == 6


def test_a_sync_that_fails_is_told_and_never_forgotten(kit):
    kit.create("safe", flush_messages="1")
    kit.disk.fail_path(f"{DATA}/safe-0/00000000000000000000.log", errno.EIO)
    assert answer(kit, records(), topic="safe")[0] == ErrorCode.KAFKA_STORAGE_ERROR
    kit.disk.heal()
    assert answer(kit, records(), topic="safe")[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer(kit, records(), topic="t")[0] == ErrorCode.KAFKA_STORAGE_ERROR, "as its directory"


def test_a_sync_that_fails_fails_its_partition_alone():
    told = set()
    for nth in range(2, 8):  # the first call writes the other topic's records
        kit = NodeKit()
        kit.create("t")
        kit.create("safe", flush_messages="1")
        both = request(records())
        both.topic_data += request(records(), topic="safe").topic_data
        kit.disk.fail_call(nth, errno.ENOSPC)
        other, safe = (topic.partition_responses[0] for topic in kit.ask(both, 9).responses)
        assert not other.error_code
        told.add((ErrorCode(safe.error_code), safe.error_message))
    assert (ErrorCode.NONE, None) in told
    assert (ErrorCode.KAFKA_STORAGE_ERROR, "safe-0: could not be synced") in told


def test_a_full_disk_refuses_and_takes_again_when_there_is_room(kit):
    assert answer(kit, records(10))[0] == ErrorCode.NONE
    room = kit.disk.capacity_bytes
    kit.disk.capacity_bytes = kit.disk.used_bytes
    assert answer(kit, records(10))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert kit.offset("t", -1) == 10
    kit.disk.capacity_bytes = room
    assert answer(kit, records(10)) == (ErrorCode.NONE, 10)


def test_what_a_client_counts_is_counted(kit):
    answer(kit, records(3))
    answer(kit, b"x" * 80)
    metrics = kit.node.metrics.by_topic["t"]
    assert (metrics.messages_in, metrics.produces, metrics.failed_produces) == (3, 2, 1)
    assert metrics.bytes_in == len(records(3))


@pytest.mark.parametrize("setting", ["cleanup_policy", "message_timestamp_before_max_ms"])
def test_a_small_batch_that_claims_millions_of_records_is_not_looked_into(kit, setting):
    value = {"cleanup_policy": "compact"}.get(setting, "1000")
    kit.create("strict", **{setting: value})
    data = bytearray(records(1, codec=Codec.ZSTD))
    struct.pack_into(">i", data, 23, 999_999)
    struct.pack_into(">i", data, 57, 1_000_000)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    assert answer(kit, bytes(data), topic="strict")[0] == ErrorCode.INVALID_RECORD
    assert kit.offset("strict", -1) == 0


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("zstd", "1", "19")])
def test_the_level_of_the_topics_codec_counts(kit, codec, low, high):
    noise = random.Random(1)
    words = [noise.randbytes(8) for _ in range(200)]
    value = b"".join(noise.choice(words) for _ in range(4000))
    sizes = []
    for level in (low, high):
        name = f"{codec}-{level}"
        kit.create(name, compression_type=codec, **{f"compression_{codec}_level": level})
        assert answer(kit, batch.build([Record(0, START_MS, b"k", value)]), topic=name)[0] == 0
        sizes.append(kit.node.replicas.get(name, 0).log.size_bytes)
    assert sizes[0] != sizes[1]


def test_the_brokers_own_topics_are_not_for_clients(kit):
    kit.create("__consumer_offsets")
    code, _ = answer(kit, records(), topic="__consumer_offsets")
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
