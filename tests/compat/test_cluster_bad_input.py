"""What a broker is refused for when it wants to join a cluster: one sentence that says what to do, and an exit code."""

import subprocess
import sys

import pytest
from cluster_kit import Cluster, wait_until
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

UP = [
    sys.executable,
    "-m",
    "barnabas.cli.main",
    "up",
    "--listen",
    "127.0.0.1:0",
    "--log-level",
    "error",
]
NOBODY = "127.0.0.1:1"

pytestmark = pytest.mark.java


def refused(folder, *settings):
    """Exit code and what was said, which must be one line."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [*UP, "--data-dir", str(folder), *words, "--set", "zookeeper.session.timeout.ms=2000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("barnabas up: ")]
    assert len(said) == 1, done.stderr
    return done.returncode, said[0]


def test_members_that_cannot_be(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, count=2) as cluster:
        code, said = refused(tmp_path / "new", "node.id=1", f"zookeeper.connect={zookeeper}")
        assert (code, "another broker with the id 1" in said) == (1, True), said
        assert "node.id" in said
        assert not (tmp_path / "new" / "meta.properties").exists()  # it can be used with another id
        at = cluster.address_of(1)
        there = f"advertised.listeners=PLAINTEXT://{at}"
        code, said = refused(tmp_path / "x", "node.id=3", f"zookeeper.connect={zookeeper}", there)
        assert (code, f"broker 1 of this cluster says that it is at {at}" in said) == (1, True), (
            said
        )
        admin = cluster.admin()
        with pytest.raises(KafkaException, match="only 2 brokers alive: start more brokers"):
            admin.create_topics([NewTopic("t", 1, 3)])["t"].result(60)
        folder = cluster.brokers[2].data_dir
        cluster.stop(2)
    code, said = refused(folder, "node.id=3", f"zookeeper.connect={zookeeper}")
    assert (code, "belongs to broker 2, but this is broker 3" in said) == (1, True), said
    code, said = refused(folder, "node.id=2", f"zookeeper.connect={zookeeper}-other")
    assert (code, "belongs to cluster" in said) == (1, True), said


def test_a_name_whose_topic_cannot_be_deleted_yet(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, count=2) as cluster:
        cluster.create("t", [[1, 2]])
        cluster.kill(2)
        wait_until(lambda: cluster.partitions("t") == [(1, [1])], "it is away")
        admin = cluster.admin()
        admin.delete_topics(["t"])["t"].result(60)
        with pytest.raises(KafkaException, match=r"is being deleted.*start \[2\]"):
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
        cluster.start(2)
        wait_until(lambda: made(cluster, "t"), "it is gone, and made anew")


def made(cluster, topic):
    admin = cluster.admin()
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    except KafkaException as refused:
        assert refused.args[0].name() == "TOPIC_ALREADY_EXISTS"  # noqa: PT017  (others end the test)
        return False
    return True


def test_zookeeper_that_cannot_be_reached(tmp_path):
    wait = "zookeeper.connection.timeout.ms=1000"
    code, said = refused(tmp_path, "node.id=1", f"zookeeper.connect={NOBODY}", wait)
    assert (code, NOBODY in said) == (1, True), said
    assert "zookeeper.connect" in said


@pytest.mark.parametrize("node_id", ["-1", "1001", "2147483648", "one"])
def test_an_id_that_is_not_allowed(tmp_path, node_id):
    code, said = refused(tmp_path / "d", f"node.id={node_id}", f"zookeeper.connect={NOBODY}")
    assert (code, "node.id" in said) == (2, True), said
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("connect", ["127.0.0.1:x", "a:1/x,b:1/y", "127.0.0.1:99999"])
def test_a_connect_string_that_cannot_be_meant(tmp_path, connect):
    code, said = refused(tmp_path / "d", "node.id=1", f"zookeeper.connect={connect}")
    assert (code, "zookeeper.connect" in said) == (2, True), said
    assert not (tmp_path / "d").exists()
