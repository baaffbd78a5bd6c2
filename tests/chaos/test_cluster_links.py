"""F5: links that are cut between brokers, and to ZooKeeper. Nothing acknowledged is lost, and one leads in each epoch."""

import pytest
from chaos.wire_kit import RawClient, batch
from cluster_kit import Cluster, assert_logs_equal, only_in_make_chaos, wait_until
from load_kit import Load, assert_nothing_lost

from barnabas.model.errors import ErrorCode

SETTINGS = ("replica.lag.time.max.ms=2000",)


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=SETTINGS, has_proxies=True) as running:
        running.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
        yield running


def produce(cluster, broker_id, partition=0, acks=-1):
    with RawClient(cluster.address_of(broker_id)) as client:
        return client.produce("t", batch(b"-1"), partition=partition, acks=acks).error_code


def test_a_leader_that_its_followers_do_not_reach(cluster):
    """It is alone in sync, takes no more for all, and gives up nothing it has acknowledged."""
    with Load(cluster, "t") as load:
        load.wait_for_more()
        cluster.to_broker[1].cut()
        wait_until(lambda: cluster.partitions("t", 2)[0] == (1, [1]), "it is alone")
        assert produce(cluster, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce(cluster, 1, acks=1) == 0
        cluster.to_broker[1].mend()
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_a_leader_that_zookeeper_does_not_hear(cluster):
    """Others lead after its session; what it takes meanwhile nobody is told to be safe."""
    with Load(cluster, "t") as load:
        load.wait_for_more()
        cluster.to_zookeeper[1].cut()
        wait_until(lambda: cluster.leaders("t", 2)[0] in (2, 3), "another leads")
        load.wait_for_more()
        cluster.to_zookeeper[1].mend()
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


@only_in_make_chaos
def test_nobody_reaches_zookeeper(cluster):
    """Who leads goes on leading, longer than a session lasts, and all find back."""
    with Load(cluster, "t") as load:
        load.wait_for_more()
        for proxy in cluster.to_zookeeper.values():
            proxy.cut()
        wait_until(
            lambda: all(
                "has expired" in b.log or "is lost" in b.log for b in cluster.brokers.values()
            ),
            "all have lost it",
        )
        load.wait_for_more(500)
        for proxy in cluster.to_zookeeper.values():
            proxy.mend()
        cluster.wait_healthy("t")
        load.wait_for_more()
        cluster.kill(2)
        wait_until(lambda: 2 not in cluster.leaders("t"), "others lead")
        cluster.start(2)
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


@only_in_make_chaos
def test_half_open_links_to_a_leader(cluster):
    """Followers' requests arrive and no answer comes back; then all of it breaks."""
    with Load(cluster, "t") as load:
        load.wait_for_more()
        cluster.to_broker[2].swallow_replies()
        wait_until(lambda: cluster.partitions("t", 3)[1] == (2, [2]), "it is alone")
        cluster.to_broker[2].cut()
        cluster.to_broker[2].mend()
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_a_leader_that_clients_do_not_reach(cluster):
    """It goes on leading, for other brokers reach it: what was sent is taken once the link is back, once and in order."""
    with Load(cluster, "t") as load:
        wait_for_more_of(load, 0)
        cluster.to_client[1].cut()
        wait_until(lambda: is_stuck(load, 0), "what broker 1 leads is not acknowledged")
        assert cluster.leaders("t") == [1, 2, 3]
        cluster.to_client[1].mend()
        wait_for_more_of(load, 0)
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_a_leader_whose_answers_do_not_reach_its_clients(cluster):
    """What they send again after a while is recognised: nothing is there twice."""
    with Load(cluster, "t", timeout_s=2) as load, RawClient(cluster.address_of(1)) as direct:
        wait_for_more_of(load, 0)
        cluster.to_client[1].swallow_replies()
        wait_until(lambda: is_stuck(load, 0), "nothing of it is acknowledged")
        wait_until(lambda: direct.end_offset("t") > max(load.of(0)) + 1, "more of it is written")
        cluster.to_client[1].cut()
        cluster.to_client[1].mend()
        wait_for_more_of(load, 0)
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def is_stuck(load, partition):
    """Tell whether others are acknowledged and this one is not."""
    before = len(load.of(partition))
    load.wait_for_more(50)
    return len(load.of(partition)) == before


def wait_for_more_of(load, partition, count=50):
    goal = len(load.of(partition)) + count
    wait_until(lambda: len(load.of(partition)) >= goal, f"more of {partition} is acknowledged")


@only_in_make_chaos
@pytest.mark.timeout(600)
def test_a_zookeeper_that_takes_two_seconds_for_an_answer(tmp_path, zookeeper):
    """All of it takes longer, and nothing else is different: sessions last, deaths are dealt with, topics are made."""
    slow = ("zookeeper.session.timeout.ms=12000", *SETTINGS)
    with Cluster(tmp_path, zookeeper, settings=slow, has_proxies=True) as cluster:
        cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
        with Load(cluster, "t") as load:
            load.wait_for_more()
            for proxy in cluster.to_zookeeper.values():
                proxy.delay_replies(2)
            cluster.create("late", [[3, 2, 1]])
            cluster.kill(1)
            wait_until(lambda: 1 not in cluster.leaders("t"), "others lead")
            load.wait_for_more()
            cluster.start(1)
            cluster.wait_healthy("t")
            cluster.wait_healthy("late")
            load.wait_for_more()
        assert_nothing_lost(cluster, "t", load)
        assert_logs_equal(cluster, "t")
        assert not any("has expired" in broker.log for broker in cluster.brokers.values())
