"""Transactions of real clients: Java 4.4 (version 2) and 3.9, librdkafka, aiokafka, kafka-python; Kafka's own tools. The Java steps are in java/Transactions.java."""

import asyncio
import base64
import uuid

import aiokafka
import kafka
import pytest
from compat.conftest import running_broker, shared_broker
from compat.test_cli_txn import let_hang
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from topic_kit import wait_until_ended

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)
STEPS = ["commit_and_abort", "many", "zombie", "copy", "fenced_consumer", "timeout", "admin"]
TIMEOUT_S = 60
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A broker that looks for transactions that are out of time twice a second."""
    with shared_broker(tmp_path_factory.mktemp("broker"), *SETTINGS) as started:
        yield started


@pytest.fixture
def topic(address, topic_name):
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic_name, 2, 1)], request_timeout=60).values():
        future.result(90)
    return topic_name


# Java


@pytest.fixture(scope="module")
def outcomes(java, address):
    """Step -> outcome of one release; all steps of a release share one JVM."""
    known = {}

    def of(release):
        if release not in known:
            prefix = f"java-{release}-{uuid.uuid4().hex[:8]}"
            done = java.run(release, address, prefix, *STEPS, program="Transactions")
            assert done.returncode == 0, done.stderr
            known[release] = dict(line.split("\t") for line in done.stdout.splitlines())
            assert known[release]["version"] == release
        return known[release]

    return of


@pytest.mark.java
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("release", ["4.4.0", "3.9.2"])
def test_java(outcomes, release, step):
    outcome = outcomes(release)[step]
    if outcome != "ok":
        pytest.fail(base64.b64decode(outcome).decode(), pytrace=False)


# Kafka's tools


@pytest.mark.java
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_kafkas_tools_see_an_open_transaction(kafka_tool, address, topic, release):
    producer = librdkafka(address, topic)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=1)
    producer.flush(TIMEOUT_S)

    def tool(*words):
        command = f"{TOOLS}.TransactionsCommand"
        return kafka_tool(command, "--bootstrap-server", address, *words, release=release).stdout

    listed = [line.split() for line in tool("list").splitlines()]
    (found,) = [words for words in listed if words[0] == topic]
    assert found[3] == "Ongoing"
    described = tool("describe", "--transactional-id", topic)
    assert f"{topic}-1" in described
    assert "Ongoing" in described
    producers = tool("describe-producers", "--topic", topic, "--partition", "1").splitlines()
    assert [line.split()[0] for line in producers[1:]] == [found[2]]
    producer.abort_transaction(TIMEOUT_S)


@pytest.mark.java
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_kafkas_tool_finds_a_hanging_transaction_and_ends_it(
    kafka_tool, tmp_path, topic_name, release
):
    with running_broker(tmp_path, "transaction.partition.verification.enable=false") as address:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(TIMEOUT_S)

        def tool(*words):
            command = f"{TOOLS}.TransactionsCommand"
            done = kafka_tool(command, "--bootstrap-server", address, *words, release=release)
            return [line.split() for line in done.stdout.splitlines()]

        def hanging():
            return [
                line for line in tool("find-hanging", "--topic", topic_name) if topic_name in line
            ]

        assert hanging() == []
        let_hang(address, topic_name)
        (found,) = hanging()
        assert found[1:3] == ["0", "4711"]
        where = ("--topic", topic_name, "--partition", "0", "--start-offset", "0")
        tool("abort", *where)
        assert hanging() == []
        assert read_committed(address, topic_name, 0) == []


@pytest.mark.java
def test_kafkas_tool_terminates_a_transaction_by_its_id(kafka_tool, address, topic):
    producer = librdkafka(address, topic)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=1)
    producer.flush(TIMEOUT_S)
    kafka_tool(
        f"{TOOLS}.TransactionsCommand",
        *("--bootstrap-server", address, "forceTerminateTransaction", "--transactionalId", topic),
    )
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    assert read_committed(address, topic, 1) == []


@pytest.mark.java
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_kafkas_performance_tool_in_transactions(kafka_tool, address, topic, release):
    done = kafka_tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
        *("--transactional-id", topic, "--transaction-duration-ms", "5"),
        *("--producer-props", f"bootstrap.servers={address}"),
        release=release,
    )
    assert "2000 records sent" in done.stdout
    assert sum(len(read_committed(address, topic, index)) for index in (0, 1)) == 2000


# librdkafka


def librdkafka(address, transactional_id, **more):
    settings = {name.replace("_", "."): value for name, value in more.items()}
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": transactional_id,
            "log_level": 0,
            **settings,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def read_committed(address, topic, partition):
    """What is committed, once all that was begun has ended."""
    wait_until_ended(address, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append(message.value())
    assert message is not None, "the end of the partition was not reached"
    consumer.close()
    return found


def test_librdkafka_commits_and_aborts(address, topic):
    producer = librdkafka(address, topic)
    expected = []
    for number in range(10):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, f"v{number}", partition=partition)
        if number % 3:
            producer.commit_transaction(TIMEOUT_S)
            expected.append(f"v{number}".encode())
        else:
            producer.abort_transaction(TIMEOUT_S)
    for partition in (0, 1):
        assert read_committed(address, topic, partition) == expected


def test_librdkafka_is_fenced_by_its_successor(address, topic):
    first = librdkafka(address, topic)
    first.begin_transaction()
    first.produce(topic, "lost", partition=0)
    first.flush(TIMEOUT_S)
    second = librdkafka(address, topic)
    second.begin_transaction()
    second.produce(topic, "kept", partition=0)
    second.commit_transaction(TIMEOUT_S)
    with pytest.raises(KafkaException):
        first.commit_transaction(TIMEOUT_S)
    assert read_committed(address, topic, 0) == [b"kept"]


def test_librdkafka_sends_offsets_in_the_transaction(address, topic):
    producer = librdkafka(address, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": topic,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    place = TopicPartition(topic, 0)
    for offset, commits in ((5, True), (9, False)):
        producer.begin_transaction()
        position = TopicPartition(topic, 0, offset)
        producer.send_offsets_to_transaction(
            [position], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        if commits:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    assert consumer.committed([place], TIMEOUT_S)[0].offset == 5
    consumer.close()


# aiokafka


def test_aiokafka_commits_and_aborts(address, topic):
    async def run():
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, transactional_id=topic)
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"yes", partition=0)
                offsets = {aiokafka.TopicPartition(topic, 0): 3}
                await producer.send_offsets_to_transaction(offsets, topic)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"no", partition=0)
            await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(run())
    assert read_committed(address, topic, 0) == [b"yes"]
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "log_level": 0})
    assert consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)[0].offset == 3
    consumer.close()


# kafka-python


def test_kafka_python_commits_and_aborts(address, topic):
    producer = kafka.KafkaProducer(bootstrap_servers=address, transactional_id=topic)
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        producer.send(topic, b"yes" if commits else b"no", partition=0).get(TIMEOUT_S)
        if commits:
            offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(3, "", -1)}
            producer.send_offsets_to_transaction(offsets, topic)
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    assert read_committed(address, topic, 0) == [b"yes", b"yes"]
