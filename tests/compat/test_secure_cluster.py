"""Brokers that prove themselves to each other, on a real ZooKeeper that only they can read."""

import pytest
import security_kit
from cluster_kit import brokers_known, wait_until
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import barnabas

pytestmark = pytest.mark.java

TIMEOUT_S = 60
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="broker" password="broker-hush-9" user_broker="broker-hush-9";'
)


def settings(number, zookeeper, files):
    return {
        "node.id": number,
        "zookeeper.connect": zookeeper,
        "zookeeper.digest.credentials": "broker:zookeeper-hush-8",
        "zookeeper.set.acl": True,
        "listeners": "CLIENT://127.0.0.1:0,INTERNAL://127.0.0.1:0,SCRAM://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:SASL_SSL,SCRAM:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.internal.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": JAAS,
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.authority,
        "offsets.topic.replication.factor": 2,
    }


@pytest.fixture
def brokers(zookeeper, tmp_path):
    files = security_kit.make_certificates(tmp_path)
    with (
        barnabas.Broker(settings=settings(1, zookeeper, files)) as one,
        barnabas.Broker(settings=settings(2, zookeeper, files)) as two,
    ):
        yield one, two


def test_records_and_users_are_on_both(brokers):
    one, two = brokers
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    wait_until(lambda: brokers_known(admin) == 2, "both are known")
    admin.create_topics([NewTopic("t", 2, 2)])["t"].result(TIMEOUT_S)
    errors = []
    producer = Producer({"bootstrap.servers": one.bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce(
            "t",
            b"x" * 20_000,
            partition=number % 2,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None] * 100

    def in_sync():
        topic = admin.list_topics("t", timeout=TIMEOUT_S).topics["t"]
        return [len(one.isrs) for one in topic.partitions.values()] == [2, 2]

    wait_until(in_sync, "both replicas are in sync")
    consumer = Consumer({"bootstrap.servers": two.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", index, 0) for index in range(2)])
    read = 0
    while read < 100:
        read += len([one for one in consumer.consume(100, 1) if one.error() is None])
    consumer.close()

    security_kit.make_scram_users(one.bootstrap, {"alice": "alice-hush-2"})
    login = {
        "bootstrap.servers": two.bootstrap_of("SCRAM"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "alice-hush-2",
        "log_level": 0,
    }
    assert AdminClient(login).list_topics(timeout=TIMEOUT_S).topics
