"""`barnabas cluster up`: ZooKeeper and brokers by one command; who dies is told, a signal stops all of them."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import CLIENT, brokers_known, wait_until
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from process_kit import ready_line
from zookeeper_kit import zookeeper_jars

STOP_TIMEOUT_S = 60


def command(*words):
    return [sys.executable, "-m", "barnabas.cli.main", "cluster", "up", *map(str, words)]


class RunningCluster:
    """The command while it runs."""

    def __init__(self, folder, *words):
        free = (
            "--port",
            0,
            "--zookeeper-port",
            0,
            "--data-dir",
            folder,
            "--jars",
            zookeeper_jars(),
        )
        self.said = Path(f"{folder}.stderr")
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                command(*free, *words), stdout=subprocess.PIPE, stderr=said, text=True
            )
        line = ready_line(self.process)
        assert line, self.said.read_text()
        self.bootstrap = line.split()[1]
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})

    def children(self):
        """What each process that it started was started with, by process id."""
        ids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {int(i): Path(f"/proc/{i}/cmdline").read_text().split("\0") for i in ids}

    def pid_of(self, broker_id):
        (found,) = [i for i, words in self.children().items() if f"node.id={broker_id}" in words]
        return found

    def zookeeper_pid(self):
        (found,) = [i for i, words in self.children().items() if words[-2].endswith("zoo.cfg")]
        return found

    def stop(self, number=signal.SIGTERM):
        children = list(self.children())
        self.process.send_signal(number)
        assert self.process.wait(STOP_TIMEOUT_S) == 0, self.said.read_text()
        assert self.process.stdout.read() == ""
        assert not any(Path(f"/proc/{pid}").exists() for pid in children)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()  # its children end with it
            self.process.wait()
        self.process.stdout.close()


@pytest.mark.java
def test_a_cluster_runs_survives_a_broker_and_comes_back_with_its_data(tmp_path):
    folder = tmp_path / "c"
    with RunningCluster(folder, "--set", "num.partitions=2") as cluster:
        assert len(cluster.bootstrap.split(",")) == 3
        cluster.admin.create_topics([NewTopic("t")])["t"].result(60)
        wait_until(lambda: replica_counts(cluster, "t") == [3, 3], "who is asked knows of it")
        subprocess.run(["kill", "-9", str(cluster.pid_of(2))], check=True)
        wait_until(lambda: "broker 2 at 127.0.0.1:" in cluster.said.read_text(), "it is told")
        assert "ended with -9" in cluster.said.read_text()
        assert "to start it again: barnabas up --data-dir" in cluster.said.read_text()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **CLIENT})
        for partition in (0, 1):
            producer.produce("t", b"v", partition=partition)
        assert producer.flush(60) == 0
        cluster.stop(signal.SIGINT)
    with RunningCluster(folder) as cluster:
        wait_until(lambda: brokers_known(cluster.admin) == 3, "all are known")
        assert "t" in cluster.admin.list_topics(timeout=60).topics
        cluster.stop()


def replica_counts(cluster, topic):
    """How many replicas each partition has, as any broker says: those who are not controller hear of a topic later."""
    found = cluster.admin.list_topics(timeout=60).topics.get(topic)
    return [] if found is None else [len(each.replicas) for each in found.partitions.values()]


@pytest.mark.java
def test_the_end_of_zookeeper_is_told_and_what_starts_it_again(tmp_path):
    with RunningCluster(tmp_path / "c", "--brokers", 1) as cluster:
        cluster.admin.create_topics([NewTopic("t")])["t"].result(60)
        subprocess.run(["kill", "-9", str(cluster.zookeeper_pid())], check=True)
        again = "to start it again: barnabas zookeeper up --data-dir "
        wait_until(lambda: again in cluster.said.read_text(), "it is told")
        words = cluster.said.read_text().partition(again)[2].split()
        assert words[0] == str(tmp_path / "c" / "zookeeper")
        zookeeper = [
            sys.executable,
            "-m",
            "barnabas.cli.main",
            "zookeeper",
            "up",
            "--data-dir",
            *words,
        ]
        with subprocess.Popen(zookeeper, stdout=subprocess.PIPE, text=True) as process:
            assert ready_line(process).startswith("ready ")
            wait_until(lambda: is_created(cluster, "u"), "it has a session again")
            cluster.stop()
            process.terminate()


def is_created(cluster, topic):
    problem = cluster.admin.create_topics([NewTopic(topic)])[topic].exception(60)
    return problem is None or problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.java
def test_what_cannot_start_is_told_in_one_sentence(tmp_path):
    words = ["--data-dir", tmp_path / "c", "--jars", zookeeper_jars()]

    def refused(*more):
        done = subprocess.run(command(*words, *more), capture_output=True, text=True, timeout=90)
        assert (done.stdout, "Traceback" in done.stderr) == ("", False), done.stderr
        return done.returncode, done.stderr

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("--zookeeper-port", port, "--port", 0)
        assert (code, f"cannot listen on 127.0.0.1:{port}" in said) == (1, True)
        assert "--zookeeper-port" in said
        code, said = refused("--zookeeper-port", 0, "--port", port, "--brokers", 1)
        assert (code, f"cannot listen on 127.0.0.1:{port}" in said) == (1, True)
    code, said = refused("--zookeeper-port", 0, "--port", 0, "--set", "num.partitons=3")
    assert (code, "num.partitions" in said) == (1, True)
    code, said = refused("--set", "node.id=3")
    assert (code, "node.id" in said) == (2, True)
