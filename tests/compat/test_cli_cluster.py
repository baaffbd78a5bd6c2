"""`barnabas cluster`, `broker` and `rebalance` as people run them, against clusters of real processes."""

from collections import Counter

import pytest
from cluster_kit import CLIENT, Cluster, wait_until
from compat.warm_tool import WarmTool
from confluent_kafka import Consumer, Producer, TopicPartition

RECORDS = 500


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper) as running:
        yield running


@pytest.fixture
def tool(cluster, tmp_path):
    return WarmTool(cluster.bootstrap, tmp_path)


def fill(cluster, topic):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **CLIENT})
    partitions = len(cluster.partitions(topic))
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(60) == 0


def read(cluster, topic):
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "g",
        "enable.auto.commit": False,
        **CLIENT,
    }
    consumer = Consumer(settings)
    count = len(cluster.partitions(topic))
    consumer.assign([TopicPartition(topic, index, 0) for index in range(count)])
    values = []
    while len(values) < RECORDS:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        values.append(int(message.value()))
    consumer.close()
    return sorted(values)


def wait_for(cluster, topic, partitions, what):
    """Wait until every broker tells of these leaders and in-sync sets: the tools ask any of them."""
    wait_until(
        lambda: all(cluster.partitions(topic, each) == partitions for each in cluster.answering),
        what,
    )


def replicas(tool, topic):
    [described] = tool.json("topic", "describe", topic)
    return [each["replicas"] for each in described["partitions"]]


def test_a_broker_dies_and_the_tools_tell_what_is_missing(cluster, tool):
    cluster.create("t", [[1, 2, 3], [2, 3, 1]], min_insync_replicas=2)
    described = tool.json("cluster", "describe")
    assert [each["broker"] for each in described["brokers"]] == [1, 2, 3]
    assert (described["topics"], described["partitions"]) == (1, 2)
    assert [each["controller"] for each in described["brokers"]].count(True) == 1
    assert tool.json("cluster", "health")["health"] == "ok"
    cluster.kill(2)
    wait_for(cluster, "t", [(1, [1, 3]), (3, [1, 3])], "others lead")
    health = tool.json("cluster", "health", code=1)
    assert (health["health"], health["brokers_away"]) == ("at_risk", [2])
    assert health["under_replicated"] == [{"topic": "t", "partition": n} for n in (0, 1)]
    assert health["not_preferred_leader"] == [{"topic": "t", "partition": 1}]
    assert "away" in tool("cluster", "describe").text
    page = tool("topic", "describe", "t").text
    assert "under-replicated, not led by the preferred replica" in page
    cluster.kill(3)
    wait_for(cluster, "t", [(1, [1]), (1, [1])], "the last leads")
    assert tool.json("cluster", "health", code=2)["under_min_in_sync"] == health["under_replicated"]
    assert "acks=all is refused" in tool("cluster", "health", code=2).text
    cluster.start(2)
    cluster.start(3)
    cluster.wait_healthy("t")
    assert "elected leaders of 1 partition" in tool("cluster", "elect-leaders", "--topic", "t").text
    wait_for(cluster, "t", [(1, [1, 2, 3]), (2, [1, 2, 3])], "the preferred lead")
    assert tool.json("cluster", "health")["not_preferred_leader"] == []
    assert tool.json("cluster", "elect-leaders") == []
    assert "does not exist" in tool("cluster", "elect-leaders", "--topic", "x", code=1).said


def test_a_cluster_is_made_even_and_a_broker_is_drained_while_it_serves(cluster, tool):
    cluster.create("t", [[1, 2]] * 6)
    fill(cluster, "t")
    plan = tool.json("rebalance", "plan")
    assert (plan["applied"], plan["copies"], plan["size_bytes"] > 0) == (False, 4, True)
    assert replicas(tool, "t") == [[1, 2]] * 6
    assert "4 replicas to copy" in tool("rebalance", "plan").text
    assert "moved" in tool("rebalance", "apply", "--yes", "--at-a-time", 2).text
    wait_until(lambda: is_spread(cluster, {1: 4, 2: 4, 3: 4}), "all know where they are now")
    wait_until(
        lambda: all(
            Counter(cluster.leaders("t", each)) == {1: 2, 2: 2, 3: 2} for each in (1, 2, 3)
        ),
        "all know who leads",
    )
    now = replicas(tool, "t")
    assert "nothing to move" in tool("rebalance", "apply", "--yes").text
    assert tool("broker", "drain", 2, "--dry-run").said == "nothing was changed (dry run)\n"
    assert replicas(tool, "t") == now
    assert tool.json("broker", "drain", 2)["applied"]
    wait_until(lambda: is_spread(cluster, {1: 6, 3: 6}), "all know that it has nothing")
    assert all(sorted(each) == [1, 3] for each in replicas(tool, "t"))
    assert "has no replicas" in tool("broker", "drain", 2).text
    cluster.stop(2)
    wait_until(
        lambda: all(len(cluster.metadata(broker_id=each).brokers) == 2 for each in (1, 3)),
        "it is gone",
    )
    assert tool.json("cluster", "health")["health"] == "ok"
    refused = tool("broker", "drain", 3, code=1)
    assert "would need 2 brokers, and there are only 1 for it" in refused.said
    assert "there are 1, 3" in tool("broker", "drain", 9, code=1).said
    assert read(cluster, "t") == list(range(RECORDS))


def is_spread(cluster, counts):
    """Tell whether brokers have so many replicas, by what each of them says."""
    return all(
        Counter(broker for replicas in cluster.replicas("t", each) for broker in replicas) == counts
        for each in cluster.answering
    )


def test_a_topic_gets_more_replicas_and_fewer(cluster, tool):
    cluster.create("t", [[1], [2]])
    fill(cluster, "t")
    assert len(tool.json("topic", "alter", "t", "-r", 3, "--dry-run")["moves"]) == 2
    assert "moved 2 partitions" in tool("topic", "alter", "t", "--replication-factor", 3).text
    cluster.wait_healthy("t")
    assert [each[0] for each in replicas(tool, "t")] == [1, 2]
    assert "has 3 replicas already" in tool("topic", "alter", "t", "-r", 3).text
    cluster.kill(1)
    wait_until(
        lambda: all(cluster.leaders("t", each)[0] in (2, 3) for each in (2, 3)), "another leads"
    )
    tool("topic", "alter", "t", "-r", 2)
    wait_until(lambda: is_spread(cluster, {2: 2, 3: 2}), "who is away goes first")
    assert read(cluster, "t") == list(range(RECORDS))
    assert "would need 3" in tool("topic", "alter", "t", "-r", 3, code=1).said
    assert "stands alone" in tool("topic", "alter", "t", "-r", 1, "-p", 3, code=2).said


def test_moves_that_cannot_end_are_told_and_taken_back(cluster, tool):
    """A follower that is away cannot catch up."""
    cluster.create("t", [[1, 2]])
    cluster.kill(2)
    wait_for(cluster, "t", [(1, [1])], "it is out of sync")
    stuck = tool("topic", "alter", "t", "-r", 2, code=0)
    assert "has 2 replicas already" in stuck.text
    told = tool("broker", "drain", 1, "--yes", code=1)
    assert "must wait for brokers that are away: 2" in told.said
    assert tool.json("cluster", "health", code=1)["reassigning"] == [{"topic": "t", "partition": 0}]
    assert tool.json("rebalance", "cancel") == [{"topic": "t", "partition": 0}]
    wait_until(lambda: sorted(replicas(tool, "t")[0]) == [1, 2], "they stay where they were")
    assert tool("rebalance", "cancel").text == "took back 0 moves\n"


def test_one_broker_is_a_cluster_too(either_address, tmp_path):
    """Barnabas alone, and Apache Kafka."""
    tool = WarmTool(either_address, tmp_path)
    tool("topic", "create", "of-one", "--if-not-exists", "-r", 1)
    described = tool.json("cluster", "describe")
    [broker] = described["brokers"]
    assert broker["controller"]
    assert not broker["away"]
    assert broker["replicas"] == broker["leaders"] == described["partitions"]
    assert tool.json("cluster", "health")["health"] == "ok"
    assert tool("cluster", "health").text == "ok\n"
    assert "nothing to move" in tool("rebalance", "plan").text
    assert tool("rebalance", "cancel").text == "took back 0 moves\n"
    assert "start more brokers" in tool("topic", "alter", "of-one", "-r", 2, code=1).said


def test_nobody_there_is_as_bad_as_it_gets(tmp_path):
    said = WarmTool("127.0.0.1:1", tmp_path)("cluster", "health", code=2).said
    assert "no broker answered at 127.0.0.1:1" in said
    secured = WarmTool("127.0.0.1:1", tmp_path)(
        "cluster", "describe", "-X", "security.protocol=SSL", code=1
    )
    assert "no broker answered at 127.0.0.1:1" in secured.said
