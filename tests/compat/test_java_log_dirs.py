"""Apache Kafka's `kafka-log-dirs`, and its admin client where it moves replicas between log directories (java/LogDirs.java).

`kafka-reassign-partitions` does the same, but asks for reassignments between brokers on the way, which one node does not know.
"""

import json

import pytest
from compat.conftest import start_broker, stop_broker
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.java

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
RECORDS = 2000


@pytest.fixture
def broker(tmp_path):
    """A broker with two log directories and a topic with a partition in each."""
    one, two = tmp_path / "one", tmp_path / "two"
    with (tmp_path / "log").open("w") as log:
        process, bootstrap = start_broker(f"{one},{two}", log, "node.id=7")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0
        yield bootstrap, str(one), str(two)
        stop_broker(process, tmp_path / "log")


def described(kafka_tool, bootstrap, release):
    """Which partitions lie where, as the tool says: partition -> directory."""
    args = ["--bootstrap-server", bootstrap, "--describe", "--topic-list", "t"]
    lines = kafka_tool(LOG_DIRS, *args, release=release).stdout.splitlines()
    (view,) = [json.loads(line) for line in lines if line.startswith("{")]
    (node,) = view["brokers"]
    assert node["broker"] == 7
    found = {}
    for directory in node["logDirs"]:
        assert directory["error"] is None
        for partition in directory["partitions"]:
            assert partition["size"] > 0
            assert (partition["offsetLag"], partition["isFuture"]) == (0, False)
            found[partition["partition"]] = directory["logDir"]
    return found


def read_values(bootstrap):
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("t", index, 0) for index in (0, 1)])
    values, ends = [], 0
    while ends < 2:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            ends += 1
        else:
            values.append(int(message.value()))
    consumer.close()
    return sorted(values)


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_replicas_change_places_and_the_tool_sees_it(broker, kafka_tool, java, release):
    bootstrap, one, two = broker
    before = described(kafka_tool, bootstrap, release)
    assert sorted(before.values()) == [one, two]
    moves = [f"t:0={before['t-1']}", f"t:1={before['t-0']}"]
    done = java.run(release, bootstrap, "7", *moves, program="LogDirs")
    assert (done.stdout, done.returncode) == ("moved\t2\n", 0), done.stderr
    after = described(kafka_tool, bootstrap, release)
    assert after == {"t-0": before["t-1"], "t-1": before["t-0"]}
    assert read_values(bootstrap) == list(range(RECORDS))


def test_what_cannot_be_moved_is_refused_as_by_kafka(broker, java):
    bootstrap, one, _ = broker
    asked = ["t:0=/nowhere", f"missing:0={one}", f"{'x' * 249}:0={one}"]
    done = java.run("4.3.1", bootstrap, "7", *asked, program="LogDirs")
    refused = dict(line.split("\t") for line in done.stdout.splitlines())
    assert refused == {
        "t": "LogDirNotFoundException",
        "missing": "UnknownTopicOrPartitionException",
        "x" * 249: "InvalidTopicException",
        "moved": "0",
    }, done.stderr
