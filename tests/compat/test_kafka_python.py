"""kafka-python 3: the pure Python client."""

import uuid

import kafka
import kafka.errors
import pytest
from compat.records import CODECS, FIRST_TIMESTAMP_MS, RECORDS, records
from kafka import TopicPartition
from kafka import codec as kafka_codec
from kafka.admin import AlterConfigOp, ConfigResource, OffsetSpec

TIMEOUT_MS = 30_000
PARTITIONS = 3


@pytest.fixture
def admin(bootstrap):
    client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin, topic_name):
    create(admin, topic_name)
    return topic_name


@pytest.fixture
def consumer(bootstrap):
    client = kafka.KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=50)
    yield client
    client.close()


def create(admin, name, **configs):
    spec = {"num_partitions": PARTITIONS, "configs": configs}
    admin.create_topics({name: spec}, wait_for_metadata=True)
    # Kafka shows a topic before it leads it. Batches sent in between are retried, and may land in another order.
    ends = {TopicPartition(name, p): OffsetSpec.LATEST for p in range(PARTITIONS)}
    admin.list_partition_offsets(ends)


def produce(bootstrap, topic, partition, sent, **settings):
    """Sends `sent` (as from records()) and returns what the client says about each."""
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        futures = [producer.send(topic, v, k, h, partition, t) for k, v, h, t in sent]
        return [future.get(TIMEOUT_MS / 1000) for future in futures]
    finally:
        producer.close()


def read(consumer, partition, count):
    """Polls until `count` records are there."""
    found = []
    while len(found) < count:
        polled = consumer.poll(TIMEOUT_MS)
        assert polled, f"only {len(found)} of {count} records within the time-out"
        found += polled[partition]
    return found


def read_from_beginning(consumer, topic, partition, count):
    where = TopicPartition(topic, partition)
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    return read(consumer, where, count)


def as_record(message):
    return message.key, message.value, list(message.headers), message.timestamp


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_record_comes_back_as_it_was_written(bootstrap, topic, consumer, codec, idempotent):
    if codec != "none" and not getattr(kafka_codec, f"has_{codec}")():
        pytest.skip(f"kafka-python has no {codec} library here")
    settings = {
        "compression_type": None if codec == "none" else codec,
        "enable_idempotence": idempotent,
        "linger_ms": 50,
    }
    reports = produce(bootstrap, topic, 1, records(codec), **settings)
    assert [r.offset for r in reports] == list(range(RECORDS))
    found = read_from_beginning(consumer, topic, 1, RECORDS)
    assert [as_record(m) for m in found] == records(codec)
    assert [m.offset for m in found] == list(range(RECORDS))
    assert {m.timestamp_type for m in found} == {0}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(bootstrap, topic, consumer, acks):
    settings = {"acks": acks, "enable_idempotence": False}
    produce(bootstrap, topic, 2, records("a"), **settings)
    found = read_from_beginning(consumer, topic, 2, RECORDS)
    assert [as_record(m) for m in found] == records("a")


def test_reading_from_offset_end_and_timestamp(bootstrap, topic, consumer):
    produce(bootstrap, topic, 0, records("t"), linger_ms=50)
    where = TopicPartition(topic, 0)
    consumer.assign([where])
    consumer.seek(where, 15)
    assert [m.offset for m in read(consumer, where, 5)] == [15, 16, 17, 18, 19]
    consumer.seek_to_end(where)
    assert consumer.position(where) == RECORDS
    assert consumer.poll(200) == {}
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: RECORDS}

    def offset_at(timestamp_ms):
        found = consumer.offsets_for_times({where: timestamp_ms})[where]
        return found and (found.offset, found.timestamp)

    assert offset_at(FIRST_TIMESTAMP_MS + 4500) == (5, FIRST_TIMESTAMP_MS + 5000)
    assert offset_at(0) == (0, FIRST_TIMESTAMP_MS)
    assert offset_at(FIRST_TIMESTAMP_MS + 10**6) is None


def test_offset_out_of_range(bootstrap, topic):
    produce(bootstrap, topic, 0, records("o"))
    where = TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none")
    try:
        consumer.assign([where])
        consumer.seek(where, 1000)
        with pytest.raises(kafka.errors.OffsetOutOfRangeError):
            consumer.poll(TIMEOUT_MS)
    finally:
        consumer.close()


def test_waiting_consumer_gets_what_is_written_later(bootstrap, topic):
    where = TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        assert consumer.poll(300) == {}
        produce(bootstrap, topic, 0, records("w")[:1])
        assert [as_record(m) for m in read(consumer, where, 1)] == records("w")[:1]
    finally:
        consumer.close()


def test_too_large_message_is_refused(bootstrap, admin, topic_name, consumer):
    create(admin, topic_name, **{"max.message.bytes": "1000"})
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    try:
        large = producer.send(topic_name, b"y" * 2000, partition=0)
        with pytest.raises(kafka.errors.MessageSizeTooLargeError):
            large.get(TIMEOUT_MS / 1000)
    finally:
        producer.close()
    produce(bootstrap, topic_name, 0, [(None, b"small", [], None)])
    assert [m.value for m in read_from_beginning(consumer, topic_name, 0, 1)] == [b"small"]


def test_cluster_topics_and_log_dirs(admin, topic, bootstrap):
    produce(bootstrap, topic, 0, records("c"))
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert f"{node['host']}:{node['port']}" == bootstrap
    assert cluster["controller_id"] == node["broker_id"]
    (described,) = admin.describe_topics([topic])
    assert [p["partition_index"] for p in described["partitions"]] == list(range(PARTITIONS))
    assert {p["leader_id"] for p in described["partitions"]} == {node["broker_id"]}
    page = admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert [p["partition_index"] for p in page["topics"][0]["partitions"]] == [0, 1]
    assert page["next_cursor"] == {"topic_name": topic, "partition_index": 2}
    page = admin.describe_topic_partitions([topic], cursor=page["next_cursor"])
    assert [p["partition_index"] for p in page["topics"][0]["partitions"]] == [2]
    assert page["next_cursor"] is None
    (dirs,) = admin.describe_log_dirs([topic])
    (directory,) = dirs["log_dirs"]
    (shown,) = directory["topics"]
    assert shown["name"] == topic
    sizes = {p["partition_index"]: p["partition_size"] for p in shown["partitions"]}
    assert set(sizes) == set(range(PARTITIONS))
    assert sizes[0] > 1000
    assert sizes[1] == 0


def test_create_and_delete_topics(admin, topic):
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([topic])
    with pytest.raises(kafka.errors.InvalidTopicError):
        admin.create_topics(["bad name"])
    spec = {"assignments": {0: [7777]}}
    with pytest.raises(kafka.errors.InvalidReplicationAssignmentError):
        admin.create_topics({topic + "-2": spec})
    (described,) = admin.describe_topics([topic])
    topic_id = uuid.UUID(str(described["topic_id"]))
    assert admin.describe_topics([topic_id])[0]["name"] == topic
    admin.delete_topics([topic_id])
    while topic in admin.list_topics():
        pass
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_create_partitions(admin, topic, bootstrap, consumer):
    admin.create_partitions({topic: 5})
    while len(admin.describe_topics([topic])[0]["partitions"]) != 5:
        pass
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        admin.create_partitions({topic: 5})
    produce(bootstrap, topic, 4, records("p"))
    found = read_from_beginning(consumer, topic, 4, RECORDS)
    assert [as_record(m) for m in found] == records("p")


def modified(admin, topic):
    return {
        name: config["value"]
        for name, config in admin.describe_configs([ConfigResource("topic", topic)])["topic"][
            topic
        ].items()
    }


@pytest.mark.parametrize("incremental", [True, False], ids=["incremental", "whole"])
def test_configs(admin, topic, incremental):
    def alter(configs):
        admin.alter_configs([ConfigResource("topic", topic, configs)], incremental=incremental)

    assert modified(admin, topic) == {}
    alter({"retention.ms": "5000"})
    while modified(admin, topic) != {"retention.ms": "5000"}:
        pass
    alter({"segment.bytes": "2000000"})
    while modified(admin, topic) != {"retention.ms": "5000", "segment.bytes": "2000000"}:
        pass
    if incremental:
        alter({"cleanup.policy": (AlterConfigOp.APPEND, "compact")})
        while "compact" not in modified(admin, topic).get("cleanup.policy", ""):
            pass
    changed = list(modified(admin, topic))
    admin.reset_configs([ConfigResource("topic", topic, changed)], incremental=incremental)
    while modified(admin, topic) != {}:
        pass


def test_every_topic_setting_is_described(admin, topic):
    everything = admin.describe_configs(
        [ConfigResource("topic", topic)], include_synonyms=True, config_filter="all"
    )["topic"][topic]
    assert everything["compression.type"]["value"] == "producer"
    assert everything["segment.bytes"]["synonyms"][0]["name"] == "log.segment.bytes"
    assert len(everything) > 25


def test_delete_records(admin, topic, bootstrap, consumer):
    produce(bootstrap, topic, 0, records("r"), batch_size=300)
    where = TopicPartition(topic, 0)
    assert admin.delete_records({where: 7})[where]["low_watermark"] == 7
    assert consumer.beginning_offsets([where]) == {where: 7}
    found = read_from_beginning(consumer, topic, 0, RECORDS - 7)
    assert [m.offset for m in found] == list(range(7, RECORDS))


def test_list_offsets(admin, topic, bootstrap):
    produce(bootstrap, topic, 1, records("s"), linger_ms=50)
    where = TopicPartition(topic, 1)

    def offset(spec):
        return admin.list_partition_offsets({where: spec})[where].offset

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == RECORDS
    assert offset(OffsetSpec.MAX_TIMESTAMP) == RECORDS - 1
    assert offset(OffsetSpec.EARLIEST_LOCAL) == 0
    assert offset(FIRST_TIMESTAMP_MS + 5500) == 6
