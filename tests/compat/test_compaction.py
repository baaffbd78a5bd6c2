"""Compaction as clients see it, and held against Apache Kafka's own cleaner on the same log."""

import random
import shutil
import time

import pytest
from compat.apache_kafka import Kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from topic_kit import wait_until_ended

import barnabas
from barnabas.model.config import build_log_config
from barnabas.runtime.disk import RealDisk
from barnabas.storage.cleaner import Cleaning
from barnabas.storage.cleaning_plan import CleanerLimits, measure, plan
from barnabas.storage.log import Log
from barnabas.wire.batch import checksum_matches, headers, read_records

NOW = 1_700_000_000_000
PATIENCE_S = 90
SEGMENT_BYTES = 1 << 20


def test_a_broker_compacts_beside_its_clients():
    settings = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
    with barnabas.Broker(settings={"log.cleaner.backoff.ms": "20"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, config=settings)])["t"].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(40):
            producer.produce(
                "t", key=b"k%d" % (number % 3), value=b"%d" % number, timestamp=NOW + 10 * number
            )
            assert producer.flush(PATIENCE_S) == 0
        deadline = time.monotonic() + PATIENCE_S
        # The active segment holds the last record only, so that of its key from before stays, too.
        while (found := read_topic(broker.bootstrap)) != [b"36", b"37", b"38", b"39"]:
            assert time.monotonic() < deadline, found


def read_topic(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found = []
    while b"39" not in found:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, found
        if message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


# Against Apache Kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    settings = (
        "log.cleaner.backoff.ms=300",
        "log.retention.check.interval.ms=600000",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "transaction.state.log.num.partitions=1",
    )
    with Kafka(tmp_path_factory.mktemp("kafka"), *settings) as kafka:
        kafka.wait_ready()
        yield kafka


def clients_of(bootstrap, topic):
    """Producers of every codec, and some with transactions."""
    common = {"bootstrap.servers": bootstrap, "linger.ms": 10}
    plain = [
        Producer({**common, "compression.type": codec, "enable.idempotence": codec != "gzip"})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ]
    transactional = [
        Producer({**common, "transactional.id": f"{topic}-{codec}", "compression.type": codec})
        for codec in ("none", "zstd")
    ]
    for client in transactional:
        client.init_transactions(PATIENCE_S)
    return plain, transactional


def write_history(bootstrap, topic, seed):
    chance = random.Random(seed)
    plain, transactional = clients_of(bootstrap, topic)
    written = 0
    while written < 4 * SEGMENT_BYTES:
        client = chance.choice(plain + transactional)
        if client in transactional:
            client.begin_transaction()
        for _ in range(chance.randrange(1, 80)):
            key = chance.choice([b"key-%d", b"a rather long key, number %d"]) % chance.randrange(
                500
            )
            value = chance.choice([None, *map(chance.randbytes, (5, 50, 400, 900))])
            client.produce(topic, key=key, value=value, partition=0)
            written += len(value or b"") + len(key) + 15
        assert client.flush(PATIENCE_S) == 0
        if client in transactional:
            end = client.abort_transaction if chance.random() < 0.4 else client.commit_transaction
            end(PATIENCE_S)


def alter(admin, topic, **settings):
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)


def clean_offset(kafka, topic):
    checkpoint = kafka.data / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return {line.split()[0]: int(line.split()[2]) for line in lines}.get(topic)


def compact_copy(folder):
    """Compact a log of Kafka's as we do it; return the end of what was compacted."""
    disk = RealDisk()
    config = build_log_config({"cleanup.policy": ("compact",), "segment.bytes": SEGMENT_BYTES})
    now_ms = int(time.time() * 1000)
    log = Log.open(disk, str(folder), config, now_ms=now_ms, clean=False)
    dirtiness = measure(log, None, log.log_end_offset, now_ms)
    limits = CleanerLimits(1 << 24, 0.9, 1 << 18)
    cleaning = Cleaning(disk, plan(log, dirtiness, limits, now_ms))
    cleaning.build_map()
    for cleaned in cleaning.segments():
        job = log.plan_swap(cleaned, now_ms)
        job.run()
        log.on_swapped(job)
    log.close(clean=True)
    disk.close()
    return dirtiness.end_offset


def closed_batches(folder, end_offset):
    """Headers of the batches that hold records, and the records themselves, below an offset."""
    batches, records = [], []
    for path in sorted(folder.glob("*.log")):
        data = memoryview(path.read_bytes() if int(path.stem) < end_offset else b"")
        for position, header in headers(data):
            batch = data[position : position + header.size]
            assert checksum_matches(batch, header)
            if header.record_count:
                # Where its timestamps are counted from, and so its size and checksum, is the cleaner's own affair.
                batches.append(header._replace(batch_length=0, crc=0, base_timestamp=0))
                records += read_records(batch, 1 << 30)
    return batches, records


def aborted_transactions(folder):
    return [path.read_bytes() for path in sorted(folder.glob("*.txnindex"))]


@pytest.mark.java
def test_what_stays_is_what_apache_kafkas_cleaner_leaves(kafka, tmp_path):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    settings = {"segment.bytes": str(SEGMENT_BYTES), "cleanup.policy": "delete"}
    admin.create_topics([NewTopic("t", 1, config=settings)])["t"].result(PATIENCE_S)
    write_history(kafka.address, "t", seed=1)
    wait_until_ended(kafka.address, "t")
    theirs, ours = kafka.data / "t-0", tmp_path / "t-0"
    shutil.copytree(theirs, ours)
    alter(admin, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0001")
    end_offset = compact_copy(ours)
    deadline = time.monotonic() + PATIENCE_S
    while clean_offset(kafka, "t") != end_offset:
        assert time.monotonic() < deadline, clean_offset(kafka, "t")
    expected_batches, expected_records = closed_batches(theirs, end_offset)
    batches, records = closed_batches(ours, end_offset)
    assert records == expected_records
    assert batches == expected_batches
    assert aborted_transactions(ours) == aborted_transactions(theirs)
    assert b"".join(aborted_transactions(ours))
    assert len(records) < expected_records[-1].offset // 2
