"""A cluster whose brokers are no super users: ClusterAction lets them replicate and be led, and nothing else does."""

import pytest
from acl_kit import AUTHORIZER
from cluster_kit import CLIENT, PATIENCE_S, Cluster, wait_until
from confluent_kafka import Producer
from kazoo.client import KazooClient

from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest

pytestmark = pytest.mark.java

SETTINGS = (f"authorizer.class.name={AUTHORIZER}", "super.users=User:nobody")


def rule(*operations):
    return (
        '{"version":1,"acls":['
        + ",".join(
            f'{{"principal":"User:ANONYMOUS","permissionType":"Allow","operation":"{one}","host":"*"}}'
            for one in operations
        )
        + "]}"
    ).encode()


@pytest.fixture
def client(zookeeper):
    server, _, root = zookeeper.partition("/")
    session = KazooClient(server)
    session.start(PATIENCE_S)
    session.ensure_path(f"/{root}")
    session.chroot = f"/{root}"
    yield session
    session.stop()
    session.close()


def test_cluster_action_is_what_brokers_need(tmp_path, zookeeper, client):
    client.create(
        "/kafka-acl/Cluster/kafka-cluster", rule("ClusterAction", "Create"), makepath=True
    )
    client.create("/kafka-acl/Topic/*", rule("Write", "Describe"), makepath=True)
    with Cluster(tmp_path, zookeeper, settings=SETTINGS) as cluster:
        topic = CreatableTopic(name="t", num_partitions=3, replication_factor=3)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)

        def is_made():
            codes = [cluster.ask(request, 7, broker).topics[0].error_code for broker in (1, 2, 3)]
            return 36 in codes  # it exists

        wait_until(is_made, "the topic")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **CLIENT})
        told = []
        for number in range(30):
            producer.produce(
                "t", b"v", partition=number % 3, callback=lambda error, _: told.append(error)
            )
        assert producer.flush(60) == 0
        assert told == [None] * 30
        cluster.wait_healthy("t")
        # Without it the brokers' orders are refused, and so is whoever poses as one.
        client.set("/kafka-acl/Cluster/kafka-cluster", rule("Create"))
        client.create(
            "/kafka-acl-changes/acl_changes_",
            b"CLUSTER:kafka-cluster",
            sequence=True,
            makepath=True,
        )
        order = LeaderAndIsrRequest(controller_id=9, controller_epoch=2**30, broker_epoch=-1)
        wait_until(lambda: cluster.ask(order, 7, 2).error_code == 31, "orders are denied")
