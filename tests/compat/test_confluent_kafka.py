"""librdkafka 2.16 through confluent-kafka: the client most of the non-Java world uses."""

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest
from compat.records import CODECS, FIRST_TIMESTAMP_MS, RECORDS, records

TIMEOUT_S = 30
PARTITIONS = 3
NOT_YET = (
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.UNKNOWN_TOPIC_OR_PART,
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
)


@pytest.fixture
def admin(bootstrap):
    return cka.AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin, topic_name):
    create(admin, topic_name)
    return topic_name


@pytest.fixture
def consumer(bootstrap):
    client = new_consumer(bootstrap)
    yield client
    client.close()


def new_consumer(bootstrap, **settings):
    base = {
        "bootstrap.servers": bootstrap,
        "group.id": "never-joined",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        # Shorter than the defaults only so that the tests are: a changed assignment waits for the fetch in flight,
        # and an unknown topic is given this long to appear.
        "fetch.wait.max.ms": 50,
        "topic.metadata.propagation.max.ms": 100,
    }
    return ck.Consumer(base | settings)


def create(admin, name, partitions=PARTITIONS, **config):
    admin.create_topics([cka.NewTopic(name, partitions, config=config)])[name].result(TIMEOUT_S)
    # Kafka answers before metadata shows the topic, and shows it before it leads it. Batches sent in between are retried,
    # and may land in another order.
    while name not in admin.list_topics(timeout=TIMEOUT_S).topics:
        pass
    while not all(leads(admin, name, partition) for partition in range(partitions)):
        pass


def leads(admin, topic, partition):
    (end,) = admin.list_offsets(
        {ck.TopicPartition(topic, partition): cka.OffsetSpec.latest()}
    ).values()
    try:
        return end.result(TIMEOUT_S).offset >= 0
    except ck.KafkaException as refusal:
        if refusal.args[0].code() not in NOT_YET:
            raise
        return False


def produce(bootstrap, topic, messages, **settings):
    """Sends each message and returns the delivery reports, in the order of the reports."""
    producer, reports = ck.Producer({"bootstrap.servers": bootstrap} | settings), []
    for message in messages:
        producer.produce(topic, on_delivery=lambda err, msg: reports.append((err, msg)), **message)
    assert producer.flush(TIMEOUT_S) == 0
    return reports


def written(tag, partition):
    return [
        {"key": k, "value": v, "headers": h, "timestamp": t, "partition": partition}
        for k, v, h, t in records(tag)
    ]


def read_to_end(consumer, topic, partition, offset=ck.OFFSET_BEGINNING):
    consumer.assign([ck.TopicPartition(topic, partition, offset)])
    messages = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "nothing, not even the end, within the time-out"
        if message.error() is None:
            messages.append(message)
            continue
        assert message.error().code() == ck.KafkaError._PARTITION_EOF, message.error()
        return messages


def as_record(message):
    return message.key(), message.value(), message.headers() or [], message.timestamp()[1]


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_record_comes_back_as_it_was_written(bootstrap, topic, consumer, codec, idempotent):
    settings = {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 50}
    reports = produce(bootstrap, topic, written(codec, 1), **settings)
    assert [(err, msg.offset()) for err, msg in reports] == [(None, i) for i in range(RECORDS)]
    read = read_to_end(consumer, topic, 1)
    assert [as_record(m) for m in read] == records(codec)
    assert [m.offset() for m in read] == list(range(RECORDS))
    assert {m.timestamp()[0] for m in read} == {ck.TIMESTAMP_CREATE_TIME}
    assert read_to_end(consumer, topic, 0) == []


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(bootstrap, topic, consumer, acks):
    reports = produce(bootstrap, topic, written("a", 2), acks=acks, **{"enable.idempotence": False})
    assert [err for err, _ in reports] == [None] * RECORDS
    # With acks=0 the reports do not mean that the broker has the records: wait until it does.
    while consumer.get_watermark_offsets(ck.TopicPartition(topic, 2), TIMEOUT_S) != (0, RECORDS):
        assert acks == "0"
    assert [as_record(m) for m in read_to_end(consumer, topic, 2)] == records("a")


def test_keys_choose_the_partition(bootstrap, topic, consumer):
    produce(bootstrap, topic, [{"key": f"k{i}", "value": str(i)} for i in range(60)])
    read = [[m.value() for m in read_to_end(consumer, topic, p)] for p in range(PARTITIONS)]
    assert sorted(int(v) for values in read for v in values) == list(range(60))
    assert all(read)
    for values in read:
        assert values == sorted(values, key=int)


def test_many_batches_in_order(bootstrap, topic, consumer):
    messages = [{"value": b"%d" % i + b"." * 1000, "partition": 0} for i in range(5000)]
    produce(bootstrap, topic, messages, **{"batch.size": 20_000, "linger.ms": 5})
    read = read_to_end(consumer, topic, 0)
    assert [m.value() for m in read] == [m["value"] for m in messages]
    assert [m.offset() for m in read] == list(range(5000))


def test_reading_from_offset_end_and_timestamp(bootstrap, topic, consumer):
    produce(bootstrap, topic, written("t", 0), **{"linger.ms": 50})
    assert [m.offset() for m in read_to_end(consumer, topic, 0, 15)] == [15, 16, 17, 18, 19]
    assert read_to_end(consumer, topic, 0, ck.OFFSET_END) == []

    def offset_at(timestamp_ms):
        asked = ck.TopicPartition(topic, 0, timestamp_ms)
        (found,) = consumer.offsets_for_times([asked], TIMEOUT_S)
        assert found.error is None
        return found.offset

    assert offset_at(FIRST_TIMESTAMP_MS + 4500) == 5
    assert offset_at(FIRST_TIMESTAMP_MS + 4000) == 4
    assert offset_at(0) == 0
    assert offset_at(FIRST_TIMESTAMP_MS + 10**6) == ck.OFFSET_END


def test_offset_out_of_range(bootstrap, topic, consumer):
    produce(bootstrap, topic, written("o", 0))
    assert len(read_to_end(consumer, topic, 0, 1000)) == RECORDS  # auto.offset.reset=earliest
    strict = new_consumer(bootstrap, **{"auto.offset.reset": "error"})
    try:
        strict.assign([ck.TopicPartition(topic, 0, 1000)])
        message = strict.poll(TIMEOUT_S)
        assert message.error().code() == ck.KafkaError._AUTO_OFFSET_RESET
    finally:
        strict.close()


def test_waiting_consumer_gets_what_is_written_later(bootstrap, topic, consumer):
    assert read_to_end(consumer, topic, 0) == []
    assert consumer.poll(0.3) is None
    produce(bootstrap, topic, [{"value": b"later", "partition": 0}])
    assert consumer.poll(TIMEOUT_S).value() == b"later"


def test_too_large_message_is_refused(bootstrap, admin, topic_name, consumer):
    create(admin, topic_name, **{"max.message.bytes": "1000"})
    messages = [{"value": b"y" * 2000, "partition": 0}, {"value": b"small", "partition": 0}]
    reports = produce(bootstrap, topic_name, messages, **{"linger.ms": 0, "batch.num.messages": 1})
    assert {msg.value(): err and err.code() for err, msg in reports} == {
        b"y" * 2000: ck.KafkaError.MSG_SIZE_TOO_LARGE,
        b"small": None,
    }
    assert [m.value() for m in read_to_end(consumer, topic_name, 0)] == [b"small"]


def test_unknown_topic_and_partition(bootstrap, topic, topic_name, consumer):
    absent = topic_name + "-absent"
    described = consumer.list_topics(absent, TIMEOUT_S).topics[absent]
    assert described.error.code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(ck.KafkaException) as caught:
        consumer.get_watermark_offsets(ck.TopicPartition(absent, 0), TIMEOUT_S)
    assert caught.value.args[0].code() == ck.KafkaError._UNKNOWN_PARTITION
    ((err, _),) = produce(bootstrap, topic, [{"value": b"x", "partition": PARTITIONS}])
    assert err.code() == ck.KafkaError._UNKNOWN_PARTITION


def test_producer_creates_the_topic(bootstrap, topic_name, consumer):
    reports = produce(bootstrap, topic_name, [{"value": b"made it"}])
    assert [err for err, _ in reports] == [None]
    assert [m.value() for m in read_to_end(consumer, topic_name, 0)] == [b"made it"]


def test_log_append_time(bootstrap, admin, topic_name, consumer):
    create(admin, topic_name, **{"message.timestamp.type": "LogAppendTime"})
    produce(bootstrap, topic_name, written("l", 0), **{"compression.type": "lz4", "linger.ms": 50})
    read = read_to_end(consumer, topic_name, 0)
    assert [as_record(m)[:3] for m in read] == [r[:3] for r in records("l")]
    assert {m.timestamp()[0] for m in read} == {ck.TIMESTAMP_LOG_APPEND_TIME}
    assert min(m.timestamp()[1] for m in read) > FIRST_TIMESTAMP_MS + 10**6


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_chooses_the_codec(bootstrap, admin, topic_name, consumer, codec):
    create(admin, topic_name, **{"compression.type": codec})
    for sent in ("none", "gzip", "zstd"):
        produce(
            bootstrap, topic_name, written(sent, 0), **{"compression.type": sent, "linger.ms": 50}
        )
    read = read_to_end(consumer, topic_name, 0)
    assert [as_record(m) for m in read] == records("none") + records("gzip") + records("zstd")


# Administration


def test_cluster_and_topics(admin, topic, bootstrap):
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id
    assert cluster.cluster_id == admin.list_topics(timeout=TIMEOUT_S).cluster_id
    asked = ck.TopicCollection([topic])
    described = admin.describe_topics(asked)[topic].result(TIMEOUT_S)
    assert [p.id for p in described.partitions] == list(range(PARTITIONS))
    assert {p.leader.id for p in described.partitions} == {cluster.nodes[0].id}
    assert [n.id for n in described.partitions[0].isr] == [cluster.nodes[0].id]
    assert not described.is_internal
    assert str(described.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"


def refused(future):
    with pytest.raises(ck.KafkaException) as caught:
        future.result(TIMEOUT_S)
    return caught.value.args[0].code()


def test_create_refusals(admin, topic, topic_name):
    def code(*args, validate_only=False, **kwargs):
        asked = cka.NewTopic(*args, **kwargs)
        return refused(admin.create_topics([asked], validate_only=validate_only)[asked.topic])

    assert code(topic, 1) == ck.KafkaError.TOPIC_ALREADY_EXISTS
    assert code("bad name", 1) == ck.KafkaError.TOPIC_EXCEPTION
    assert code("x" * 250, 1) == ck.KafkaError.TOPIC_EXCEPTION
    fresh = topic_name + "-2"
    assert code(fresh, 0) == ck.KafkaError.INVALID_PARTITIONS
    assert code(fresh, 1, replication_factor=9) == ck.KafkaError.INVALID_REPLICATION_FACTOR
    assert code(fresh, 1, config={"no.such": "1"}) == ck.KafkaError.INVALID_CONFIG
    assert code(fresh, 1, config={"retention.ms": "soon"}) == ck.KafkaError.INVALID_CONFIG
    admin.create_topics([cka.NewTopic(fresh, 1)], validate_only=True)[fresh].result(TIMEOUT_S)
    assert fresh not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_delete_topic(admin, topic, bootstrap):
    produce(bootstrap, topic, written("d", 0))
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    while topic in admin.list_topics(timeout=TIMEOUT_S).topics:
        pass
    assert refused(admin.delete_topics([topic])[topic]) == ck.KafkaError.UNKNOWN_TOPIC_OR_PART
    create(admin, topic)
    consumer = new_consumer(bootstrap)
    try:
        assert read_to_end(consumer, topic, 0) == []
    finally:
        consumer.close()


def test_create_partitions(admin, topic, bootstrap, consumer):
    def grow(total):
        return admin.create_partitions([cka.NewPartitions(topic, total)])[topic]

    grow(5).result(TIMEOUT_S)
    while len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) != 5:
        pass
    assert refused(grow(4)) == ck.KafkaError.INVALID_PARTITIONS
    produce(bootstrap, topic, [{"value": b"new", "partition": 4}])
    assert [m.value() for m in read_to_end(consumer, topic, 4)] == [b"new"]


def topic_config(admin, topic):
    resource = cka.ConfigResource(cka.ResourceType.TOPIC, topic)
    (future,) = admin.describe_configs([resource]).values()
    return future.result(TIMEOUT_S)


def test_configs(admin, topic):
    before = topic_config(admin, topic)
    assert before["cleanup.policy"].value == "delete"
    assert before["compression.type"].value == "producer"
    assert before["max.message.bytes"].value == "1048588"
    assert before["retention.ms"].is_default
    alter = cka.ConfigEntry
    changes = [
        alter("retention.ms", "5000", incremental_operation=cka.AlterConfigOpType.SET),
        alter("cleanup.policy", "compact", incremental_operation=cka.AlterConfigOpType.APPEND),
    ]
    change_config(admin, topic, changes).result(TIMEOUT_S)
    wait_for(lambda: topic_config(admin, topic)["retention.ms"].value == "5000")
    after = topic_config(admin, topic)
    assert after["cleanup.policy"].value in ("delete,compact", "compact,delete")
    assert after["retention.ms"].source == cka.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    undo = [alter("retention.ms", None, incremental_operation=cka.AlterConfigOpType.DELETE)]
    change_config(admin, topic, undo).result(TIMEOUT_S)
    wait_for(lambda: topic_config(admin, topic)["retention.ms"].is_default)
    wrong = [alter("retention.ms", "soon", incremental_operation=cka.AlterConfigOpType.SET)]
    assert refused(change_config(admin, topic, wrong)) == ck.KafkaError.INVALID_CONFIG


def change_config(admin, topic, entries):
    resource = cka.ConfigResource(cka.ResourceType.TOPIC, topic, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource]).values()
    return future


def wait_for(condition):
    """Metadata and settings may show a change a moment after it was answered, on Kafka too."""
    while not condition():
        pass


def test_broker_config(admin):
    node = admin.describe_cluster().result(TIMEOUT_S).nodes[0]
    resource = cka.ConfigResource(cka.ResourceType.BROKER, str(node.id))
    (future,) = admin.describe_configs([resource]).values()
    settings = future.result(TIMEOUT_S)
    assert settings["auto.create.topics.enable"].value == "true"
    assert settings["log.segment.bytes"].value == "1073741824"
    assert settings["message.max.bytes"].value == "1048588"


def test_delete_records(admin, topic, bootstrap, consumer):
    produce(bootstrap, topic, written("r", 0), **{"batch.num.messages": 4})
    partition = ck.TopicPartition(topic, 0, 7)
    (future,) = admin.delete_records([partition]).values()
    assert future.result(TIMEOUT_S).low_watermark == 7
    assert consumer.get_watermark_offsets(partition, TIMEOUT_S) == (7, RECORDS)
    assert [m.offset() for m in read_to_end(consumer, topic, 0)] == list(range(7, RECORDS))
    (future,) = admin.delete_records([ck.TopicPartition(topic, 0, 100)]).values()
    assert refused(future) == ck.KafkaError.OFFSET_OUT_OF_RANGE
    (future,) = admin.delete_records([ck.TopicPartition(topic, 0, ck.OFFSET_END)]).values()
    assert future.result(TIMEOUT_S).low_watermark == RECORDS
    assert read_to_end(consumer, topic, 0) == []


def test_list_offsets(admin, topic, bootstrap):
    produce(bootstrap, topic, written("s", 1), **{"linger.ms": 50})

    def offset(spec):
        (future,) = admin.list_offsets({ck.TopicPartition(topic, 1): spec}).values()
        result = future.result(TIMEOUT_S)
        return result.offset, result.timestamp

    assert offset(cka.OffsetSpec.earliest()) == (0, -1)
    assert offset(cka.OffsetSpec.latest()) == (RECORDS, -1)
    last = RECORDS - 1
    assert offset(cka.OffsetSpec.max_timestamp()) == (last, FIRST_TIMESTAMP_MS + last * 1000)
    at = FIRST_TIMESTAMP_MS + 6000
    assert offset(cka.OffsetSpec.for_timestamp(at - 1)) == (6, at)
