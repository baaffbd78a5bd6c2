"""`barnabas txn` as people run it, against Barnabas and against Apache Kafka."""

import time
import uuid

import pytest
from cluster_kit import wait_until
from compat.test_up import Running
from compat.warm_tool import WarmTool
from compat.wire_client import WireClient
from confluent_kafka import KafkaException, Producer

from barnabas.wire.batch import TRANSACTIONAL, Record, build
from barnabas.wire.batch import Producer as Writer
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIMEOUT_S = 60


@pytest.fixture
def tool(either_address, tmp_path):
    return WarmTool(either_address, tmp_path)


@pytest.fixture
def name():
    return f"txn-{uuid.uuid4().hex[:10]}"


def begin(tool, transactional_id, topic):
    """A producer with an open transaction that has written."""
    tool("topic", "create", topic, "--if-not-exists")
    producer = Producer(
        {
            "bootstrap.servers": tool.environ["BARNABAS_BOOTSTRAP"],
            "transactional.id": transactional_id,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    assert producer.flush(TIMEOUT_S) == 0
    return producer


def describe(tool, transactional_id):
    (described,) = tool.json("txn", "describe", transactional_id)
    return described


def test_a_transaction_from_begin_to_end(tool, name):
    producer = begin(tool, name, name)
    (listed,) = tool.json("txn", "list", name, "--state", "Ongoing")
    assert listed["transactional_id"] == name
    described = describe(tool, name)
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [{"topic": name, "partition": 0}]
    assert described["started_ms"] is not None
    (active,) = tool.json("txn", "producers", name, "--open")
    assert active["producer_id"] == listed["producer_id"]
    assert active["transaction_start"] == 0
    assert tool("txn", "find-hanging", "--topic", name).returncode == 0
    producer.commit_transaction(TIMEOUT_S)
    # Kafka acknowledges a commit that is decided, before its markers are written.
    wait_until(lambda: describe(tool, name)["state"] == "CompleteCommit", "it is complete")
    assert describe(tool, name)["started_ms"] is None
    assert "no producer is known" in tool("txn", "producers", name, "--open").said
    assert name in tool("txn", "list", name).text
    assert "epoch" in tool("txn", "describe", name).text


def test_aborting_fences_the_producer(tool, name):
    producer = begin(tool, name, name)
    assert "would" in tool("txn", "abort", name, "--dry-run").text
    assert "aborted" in tool("txn", "abort", name, "--yes").text
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    refused = tool("txn", "abort", name, "--yes", code=1)
    assert "no transaction is under way" in refused.said


def test_what_is_not_there(tool, name):
    refused = tool("txn", "describe", name, code=1)
    assert "barnabas txn list" in refused.said
    assert "barnabas topic list" in tool("txn", "producers", name, code=1).said
    assert "ID" in tool("txn", "abort", code=2).said
    assert "no duration" in tool("txn", "list", "--longer-than", "soon", code=2).said


def let_hang(bootstrap, topic):
    """Begin a transaction that no coordinator knows, an hour ago, on a broker that does not verify them."""
    old_ms = time.time_ns() // 1_000_000 - 3_600_000
    batch = build(
        [Record(0, old_ms, None, b"v")], attributes=TRANSACTIONAL, producer=Writer(4711, 0, 0)
    )
    data = PartitionProduceData(index=0, records=bytes(batch))
    request = ProduceRequest(
        transactional_id=topic,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    client = WireClient(bootstrap)
    answer = client.ask(request, 11).responses[0].partition_responses[0]
    client.close()
    assert answer.error_code == 0


def test_a_transaction_that_hangs_is_found_and_ended(tmp_path, name):
    """One that a broker without the check let in."""
    settings = ("--set", "transaction.partition.verification.enable=false")
    with Running("--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0", *settings) as running:
        tool = WarmTool(running.ready[0], tmp_path)
        tool("topic", "create", name)
        let_hang(running.ready[0], name)
        assert tool("txn", "find-hanging", "--older-than", "2h").returncode == 0
        (hanging,) = tool.json("txn", "find-hanging", code=1)
        assert (hanging["topic"], hanging["transaction_start"]) == (name, 0)
        shown = tool("txn", "find-hanging", code=1)
        command = shown.said.strip().rpartition("barnabas ")[2].split()
        assert "aborted" in tool(*command, "--yes").text
        assert tool("txn", "find-hanging").returncode == 0
