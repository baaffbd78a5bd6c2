"""The records of `__consumer_offsets` between Apache Kafka and us: its formatters read ours, we take over what it wrote."""

import json

import pytest
from compat.apache_kafka import Kafka
from compat.conftest import running_broker
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.java

OFFSETS_TOPIC = "__consumer_offsets"
FORMATTERS = "org.apache.kafka.tools.consumer"
SETTINGS = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1")
NOTES = {"classic": "a note", "consumer": "", "simple": "é" * 200}


def use_groups(bootstrap):
    """A group of each protocol with a member that has left, and one that only has offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic("t", 2, 1)], request_timeout=60).values():
        future.result(90)
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": protocol,
                "group.protocol": protocol,
                "client.id": "tester",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        given = []
        consumer.subscribe(
            ["t"], on_assign=lambda _consumer, parts, given=given: given.extend(parts)
        )
        while len(given) < 2:
            consumer.poll(0.1)
        offsets = [TopicPartition("t", 0, 5, metadata=NOTES[protocol]), TopicPartition("t", 1, 6)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
    alter(admin, "simple", TopicPartition("t", 1, 7, metadata=NOTES["simple"]))
    alter(admin, "deleted", TopicPartition("t", 1, 8))
    for future in admin.delete_consumer_groups(["deleted"], request_timeout=30).values():
        future.result(60)


def alter(admin, group, partition):
    request = ConsumerGroupTopicPartitions(group, [partition])
    for future in admin.alter_consumer_group_offsets([request], request_timeout=30).values():
        assert not future.result(60).topic_partitions[0].error


@pytest.fixture(scope="module")
def formatted(tmp_path_factory, kafka_tool):
    """What Apache Kafka's formatters print of the records that our broker wrote."""
    home = tmp_path_factory.mktemp("broker")
    with running_broker(home, *SETTINGS) as address:
        use_groups(address)
        found = {name: read(kafka_tool, address, name) for name in ("Offsets", "GroupMetadata")}
        yield {**found, "dump": dump(kafka_tool, home / "data")}


def read(kafka_tool, address, name):
    done = kafka_tool(
        f"{FORMATTERS}.ConsoleConsumer",
        *("--bootstrap-server", address, "--topic", OFFSETS_TOPIC, "--from-beginning"),
        *("--formatter", f"{FORMATTERS}.{name}MessageFormatter", "--timeout-ms", "10000"),
        check=False,
    )
    return list(values(done.stdout))


def dump(kafka_tool, data):
    """What DumpLogSegments prints of keys, and the values that are not tombstones: [(key, value or None)]."""
    (path,) = data.glob(f"{OFFSETS_TOPIC}-0/*.log")
    done = kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--print-data-log", "--files", str(path)),
    )
    assert "exception" not in (done.stdout + done.stderr).lower(), done.stdout
    found = []
    for line in done.stdout.splitlines():
        _, has_key, rest = line.partition(" key: ")
        if has_key:
            key, _, payload = rest.partition(" payload: ")
            found.append((next(values(key)), next(values(payload), None)))
    return found


def values(text):
    """The formatters print one object after another without anything between them."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        value, position = decoder.raw_decode(text, position)
        yield value
        position = text.find("{", position)


def test_offsets_are_read_by_kafkas_formatter(formatted):
    found = {}
    for record in formatted["Offsets"]:
        key, value = record["key"], record["value"]
        assert key["type"] == 1
        place = key["data"]["group"], key["data"]["topic"], key["data"]["partition"]
        found[place] = value and (
            value["version"],
            value["data"]["offset"],
            value["data"]["metadata"].rstrip("\0"),  # librdkafka sends its terminator too
        )
    assert found == {
        ("classic", "t", 0): (4, 5, NOTES["classic"]),
        ("classic", "t", 1): (4, 6, ""),
        ("consumer", "t", 0): (4, 5, NOTES["consumer"]),
        ("consumer", "t", 1): (4, 6, ""),
        ("simple", "t", 1): (4, 7, NOTES["simple"]),
        ("deleted", "t", 1): None,
    }


def test_classic_groups_are_read_by_kafkas_formatter(formatted):
    states = [one for one in formatted["GroupMetadata"] if one["key"]["data"]["group"] == "classic"]
    saved = [one["value"] for one in states]
    assert {value["version"] for value in saved} == {3}
    with_member = [value["data"] for value in saved if value["data"]["members"]]
    (member,) = with_member[-1]["members"]
    assert (with_member[-1]["generation"], with_member[-1]["protocolType"]) == (1, "consumer")
    assert with_member[-1]["leader"] == member["memberId"]
    assert member["memberId"].startswith("tester-")
    assert (member["clientId"], member["clientHost"]) == ("tester", "/127.0.0.1")
    assert saved[-1]["data"]["members"] == [], "it has left"


def test_consumer_groups_are_read_by_kafkas_decoder(formatted):
    """Every kind of record that a group of the consumer protocol leaves behind, and the tombstones of its member."""
    kinds = {}
    for key, value in formatted["dump"]:
        if key["data"].get("groupId") == "consumer":
            kinds.setdefault(int(key["type"]), []).append(value and value["data"])
    group, member, target_epoch, target, current = (kinds[kind] for kind in (3, 5, 6, 7, 8))
    assert group[0]["epoch"] >= 1
    assert member[0]["subscribedTopicNames"] == ["t"]
    assert member[0]["clientId"] == "tester"
    assert target_epoch[0]["assignmentEpoch"] == group[0]["epoch"]
    assert [len(one["partitions"]) for one in target[0]["topicPartitions"]] == [2]
    assert [len(one["partitions"]) for one in current[0]["assignedPartitions"]] == [2]
    assert member[-1] is target[-1] is current[-1] is None, "it has left"


@pytest.fixture(scope="module")
def taken_over(tmp_path_factory):
    """Our broker on the directory of an Apache Kafka that was stopped."""
    home = tmp_path_factory.mktemp("kafka")
    with Kafka(home, *SETTINGS) as kafka:
        use_groups(kafka.wait_ready())
    broker = tmp_path_factory.mktemp("broker")
    with running_broker(broker, *SETTINGS, data_dir=kafka.data) as address:
        yield address


def test_groups_that_kafka_wrote_go_on_here(taken_over):
    admin = AdminClient({"bootstrap.servers": taken_over, "log_level": 0})
    listed = admin.list_consumer_groups(request_timeout=30).result(60).valid
    assert sorted((one.group_id, one.state.name, one.type.name) for one in listed) == [
        ("classic", "EMPTY", "CLASSIC"),
        ("consumer", "EMPTY", "CONSUMER"),
        ("simple", "EMPTY", "CLASSIC"),
    ]
    assert committed(taken_over, "classic") == {0: (5, NOTES["classic"]), 1: (6, "")}
    assert committed(taken_over, "consumer") == {0: (5, NOTES["consumer"]), 1: (6, "")}
    assert committed(taken_over, "simple") == {0: None, 1: (7, NOTES["simple"])}


def committed(bootstrap, group):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition("t", index) for index in (0, 1)], timeout=30)
    finally:
        consumer.close()
    return {
        one.partition: None if one.offset < 0 else (one.offset, (one.metadata or "").rstrip("\0"))
        for one in found
    }


def test_a_group_that_kafka_wrote_takes_members_here(taken_over):
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": taken_over,
                "group.id": protocol,
                "group.protocol": protocol,
                "log_level": 0,
            }
        )
        given = []
        consumer.subscribe(
            ["t"], on_assign=lambda _consumer, parts, given=given: given.extend(parts)
        )
        while len(given) < 2:
            consumer.poll(0.1)
        consumer.close()
        assert {one.partition for one in given} == {0, 1}
