"""The figures of a cluster under Kafka's names: each partition told by one broker, the whole by the controller."""

import contextlib
import urllib.request

import pytest
from cluster_kit import CLIENT, SESSION_MS, brokers_known, wait_until
from compat.test_up import Running
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

SUMMED = {
    "leadercount": "kafka_server_replicamanager_leadercount",
    "partitioncount": "kafka_server_replicamanager_partitioncount",
    "underreplicated": "kafka_server_replicamanager_underreplicatedpartitions",
    "under_min": "kafka_server_replicamanager_underminisrpartitioncount",
    "at_min": "kafka_server_replicamanager_atminisrpartitioncount",
    "controllers": "kafka_controller_kafkacontroller_activecontrollercount",
    "offline": "kafka_controller_kafkacontroller_offlinepartitionscount",
    "not_preferred": "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
}


class Member(Running):
    """A broker of a cluster, with its metrics."""

    def __init__(self, broker_id, folder, zookeeper):
        self.broker_id = broker_id
        settings = {
            "node.id": broker_id,
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": SESSION_MS,
        }
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        words += ["--data-dir", str(folder / str(broker_id)), "--log-level", "error"]
        super().__init__(*words, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
        self._url = self.process.stderr.readline().split()[-1]

    def figures(self):
        with urllib.request.urlopen(self._url, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
        }

    def __exit__(self, *failure):
        super().__exit__(*failure)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def members(tmp_path, zookeeper):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Member(n, tmp_path, zookeeper)) for n in (1, 2, 3)]


def total(members):
    figures = [member.figures() for member in members]
    return {short: sum(one[name] for one in figures) for short, name in SUMMED.items()}


@pytest.mark.java
def test_sums_over_brokers_are_those_of_the_cluster(members):
    bootstrap = ",".join(member.ready[0] for member in members)
    admin = AdminClient({"bootstrap.servers": bootstrap, **CLIENT})
    wait_until(lambda: brokers_known(admin) == 3, "all are known")
    new = NewTopic("t", 3, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], config={"min.insync.replicas": "2"})  # fmt: skip
    admin.create_topics([new])["t"].result(60)
    healthy = {
        "leadercount": 3, "partitioncount": 9, "underreplicated": 0, "under_min": 0, "at_min": 0,
        "controllers": 1, "offline": 0, "not_preferred": 0,
    }  # fmt: skip
    wait_until(lambda: total(members) == healthy, "all is well")
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **CLIENT})
    for partition in range(3):
        producer.produce("t", b"x" * 1000, partition=partition)
    assert producer.flush(60) == 0
    figures = [member.figures() for member in members]
    name = "kafka_server_brokertopicmetrics_replicationbytes{}_total"
    copied = sum(one[name.format("in")] for one in figures)
    assert copied >= 6 * 1000
    assert sum(one[name.format("out")] for one in figures) == copied
    assert all(one["kafka_brokers"] == 3 for one in figures)
    assert all(one['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'] == 0 for one in figures)  # fmt: skip
    leaders = [each for one in figures for each in one if each.startswith("kafka_topic_partition_leader{")]  # fmt: skip
    assert len(leaders) == len(set(leaders)) == 3
    members[2].process.kill()
    left = members[:2]
    degraded = {
        "leadercount": 3, "partitioncount": 6, "underreplicated": 3, "under_min": 0, "at_min": 3,
        "controllers": 1, "offline": 0, "not_preferred": 1,
    }  # fmt: skip
    wait_until(lambda: total(left) == degraded, "what is missing is told")
    members[1].process.kill()
    wait_until(lambda: total(left[:1])["under_min"] == 3, "nothing can be written")
    figures = left[0].figures()
    assert figures["kafka_server_replicamanager_isrexpands_total"] == 0
    assert figures["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
