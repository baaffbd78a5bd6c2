"""Apache Kafka's own tools against three brokers: topics, reassignments, elections, settings."""

import json
import re

import pytest
from cluster_kit import CLIENT, Cluster, wait_until
from confluent_kafka import Producer

pytestmark = pytest.mark.java

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"
API_VERSIONS = {
    "4.3.1": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "3.9.2": "kafka.admin.BrokerApiVersionsCommand",
}
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper) as running:
        yield running


@pytest.fixture
def release():
    """Of the tools, unless a test is run with several."""
    return "4.3.1"


@pytest.fixture
def tool(cluster, kafka_tool, release):
    """Run a tool on the cluster; what it said."""

    def run(name, *words, check=True):
        words = ("--bootstrap-server", cluster.bootstrap, *map(str, words))
        done = kafka_tool(name, *words, release=release, check=check)
        return done.stdout + ("" if check else done.stderr)

    return run


def described(text):
    """Leader, replicas and in-sync set of each partition as kafka-topics shows them."""
    found = {}
    for line in text.splitlines():
        match = re.search(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S*)\s+Isr: ?(\S*)", line)
        if match:
            index, leader, replicas, in_sync = match.groups()
            found[int(index)] = (leader, replicas, sorted(in_sync.split(",")))
    return found


def wait_known(cluster, topic, count):
    """Wait until every broker tells of all partitions: the tools ask any of them."""
    wait_until(
        lambda: all(
            len(leaders) == count and -1 not in leaders
            for leaders in (cluster.leaders(topic, each) for each in cluster.answering)
        ),
        f"all know {topic}",
    )


def test_topics(cluster, tool):
    tool(TOPICS, "--create", "--topic", "t", "--partitions", 3, "--replication-factor", 3)
    wait_known(cluster, "t", 3)
    shown = described(tool(TOPICS, "--describe", "--topic", "t"))
    assert sorted(leader for leader, _, _ in shown.values()) == ["1", "2", "3"]
    assert all(in_sync == ["1", "2", "3"] for _, _, in_sync in shown.values())
    tool(TOPICS, "--create", "--topic", "named", "--replica-assignment", "1:2,3:1")
    wait_known(cluster, "named", 2)
    assert described(tool(TOPICS, "--describe", "--topic", "named")) == {
        0: ("1", "1,2", ["1", "2"]),
        1: ("3", "3,1", ["1", "3"]),
    }
    tool(TOPICS, "--alter", "--topic", "t", "--partitions", 5)
    wait_known(cluster, "t", 5)
    assert len(described(tool(TOPICS, "--describe", "--topic", "t"))) == 5
    refused = tool(
        TOPICS, "--create", "--topic", "x", "--partitions", 1, "--replication-factor", 4, check=False,
    )  # fmt: skip
    assert "only 3 brokers alive" in refused
    assert described(tool(TOPICS, "--describe", "--under-replicated-partitions")) == {}
    cluster.kill(3)
    wait_until(
        lambda: all(
            leader != 3 and 3 not in isr
            for topic in ("t", "named")
            for each in cluster.answering
            for leader, isr in cluster.partitions(topic, each)
        ),
        "others lead",
    )
    under = tool(TOPICS, "--describe", "--under-replicated-partitions")
    assert under.count("Topic: t\t") == 5
    assert under.count("Topic: named\t") == 1
    assert described(tool(TOPICS, "--describe", "--unavailable-partitions")) == {}
    cluster.start(3)
    cluster.wait_healthy("t")
    tool(TOPICS, "--delete", "--topic", "t")
    wait_until(lambda: tool(TOPICS, "--list").split() == ["named"], "it is deleted")


def reassignment(**targets):
    listed = [
        {"topic": "t", "partition": int(name[1:]), "replicas": replicas, "log_dirs": ["any"] * len(replicas)}
        for name, replicas in targets.items()
    ]  # fmt: skip
    return json.dumps({"version": 1, "partitions": listed})


def fill(cluster, count, size):
    """Put records on all partitions in turn."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 100_000, **CLIENT})
    partitions = len(cluster.partitions("t"))
    for number in range(count):
        producer.produce("t", b"x" * size, partition=number % partitions)
    assert producer.flush(60) == 0


def is_throttled(tool):
    """Tell what any broker says: each hears of settings by a notice, in its own time."""
    return "throttled" in tool(CONFIGS, "--describe", "--topic", "t")


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_reassignments(cluster, tool, tmp_path):
    cluster.create("t", [[1, 2], [2, 1]])
    fill(cluster, 1000, 100)
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    said = tool(
        REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3"
    )
    proposed = json.loads(said.strip().splitlines()[-1])
    assert {each["topic"] for each in proposed["partitions"]} == {"t"}
    plan.write_text(reassignment(p0=[3, 1], p1=[2, 3]))
    assert "Successfully started" in tool(
        REASSIGN, "--execute", "--reassignment-json-file", plan, "--throttle", 100_000_000
    )
    wait_until(
        lambda: "is still in progress" not in tool(REASSIGN, "--verify", "--reassignment-json-file", plan),
        "it is done",
    )  # fmt: skip
    wait_until(
        lambda: all(
            cluster.replicas("t", each) == [[3, 1], [2, 3]]
            and [isr for _, isr in cluster.partitions("t", each)] == [[1, 3], [2, 3]]
            for each in cluster.answering
        ),
        "all know of it",
    )
    said = tool(REASSIGN, "--verify", "--reassignment-json-file", plan)
    assert said.count("is completed") == 2
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
    wait_until(lambda: not is_throttled(tool), "it is not held back any more")


def test_a_reassignment_that_is_held_back_is_listed_and_cancelled(cluster, tool, tmp_path):
    cluster.create("t", [[1, 2]])
    fill(cluster, 5000, 1000)
    plan = tmp_path / "plan.json"
    plan.write_text(reassignment(p0=[3, 2]))
    tool(REASSIGN, "--execute", "--reassignment-json-file", plan, "--throttle", 1)
    listed = tool(REASSIGN, "--list")
    assert re.search(r"t-0: replicas: 3,2,1\. adding: 3\. removing: 1\.", listed), listed
    wait_until(lambda: is_throttled(tool), "it is held back")
    assert "Successfully cancelled" in tool(REASSIGN, "--cancel", "--reassignment-json-file", plan)
    wait_until(lambda: "No partition reassignments found." in tool(REASSIGN, "--list"), "cancelled")
    wait_until(lambda: not is_throttled(tool), "it is not held back any more")
    assert [isr for _, isr in cluster.partitions("t")] == [[1, 2]]


def test_elections(cluster, tool):
    cluster.create("t", [[1, 2], [2, 1], [3]])
    cluster.stop(1)
    wait_until(lambda: cluster.leaders("t") == [2, 2, 3], "others lead")
    cluster.start(1)
    wait_until(lambda: cluster.partitions("t")[0] == (2, [1, 2]), "it is in sync")
    said = tool(ELECTION, "--election-type", "preferred", "--topic", "t", "--partition", 0)
    assert "Successfully completed leader election (PREFERRED) for partitions t-0" in said
    wait_until(lambda: cluster.leaders("t") == [1, 2, 3], "the preferred lead")
    said = tool(ELECTION, "--election-type", "preferred", "--topic", "t", "--partition", 0)
    assert "Valid replica already elected for partitions t-0" in said
    tool(ELECTION, "--election-type", "preferred", "--all-topic-partitions")


def test_an_unclean_election_lets_one_lead_that_was_behind(cluster, tool):
    cluster.create("t", [[1, 2]])
    cluster.kill(2)
    wait_until(lambda: cluster.partitions("t") == [(1, [1])], "the other is out of sync")
    cluster.kill(1)
    cluster.start(2)
    wait_until(lambda: cluster.leaders("t") == [-1], "nobody leads")
    said = tool(ELECTION, "--election-type", "unclean", "--topic", "t", "--partition", 0)
    assert "Successfully completed leader election (UNCLEAN) for partitions t-0" in said
    wait_until(lambda: cluster.partitions("t") == [(2, [2])], "it leads")


def test_settings_of_topics_and_brokers(cluster, tool):
    cluster.create("t", [[1, 2]])
    tool(CONFIGS, "--alter", "--topic", "t", "--add-config", "retention.ms=60000")
    wait_until(lambda: "retention.ms=60000" in tool(CONFIGS, "--describe", "--topic", "t"), "set")
    tool(CONFIGS, "--alter", "--broker", 2, "--add-config", "log.cleaner.threads=2")
    wait_until(lambda: "log.cleaner.threads=2" in tool(CONFIGS, "--describe", "--broker", 2), "set")
    assert "log.cleaner.threads=2" not in tool(CONFIGS, "--describe", "--broker", 1)
    tool(CONFIGS, "--alter", "--broker-defaults", "--add-config", "log.retention.ms=70000")
    for broker in (1, 2, 3):
        wait_until(
            lambda b=broker: "log.retention.ms=70000" in tool(CONFIGS, "--describe", "--broker", b, "--all"),
            "all brokers have it",
        )  # fmt: skip
    assert "log.retention.ms=70000" in tool(CONFIGS, "--describe", "--broker-defaults")
    tool(CONFIGS, "--alter", "--broker-defaults", "--delete-config", "log.retention.ms")


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_api_versions_and_log_dirs(cluster, tool, release):
    cluster.create("t", [[1, 2], [2, 3]])
    said = tool(API_VERSIONS[release])
    assert sorted(re.findall(r"\(id: (\d)", said)) == ["1", "2", "3"]

    def having():
        lines = tool(LOG_DIRS, "--describe", "--topic-list", "t").splitlines()
        (view,) = [json.loads(line) for line in lines if line.startswith("{")]
        return {
            node["broker"]: sorted(p["partition"] for d in node["logDirs"] for p in d["partitions"])
            for node in view["brokers"]
        }

    # Followers make their logs when they are told to, after the topic is there.
    wait_until(lambda: having() == {1: ["t-0"], 2: ["t-0", "t-1"], 3: ["t-1"]}, "all have theirs")
