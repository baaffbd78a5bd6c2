"""Quotas as others see them: the same throttle times as Apache Kafka's, its tools, and clients that say that they were throttled."""

import re
import struct
import time
import uuid

import pytest
from compat.apache_kafka import Kafka, shared_kafka
from compat.conftest import running_broker
from compat.wire_client import WireClient
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CONFIGS = "kafka.admin.ConfigCommand"
TIMEOUT_S = 60
#: Heads of requests and answers are counted as well.
CLOSE_MS = 50
THROTTLING_QUOTA_EXCEEDED = 89


class NamedClient(WireClient):
    """Says which client it is."""

    def __init__(self, bootstrap, client_id):
        super().__init__(bootstrap)
        self.client_id = client_id.encode()

    def send(self, request, version):
        self.correlation_id += 1
        head = struct.pack(
            ">hhih", request.API_KEY, version, self.correlation_id, len(self.client_id)
        )
        tags = b"\0" if version >= request.FLEXIBLE_FROM else b""
        body = b"".join(bytes(part) for part in request.encode(version))
        frame = head + self.client_id + tags + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)


@pytest.fixture(scope="module")
def our_address(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(scope="module", params=["barnabas", pytest.param("kafka", marks=pytest.mark.java)])
def address(request, tmp_path_factory, our_address):
    if request.param == "barnabas":
        yield our_address
    else:
        with shared_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
            yield kafka


@pytest.fixture
def name():
    return f"quota-{uuid.uuid4().hex[:10]}"


def limit(address, client_id, **limits):
    """Set quotas, and wait until the broker has them: Kafka's learn of them later."""
    entity = [EntityData(entity_type="client-id", entity_name=client_id)]
    ops = [OpData(key=key, value=float(value)) for key, value in limits.items()]
    client = WireClient(address)
    entries = [RequestEntryData(entity=entity, ops=ops)]
    answer = client.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert answer.entries[0].error_code == 0, answer
    component = ComponentData(entity_type="client-id", match_type=0, match=client_id)
    while not client.ask(DescribeClientQuotasRequest(components=[component]), 1).entries:
        pass
    client.close()


def create(client, topic, partitions=1):
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    return client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)


def made(address, topic):
    """Create a topic as somebody without a quota, and wait until it is led."""
    client = WireClient(address)
    assert create(client, topic).topics[0].error_code == 0
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    while True:
        found = client.ask(request, 12).topics[0]
        if not found.error_code and all(p.leader_id >= 0 for p in found.partitions):
            return client


def produce(client, topic, size):
    records = batch.build([Record(0, 1_700_000_000_000, None, bytes(size), ())])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    while True:
        answer = client.ask(request, 9)
        code = answer.responses[0].partition_responses[0].error_code
        if code != 6:  # NOT_LEADER_OR_FOLLOWER: Kafka has told of it before it is so
            assert code == 0
            return answer.throttle_time_ms


def fetch(client, topic, offset):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=400_000)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )  # fmt: skip
    answer = client.ask(request, 11)
    found = sum(len(p.records or b"") for one in answer.responses for p in one.partitions)
    return answer.throttle_time_ms, found


def is_kafkas(throttle_ms, total, limit, since):
    """Tell whether a throttle time is what Kafka's windows make of a sum: ten of them, and what has passed of the next."""
    most_ms = total / limit * 1000 - 10_000
    return most_ms - (time.monotonic() - since) * 1000 - 5 <= throttle_ms <= most_ms + CLOSE_MS


def test_a_producer_is_throttled_for_as_long_as_in_kafka(address, name):
    made(address, name).close()
    limit(address, name, producer_byte_rate=100_000)
    client = NamedClient(address, name)
    since = time.monotonic()
    assert produce(client, name, 900_000) == 0
    assert is_kafkas(produce(client, name, 600_000), 1_500_000, 100_000, since)
    client.close()


def test_a_consumer_is_throttled_for_as_long_as_in_kafka(address, name):
    filler = made(address, name)
    for _ in range(4):
        produce(filler, name, 300_000)
    filler.close()
    limit(address, name, consumer_byte_rate=50_000)
    client = NamedClient(address, name)
    since = time.monotonic()
    assert fetch(client, name, 0) == (0, 400_000)
    throttle_ms, found = fetch(client, name, 1)
    assert found == 0
    assert is_kafkas(throttle_ms, 800_000, 50_000, since)
    client.close()


def test_permits_run_out_as_in_kafka(address, name):
    limit(address, name, controller_mutation_rate=1)
    client = NamedClient(address, name)
    # Five more than there are: so many seconds has the second one time to come.
    first = create(client, f"{name}-a", partitions=16)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
    second = create(client, f"{name}-b", partitions=2)
    assert second.topics[0].error_code == THROTTLING_QUOTA_EXCEEDED
    assert 0 < second.throttle_time_ms <= 5000
    third = create(client, f"{name}-b", partitions=2)
    assert third.topics[0].error_code == 0
    client.close()


def test_librdkafka_says_that_it_is_throttled(our_address, name):
    made(our_address, name).close()
    limit(our_address, name, producer_byte_rate=100_000, consumer_byte_rate=100_000)
    events = []
    settings = {
        "bootstrap.servers": our_address,
        "client.id": name,
        "throttle_cb": events.append,
    }
    producer = Producer({**settings, "batch.size": 200_000, "linger.ms": 0})
    for _ in range(12):
        producer.produce(name, bytes(100_000))
        assert producer.flush(TIMEOUT_S) == 0
    while not events:
        producer.poll(1)
    assert events[0].throttle_time > 0

    events.clear()
    consumer = Consumer({**settings, "group.id": name, "fetch.message.max.bytes": 100_000})
    consumer.assign([TopicPartition(name, 0, 0)])
    seen = 0
    while seen < 12 or not events:
        message = consumer.poll(1)
        assert message is None or message.error() is None
        seen += message is not None
    assert events[0].throttle_time > 0
    consumer.close()


@pytest.mark.java
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_javas_clients_say_that_they_are_throttled(our_address, name, kafka_tool, release):
    made(our_address, name).close()
    limit(our_address, name, producer_byte_rate=200_000, consumer_byte_rate=200_000)
    connection = ("bootstrap.servers=" + our_address, "client.id=" + name)
    done = kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", name, "--num-records", "2500",
        "--record-size", "1000", "--throughput", "-1", "--print-metrics",
        "--producer-props", *connection, release=release,
    )  # fmt: skip
    assert metric(done.stdout, "produce-throttle-time-max") > 0
    assert "2500 records sent" in done.stdout


def metric(text, name):
    found = re.findall(rf":{name}:\S*\s*:\s*([0-9.]+|NaN)", text)
    assert found, text
    return max(float(one) for one in found if one != "NaN")


@pytest.mark.java
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_kafka_configs_sets_shows_and_removes_quotas(our_address, name, kafka_tool, release):
    def tool(*args):
        return kafka_tool(CONFIGS, "--bootstrap-server", our_address, *args, release=release).stdout

    entity = (
        "--entity-type",
        "users",
        "--entity-name",
        name,
        "--entity-type",
        "clients",
        "--entity-default",
    )
    tool("--alter", *entity, "--add-config", "producer_byte_rate=1024,request_percentage=50.5")
    shown = tool("--describe", *entity)
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=50.5" in shown
    tool("--alter", *entity, "--delete-config", "producer_byte_rate")
    shown = tool("--describe", *entity)
    assert "producer_byte_rate" not in shown
    assert "request_percentage=50.5" in shown
    tool("--alter", "--entity-type", "ips", "--entity-name", "192.0.2.9",
         "--add-config", "connection_creation_rate=7")  # fmt: skip
    assert "connection_creation_rate=7.0" in tool(
        "--describe", "--entity-type", "ips", "--entity-name", "192.0.2.9"
    )


class KafkaOnZooKeeper(Kafka):
    """The last Apache Kafka that keeps quotas in ZooKeeper."""

    def __init__(self, home, zookeeper):
        super().__init__(home, release="3.9.2")
        self.properties.write_text(
            f"log.dirs={self.data}\nbroker.id=2\nzookeeper.connect={zookeeper}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port}\noffsets.topic.replication.factor=1\n"
        )

    def __enter__(self):
        self.start()
        return self


def all_quotas(address):
    client = WireClient(address)
    answer = client.ask(DescribeClientQuotasRequest(), 1)
    client.close()
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


def set_all(address, quotas):
    client = WireClient(address)
    entries = [
        RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value) for key, value in limits.items()],
        )
        for entity, limits in quotas.items()
    ]
    answer = client.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert [entry.error_code for entry in answer.entries] == [0] * len(entries), answer
    client.close()


@pytest.mark.java
def test_kafka_and_we_read_what_the_other_has_kept_in_zookeeper(tmp_path, zookeeper):
    theirs = {
        (("user", "a b*c/d~é"),): {"producer_byte_rate": 1024.0, "request_percentage": 50.5},
        (("client-id", None), ("user", "alice")): {"consumer_byte_rate": 2048.0},
        (("client-id", "c.d"), ("user", None)): {"controller_mutation_rate": 0.5},
        (("client-id", None),): {"producer_byte_rate": 7.0},
        (("ip", "127.0.0.9"),): {"connection_creation_rate": 3.0},
    }
    ours = {
        (("user", "x=y, z"),): {"producer_byte_rate": 1e12},
        (("client-id", "e f"), ("user", "alice")): {"request_percentage": 0.125},
        (("ip", None),): {"connection_creation_rate": 2e9},
    }
    for folder in ("kafka", "ours"):
        (tmp_path / folder).mkdir()
    with KafkaOnZooKeeper(tmp_path / "kafka", zookeeper) as kafka:
        set_all(kafka.wait_ready(), theirs)
    with running_broker(tmp_path / "ours", f"zookeeper.connect={zookeeper}") as address:
        assert all_quotas(address) == theirs
        set_all(address, ours)
    with KafkaOnZooKeeper(tmp_path / "kafka", zookeeper) as kafka:
        assert all_quotas(kafka.wait_ready()) == theirs | ours
