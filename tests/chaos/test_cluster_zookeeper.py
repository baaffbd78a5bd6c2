"""F6: ZooKeeper dies, hangs, loses its quorum, or is put back to an older state. Leaders go on, and then nothing is lost and one is controller."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
from cluster_kit import (
    PATIENCE_S,
    SESSION_MS,
    Cluster,
    assert_logs_equal,
    only_in_make_chaos,
    wait_until,
)
from confluent_kafka import KafkaError, KafkaException
from load_kit import Load, assert_nothing_lost
from zookeeper_kit import zookeeper_jars

from barnabas.runtime.zookeeper_server import START_TIMEOUT_S, make_ensemble

#: By the number of its last transaction, or by what it holds.
GONE_BACK = ("ZooKeeper has gone back", "ZooKeeper was put back to an older state")
#: How long nobody can change anything.
MINUTE_S = 60


@pytest.fixture
def servers(tmp_path, request):
    """ZooKeeper of this test alone: one server, or as many as it asks for."""
    count = getattr(request, "param", 1)
    ensemble = make_ensemble(str(tmp_path / "zk"), ("127.0.0.1", 0), count, zookeeper_jars())
    ensemble.start(sync=False)
    try:
        yield ensemble
    finally:
        for server in ensemble.servers:
            server.process.send_signal(signal.SIGCONT)
        ensemble.stop()


@pytest.fixture
def cluster(tmp_path, servers):
    with Cluster(tmp_path, f"{servers.connect}/c", settings=()) as running:
        running.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
        yield running


def start_again(servers):
    for server in servers:
        server.start(sync=False)
    for server in servers:
        server.wait_until_serving(time.monotonic() + START_TIMEOUT_S)


def all_say(cluster, word):
    return all_of(cluster, cluster.brokers, [word])


def all_of(cluster, broker_ids, words):
    logs = [cluster.brokers[broker_id].log for broker_id in broker_ids]
    return all(any(word in log for word in words) for log in logs)


def check_alive(cluster, load, killed):
    """Nobody was lost, who is controller is agreed on, and a death is dealt with as ever."""
    wait_until(lambda: create(cluster, "late"), "there are new topics again")
    cluster.wait_healthy("t")
    wait_until(lambda: len(controllers(cluster)) == 1, "one is controller")
    load.wait_for_more()
    load.take_longest_gap()
    cluster.kill(killed)
    wait_until(lambda: killed not in cluster.leaders("t"), "others lead")
    load.wait_for_more()
    cluster.start(killed)
    cluster.wait_healthy("t")
    cluster.wait_healthy("late")


def go_on_for(load, duration_s):
    """Let records be acknowledged for as long as that."""
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        load.wait_for_more()


def out_of_touch(cluster):
    """Brokers of which `barnabas cluster health` says that they do not reach ZooKeeper."""
    command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "health", "-o", "json"]
    told = subprocess.run(
        [*command, "--bootstrap", cluster.bootstrap], capture_output=True, text=True, check=False
    )
    return set(json.loads(told.stdout)["out_of_touch"])


def create(cluster, topic):
    """Tell whether it is there now: it is refused while the store cannot be reached."""
    try:
        cluster.create(topic, [[3, 2, 1]])
    except KafkaException as refusal:
        return refusal.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    return True


def controllers(cluster):
    return {cluster.metadata(broker_id=broker_id).controller_id for broker_id in cluster.brokers}


def test_it_dies_and_comes_back(cluster, servers):
    (server,) = servers.servers
    with Load(cluster, "t") as load:
        load.wait_for_more()
        server.kill()
        wait_until(lambda: all_say(cluster, "connection to ZooKeeper is lost"), "all lost it")
        wait_until(lambda: out_of_touch(cluster) == {1, 2, 3}, "all say that they lost it")
        load.wait_for_more(300)
        start_again([server])
        wait_until(lambda: not out_of_touch(cluster), "all have it again")
        check_alive(cluster, load, 1)
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


@only_in_make_chaos
def test_it_hangs_for_longer_than_sessions_last(cluster, servers):
    (server,) = servers.servers
    with Load(cluster, "t") as load:
        load.wait_for_more()
        server.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: all_say(cluster, "connection to ZooKeeper is lost"), "all lost it")
        go_on_for(load, SESSION_MS / 1000)
        server.process.send_signal(signal.SIGCONT)
        check_alive(cluster, load, 2)
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


@only_in_make_chaos
@pytest.mark.parametrize("servers", [3], indirect=True)
def test_it_loses_its_quorum_for_a_minute(cluster, servers):
    one, two, _three = servers.servers
    with Load(cluster, "t") as load:
        load.wait_for_more()
        one.kill()
        load.wait_for_more()
        two.kill()
        wait_until(lambda: all_say(cluster, "connection to ZooKeeper is lost"), "all lost it")
        go_on_for(load, MINUTE_S)
        start_again([one, two])
        check_alive(cluster, load, 3)
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_it_is_put_back_to_an_older_state(cluster, servers):
    """By then others led, in later epochs, and one of them was not in sync: the copy says otherwise."""
    (server,) = servers.servers
    copy = server.folder / "copy"
    with Load(cluster, "t") as load:
        load.wait_for_more()
        shutil.copytree(server.folder / "data", copy)
        cluster.kill(1)
        wait_until(lambda: 1 not in cluster.leaders("t"), "others lead")
        load.wait_for_more()
        server.kill()
        shutil.rmtree(server.folder / "data")
        shutil.copytree(copy, server.folder / "data")
        load.wait_for_more(300)
        start_again([server])
        wait_until(lambda: all_of(cluster, (2, 3), GONE_BACK), "they see that")
        load.wait_for_more()
        cluster.start(1)
        check_alive(cluster, load, 2)
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


def test_it_is_replaced_by_another_one(cluster, servers):
    """A broker does not join a cluster that is not its own: it stops, and says why."""
    (server,) = servers.servers
    server.kill()
    shutil.rmtree(server.folder / "data")
    (server.folder / "data").mkdir()
    start_again([server])
    for broker in cluster.brokers.values():
        code = broker.process.wait(PATIENCE_S)
        broker.kill()
        assert code == 1
        assert "ZooKeeper is now empty, and this broker has data of the cluster" in broker.log
