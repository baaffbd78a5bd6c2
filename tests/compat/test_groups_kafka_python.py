"""kafka-python's groups: the classic protocol with all of its assignors, static members, and its administration of groups."""

import contextlib
import threading
import time

import kafka
import kafka.errors
import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

PARTITIONS = 4
TIMEOUT_S = 60


@pytest.fixture
def admin(group_bootstrap):
    with contextlib.closing(kafka.KafkaAdminClient(bootstrap_servers=group_bootstrap)) as client:
        yield client


@pytest.fixture
def topic(admin, topic_name):
    admin.create_topics({topic_name: {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    admin.list_partition_offsets(dict.fromkeys(places(topic_name), OffsetSpec.LATEST))
    return topic_name


@pytest.fixture
def group(topic_name):
    return f"{topic_name}-group"


class Member(threading.Thread):
    """A member that reads all the time, in a thread of its own: a rebalance needs all of them at once."""

    def __init__(self, topic, settings):
        super().__init__()
        self.consumer = kafka.KafkaConsumer(topic, **settings)
        # A leader that does not know the topic yet gives out nothing, and may never notice (on Kafka too).
        self.consumer.partitions_for_topic(topic)
        self.mine, self.leaving, self.read = threading.Lock(), False, []
        self.start()

    def run(self):
        while not self.leaving:
            with self.mine:
                for batch in self.consumer.poll(50).values():
                    self.read += batch

    @property
    def owned(self):
        return self.consumer.assignment()

    def call(self, name, *args, **kwargs):
        """Call a method of the consumer, which one thread at a time may use."""
        with self.mine:
            return getattr(self.consumer, name)(*args, **kwargs)

    def close(self):
        self.leaving = True
        self.join()
        self.consumer.close()


@pytest.fixture
def join(group_bootstrap, group):
    with contextlib.ExitStack() as members:

        def make(topic, **settings):
            base = {
                "bootstrap_servers": group_bootstrap,
                "group_id": group,
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "fetch_max_wait_ms": 50,
                "heartbeat_interval_ms": 300,
                "session_timeout_ms": 6000,
            }
            return members.enter_context(contextlib.closing(Member(topic, base | settings)))

        yield make


def places(topic):
    return [TopicPartition(topic, p) for p in range(PARTITIONS)]


def produce(bootstrap, topic, tag):
    with contextlib.closing(kafka.KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        sent = [
            producer.send(topic, f"{tag}-{n}".encode(), partition=n % PARTITIONS)
            for n in range(10 * PARTITIONS)
        ]
        return [future.get(TIMEOUT_S) for future in sent]


def until(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@pytest.mark.parametrize(
    "assignor",
    [
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    ],
)
def test_two_members_share_commit_and_are_succeeded(group_bootstrap, topic, join, assignor):
    settings = {"partition_assignment_strategy": [assignor]}
    produce(group_bootstrap, topic, "first")
    one = join(topic, **settings)
    until(lambda: len(one.read) == 40)
    one.call("commit")
    two = join(topic, **settings)
    until(lambda: len(one.owned) == len(two.owned) == 2)
    assert one.owned | two.owned == set(places(topic))
    produce(group_bootstrap, topic, "second")
    until(lambda: len(one.read) + len(two.read) == 80)
    assert len(two.read) == 20
    # Both before one leaves: the other may be told at once that the group is being made anew.
    for member in (one, two):
        member.call("commit")
    for member in (one, two):
        member.close()
    heir = join(topic, **settings)
    produce(group_bootstrap, topic, "third")
    until(lambda: len(heir.read) >= 40)
    assert {record.value[:5] for record in heir.read} == {b"third"}


def test_a_static_member_comes_back_and_nobody_notices(topic, join):
    patient = {"session_timeout_ms": 45_000}  # it has to be back before it is missed
    one, two = (join(topic, group_instance_id=name, **patient) for name in ("a", "b"))
    until(lambda: len(one.owned) == len(two.owned) == 2)
    had, kept = one.owned, two.owned
    one.close()
    again = join(topic, group_instance_id="a", **patient)
    until(lambda: again.owned)
    assert (again.owned, two.owned) == (had, kept)


def test_offsets_with_text_and_leader_epoch(group_bootstrap, topic, join):
    produce(group_bootstrap, topic, "r")
    member = join(topic)
    until(lambda: len(member.read) == 40)
    zero = places(topic)[0]
    member.call("commit", {zero: OffsetAndMetadata(7, "half way", 0)})
    found = member.call("committed", zero, metadata=True)
    assert found == OffsetAndMetadata(7, "half way", 0)
    assert member.call("committed", places(topic)[1]) is None
    with pytest.raises(kafka.errors.OffsetMetadataTooLargeError):
        member.call("commit", {zero: OffsetAndMetadata(8, "x" * 5000, 0)})
    assert member.call("committed", zero) == 7


def test_administration(group_bootstrap, admin, topic, group, join):
    produce(group_bootstrap, topic, "r")
    member = join(topic, group_instance_id="i-1", client_id="me")
    until(lambda: len(member.read) == 40)
    member.call("commit")
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    (only,) = described["members"]
    assert (only["client_id"], only["group_instance_id"]) == ("me", "i-1")
    (listed,) = [g for g in admin.list_groups(states_filter=["Stable"]) if g["group_id"] == group]
    assert (listed["protocol_type"], listed["group_type"]) == ("consumer", "classic")
    assert admin.list_groups(states_filter=["Dead"]) == []

    member.close()  # a static member does not leave by itself
    admin.remove_group_members(group, [MemberToRemove(group_instance_id="i-1")])
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    zero, one, *_ = places(topic)
    admin.alter_group_offsets(group, {zero: OffsetAndMetadata(3, "by hand", -1)})
    admin.reset_group_offsets(group, {one: OffsetSpec.EARLIEST})
    found = admin.list_group_offsets({group: None})[group]
    assert {p.partition: o.offset for p, o in found.items()} == {0: 3, 1: 0, 2: 10, 3: 10}
    assert found[zero].metadata == "by hand"
    admin.delete_group_offsets(group, [zero])
    assert zero not in admin.list_group_offsets({group: None})[group]
    admin.delete_groups([group])
    assert group not in [listed["group_id"] for listed in admin.list_groups()]
