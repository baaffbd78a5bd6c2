"""A broker of Apache Kafka 3.9 in a cluster whose controller is ours: it leads, follows, changes who is in sync, and coordinates."""

from pathlib import Path

import pytest
from cluster_kit import CLIENT, SESSION_MS, Cluster, wait_until
from compat.apache_kafka import Kafka, free_ports
from confluent_kafka import Consumer, Producer

pytestmark = pytest.mark.java

RELEASE = "3.9.2"
KAFKA = 3
PATIENCE_S = 60
#: All brokers must have the same: who coordinates what follows from it.
INTERNAL_TOPICS = {
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
}


class KafkaMember(Kafka):
    """A broker of the ZooKeeper era."""

    def __init__(self, home, zookeeper):
        self.release = RELEASE
        self.log = Path(home) / "kafka.log"
        (self.port,) = free_ports(1)
        self.properties = Path(home) / "kafka.properties"
        settings = {
            "log.dirs": Path(home) / "kafka",
            "broker.id": KAFKA,
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": SESSION_MS * 5,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "replica.lag.time.max.ms": 3000,
            "controlled.shutdown.enable": "false",
            **INTERNAL_TOPICS,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def __enter__(self):
        self.start()
        return self


def write(producer, count, partitions):
    refused = []
    for number in range(count):
        value = b"%d" % number
        producer.produce(
            "t",
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert refused == []


def test_a_broker_of_kafka_is_a_full_member(tmp_path, zookeeper):
    settings = [f"{name}={value}" for name, value in INTERNAL_TOPICS.items()]
    with (
        Cluster(tmp_path, zookeeper, count=2, settings=settings) as cluster,
        KafkaMember(tmp_path, zookeeper) as kafka,
    ):
        kafka.wait_ready()
        wait_until(lambda: len(cluster.metadata().brokers) == 3, "it is known")
        cluster.create("t", [[3, 1, 2], [1, 3, 2]])
        cluster.wait_healthy("t")
        assert cluster.controller != KAFKA
        settings = {"bootstrap.servers": kafka.address, "acks": "all", "enable.idempotence": True}
        producer = Producer({**settings, **CLIENT})
        write(producer, 200, 2)
        # What it leads goes on without a follower that stands still, and takes it in again.
        follower = next(one for one in (1, 2) if one != cluster.controller)
        cluster.pause(follower)
        write(producer, 100, 1)
        cluster.resume(follower)
        cluster.wait_healthy("t")
        teller = Producer({**settings, **CLIENT, "transactional.id": "teller"})
        teller.init_transactions(PATIENCE_S)
        teller.begin_transaction()
        for partition in (0, 1):
            teller.produce("t", b"transfer", partition=partition)
        teller.commit_transaction(PATIENCE_S)
        assert_group_reads(kafka.address, 302)


def assert_group_reads(bootstrap, count):
    """A group finds its coordinator, wherever that is, reads what is committed, and stands there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **CLIENT,
        }
    )
    try:
        consumer.subscribe(["t"])
        found = []
        wait_until(lambda: len(found.extend(consumer.consume(100, 0.5)) or found) >= count, "all is read")  # fmt: skip
        assert [each.error() for each in found if each.error()] == []
        offsets = consumer.commit(asynchronous=False)
        assert len(offsets) == 2
    finally:
        consumer.close()
