"""The records of `__transaction_state` between Apache Kafka and us: its formatter reads ours, we take over what it wrote."""

import json

import pytest
from compat.apache_kafka import Kafka
from compat.conftest import running_broker
from compat.wire_client import WireClient
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest

pytestmark = pytest.mark.java

TOPIC = "__transaction_state"
FORMATTERS = "org.apache.kafka.tools.consumer"
SETTINGS = (
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
)
TIMEOUT_S = 60


def producer(bootstrap, transactional_id):
    one = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 45_000,
            "log_level": 0,
        }
    )
    one.init_transactions(TIMEOUT_S)
    return one


def run_transactions(bootstrap):
    """One that commits, one that aborts, one that only begins; the last producer is still open."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic("t", 2, 1)], request_timeout=60).values():
        future.result(90)
    for name in ("commits", "aborts"):
        one = producer(bootstrap, name)
        one.begin_transaction()
        for partition in (0, 1):
            one.produce("t", name, partition=partition)
        one.flush(TIMEOUT_S)
        if name == "commits":
            one.commit_transaction(TIMEOUT_S)
        else:
            one.abort_transaction(TIMEOUT_S)
    opened = producer(bootstrap, "open")
    opened.begin_transaction()
    opened.produce("t", "open", partition=1)
    opened.flush(TIMEOUT_S)
    return opened


@pytest.fixture(scope="module")
def formatted(tmp_path_factory, kafka_tool):
    """What Apache Kafka's formatter prints of the records that our broker wrote, by transactional id."""
    with running_broker(tmp_path_factory.mktemp("broker"), *SETTINGS) as address:
        opened = run_transactions(address)
        done = kafka_tool(
            f"{FORMATTERS}.ConsoleConsumer",
            *("--bootstrap-server", address, "--topic", TOPIC, "--from-beginning"),
            *("--formatter", f"{FORMATTERS}.TransactionLogMessageFormatter"),
            *("--timeout-ms", "10000"),
            check=False,
        )
        opened.abort_transaction(TIMEOUT_S)
    found = {}
    for record in values(done.stdout):
        assert record["key"]["type"] == 0
        name = record["key"]["data"]["transactionalId"]
        found.setdefault(name, []).append(record["value"])
    return found


def values(text):
    """The formatter prints one object after another without anything between them."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        value, position = decoder.raw_decode(text, position)
        yield value
        position = text.find("{", position)


def test_kafkas_formatter_reads_every_state(formatted):
    states = {
        name: [one["data"]["transactionStatus"] for one in records]
        for name, records in formatted.items()
    }
    # Empty 0, Ongoing 1, PrepareCommit 2, PrepareAbort 3, CompleteCommit 4, CompleteAbort 5; librdkafka adds each partition
    assert states["commits"][0] == states["aborts"][0] == states["open"][0] == 0
    assert states["commits"][-2:] == [2, 4]
    assert states["aborts"][-2:] == [3, 5]
    assert states["open"][-1] == 1
    for records in formatted.values():
        assert {one["version"] for one in records} == {1}


def test_kafkas_formatter_reads_every_field(formatted):
    prepared, completed = (one["data"] for one in formatted["commits"][-2:])
    (topic,) = prepared["transactionPartitions"]
    assert (topic["topic"], sorted(topic["partitionIds"])) == ("t", [0, 1])
    assert prepared["transactionTimeoutMs"] == 45_000
    assert prepared["producerId"] == prepared["previousProducerId"] == completed["producerId"]
    assert prepared.get("nextProducerId", -1) == -1
    assert completed["transactionPartitions"] == []
    assert (
        0 < prepared["transactionStartTimestampMs"] <= prepared["transactionLastUpdateTimestampMs"]
    )
    assert formatted["open"][0]["data"]["transactionPartitions"] is None


@pytest.fixture(scope="module")
def taken_over(tmp_path_factory):
    """Our broker on the directory of an Apache Kafka that was stopped with a transaction open."""
    home = tmp_path_factory.mktemp("kafka")
    with Kafka(home, *SETTINGS) as kafka:
        run_transactions(kafka.wait_ready())
    broker = tmp_path_factory.mktemp("broker")
    with running_broker(broker, *SETTINGS, data_dir=kafka.data) as address:
        yield address


def test_transactions_that_kafka_wrote_go_on_here(taken_over):
    client = WireClient(taken_over)
    request = DescribeTransactionsRequest(transactional_ids=["commits", "aborts", "open"])
    while any(
        (answer := client.ask(request, 0)).transaction_states[i].error_code for i in range(3)
    ):
        assert {one.error_code for one in answer.transaction_states} <= {0, 14}, answer
    states = [one.transaction_state for one in answer.transaction_states]
    assert states == ["CompleteCommit", "CompleteAbort", "Ongoing"]
    (topic,) = answer.transaction_states[2].topics
    assert (topic.topic, topic.partitions) == ("t", [1])
    # whoever takes the id next ends what was open
    one = producer(taken_over, "open")
    one.begin_transaction()
    one.produce("t", "after", partition=1)
    one.commit_transaction(TIMEOUT_S)
    client.socket.close()
    assert read_committed(taken_over, 1) == [b"commits", b"after"]


def read_committed(bootstrap, partition):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", partition, 0)])
    found = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise KafkaException("nothing came")
        if message.error() is not None:
            break
        found.append(message.value())
    consumer.close()
    return found
