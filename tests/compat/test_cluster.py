"""What clients of a cluster can do: read from the replica that is nearest, ask any broker."""

import pytest
from cluster_kit import CLIENT, PATIENCE_S, Cluster, wait_until
from confluent_kafka import Consumer, Producer, TopicPartition
from load_kit import messages_of

from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

SETTINGS = (
    "broker.rack=rack-{id}",
    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    root = f"{zookeeper_server}/compat-cluster"
    with Cluster(tmp_path_factory.mktemp("cluster"), root, settings=SETTINGS) as running:
        yield running


def produce(cluster, topic, count):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **CLIENT})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def fetch(cluster, broker_id, topic_id, offset, rack=""):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        max_bytes=1 << 20, max_wait_ms=100, min_bytes=1, rack_id=rack, session_epoch=-1,
    )  # fmt: skip
    return cluster.ask(request, 16, broker_id).responses[0].partitions[0]


def test_consumers_read_from_the_replica_in_their_rack(cluster):
    cluster.create("near", [[1, 2, 3]])
    produce(cluster, "near", 100)
    topic_id = cluster.metadata("near").topics[0].topic_id
    wait_until(
        lambda: fetch(cluster, 1, topic_id, 0, "rack-2").preferred_read_replica == 2, "sent to 2"
    )
    assert fetch(cluster, 1, topic_id, 0, "rack-1").preferred_read_replica == -1
    assert fetch(cluster, 1, topic_id, 0, "rack-9").preferred_read_replica == -1
    wait_until(lambda: fetch(cluster, 2, topic_id, 0).high_watermark == 100, "2 knows what is safe")
    near = fetch(cluster, 2, topic_id, 0, "rack-2")
    assert near.preferred_read_replica == -1
    assert bytes(near.records) == bytes(fetch(cluster, 1, topic_id, 0).records)


def test_a_consumer_with_a_rack_sees_everything(cluster):
    cluster.create("near2", [[1, 3, 2]])
    produce(cluster, "near2", 500)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "client.rack": "rack-3", **CLIENT}
    )
    consumer.assign([TopicPartition("near2", 0, 0)])
    seen = []
    while len(seen) < 500:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        seen.append(int(message.value()))
    consumer.close()
    assert seen == list(range(500))


def test_any_broker_tells_of_all(cluster):
    cluster.create("known", [[2, 3], [3, 1], [1, 2]])
    for broker_id in (1, 2, 3):
        answer = cluster.metadata("known", broker_id)
        assert sorted(broker.node_id for broker in answer.brokers) == [1, 2, 3]
        assert [broker.rack for broker in sorted(answer.brokers, key=lambda b: b.node_id)] == [
            "rack-1", "rack-2", "rack-3",
        ]  # fmt: skip
        wait_until(
            lambda b=broker_id: cluster.leaders("known", b) == [2, 3, 1], "it knows who leads"
        )
    assert not list(messages_of(cluster, "known"))
