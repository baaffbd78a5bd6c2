"""Groups in a cluster, whose coordinator dies. Nothing is passed over, and no committed offset goes back."""

import threading

import pytest
from cluster_kit import CLIENT, Cluster, only_in_make_chaos, wait_until
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition
from load_kit import Load
from process_kit import end_thread

from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

SETTINGS = ("offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0")
PARTITIONS = 3
COORDINATOR_TO_COME = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "_WAIT_COORD",
)


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=SETTINGS) as running:
        yield running


class Member:
    """Reads and commits, one record after another; what it read is kept in the order in which it was read."""

    def __init__(self, cluster, protocol):
        classic = {"session.timeout.ms": 6000} if protocol == "classic" else {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap, "group.id": protocol, "group.protocol": protocol,
                "auto.offset.reset": "earliest", "enable.auto.commit": False, **classic, **CLIENT,
            }
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: By partition: offsets read, and those that were committed for sure.
        self.read = {index: [] for index in range(PARTITIONS)}
        self.committed = dict.fromkeys(range(PARTITIONS), OFFSET_INVALID)
        self.commits = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        end_thread(self._thread, "the consumer")
        # Not closed: that may wait for ever when a rebalance comes with it, see compat/members.py.
        self._consumer = None

    def _run(self):
        self._consumer.subscribe(["t"])
        while not self._stop.is_set():
            for message in self._consumer.consume(50, timeout=0.1):
                if message.error() is None:
                    self.read[message.partition()].append(message.offset())
            try:
                done = self._consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # it may have been done, or not
            for each in done:
                if each.error is None:
                    self.committed[each.partition] = max(
                        self.committed[each.partition], each.offset
                    )
                    self.commits += 1

    def wait_for_commits(self, count=5):
        goal = self.commits + count
        wait_until(lambda: self.commits >= goal, "more is committed")


def coordinator_of(cluster, group):
    answer = cluster.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    (found,) = answer.coordinators
    return found.node_id if found.error_code == 0 else None


def committed_offsets(cluster, group):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, **CLIENT})
    asked, found = [TopicPartition("t", index) for index in range(PARTITIONS)], {}

    def ask():
        try:
            answer = consumer.committed(asked, timeout=60)
        except KafkaException as problem:
            # Any broker may be asked who coordinates: one that has not heard of the change names the one before.
            assert problem.args[0].name() in COORDINATOR_TO_COME, problem  # noqa: PT017  (others end the test)
            return False
        assert all(each.error is None for each in answer), answer
        found.update((each.partition, each.offset) for each in answer)
        return True

    try:
        wait_until(ask, "the group's coordinator answers")
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "protocol", [pytest.param("classic", marks=only_in_make_chaos), "consumer"]
)
def test_a_group_outlives_its_coordinator(cluster, protocol):
    cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
    with Load(cluster, "t") as load, Member(cluster, protocol) as member:
        for way in ("kill", "stop"):
            member.wait_for_commits()
            cluster.wait_healthy("__consumer_offsets")
            coordinator = coordinator_of(cluster, protocol)
            getattr(cluster, way)(coordinator)
            wait_until(
                lambda c=coordinator: coordinator_of(cluster, protocol) not in (c, None), "another"
            )
            before = dict(member.committed)
            stored = committed_offsets(cluster, protocol)
            went_back = [index for index in before if stored[index] < before[index]]
            assert not went_back, (stored, before)
            member.wait_for_commits()
            cluster.start(coordinator)
            cluster.wait_healthy("t")
        load.wait_for_more()
        ends = {index: 1 + max(load.of(index)) for index in range(PARTITIONS)}
        wait_until(
            lambda: all(member.committed[index] >= end for index, end in ends.items()),
            "everything is read",
        )
    for index, offsets in member.read.items():
        # What was read twice after a failover is no harm; a gap would be.
        assert sorted(set(offsets)) == list(range(max(offsets) + 1)), f"t-{index}"
