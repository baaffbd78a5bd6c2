import socket

import pytest
from bench.members import Crowd, Member, versioned

from barnabas.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription


@pytest.fixture
def crowd():
    with Crowd(port=0, topic="t", partitions=10, heartbeat_s=1) as crowd:
        yield crowd


def member(group, generation, leading=0, *, stable=True):
    return Member(group, socket.socket(), "id", generation, leading, stable)


def test_what_members_tell_each_other_starts_with_its_version():
    data = versioned(ConsumerProtocolSubscription(topics=["t"]))
    assert data[:2] == b"\0\0"
    assert ConsumerProtocolSubscription.decode(data, 0, 2).topics == ["t"]


def test_the_leader_gives_every_partition_to_one_member(crowd):
    shares = [ConsumerProtocolAssignment.decode(data, 0, 2) for data in crowd._assignments(3)]
    given = [index for share in shares for index in share.assigned_partitions[0].partitions]
    assert sorted(given) == list(range(10))
    assert len(shares) == 3


def test_a_group_is_settled_when_all_are_in_the_generation_of_a_leader_who_saw_all(crowd):
    crowd.members = [member("a", 2, leading=2), member("a", 2), member("b", 1, leading=1)]
    assert crowd.settled()


@pytest.mark.parametrize(
    ("group", "generation", "leading", "stable"),
    [("a", 2, 0, False), ("a", 1, 0, True), ("a", 2, 1, True), ("b", 1, 0, True)],
    ids=["waiting", "an old generation", "two leaders", "a group without a leader"],
)
def test_a_group_is_not_settled_while_one_is_not(crowd, group, generation, leading, stable):
    crowd.members = [member("a", 2, leading=1), member(group, generation, leading, stable=stable)]
    assert not crowd.settled()
