"""Readers with another idea of the leader epoch (KIP-320): that is said before anything else, whatever API they use, as in Kafka."""

import pytest
from member_kit import ask, new_store, put_topic, start_member

from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

E = ErrorCode
T0 = TopicPartition("t", 0)
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
#: What a client with an epoch that is so much later is told.
EPOCHS = [(-1, E.FENCED_LEADER_EPOCH), (1, E.UNKNOWN_LEADER_EPOCH)]


@pytest.fixture
def member():
    """The leader, in rack a; broker 2 is in sync, in rack b."""
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    settings = {"replica.selector.class": SELECTOR, "broker.rack": "a"}
    member = start_member(store, **settings)
    node = member.node
    node.cluster.brokers = {**node.cluster.brokers, 2: LiveBroker(2, rack="b")}
    state = node.replicas.get(*T0).state
    state.in_sync = (1, 2)
    state.followers[2].end_offset = 0
    return member


def state_of(member):
    return member.node.replicas.get(*T0).state


def follow(member):
    replica = member.node.replicas.get(*T0)
    replica.follow(
        leader=2, leader_epoch=replica.state.leader_epoch + 1, partition_epoch=90,
        replicas=(1, 2), in_sync=(1, 2),
    )  # fmt: skip


def fetch(member, epoch, rack="", version=12):
    partition = FetchPartition(
        partition=0, fetch_offset=0, current_leader_epoch=epoch, partition_max_bytes=1000
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1000, rack_id=rack, session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )  # fmt: skip
    found = ask(member, request, version).responses[0].partitions[0]
    return found.error_code, found.preferred_read_replica


def list_offsets(member, epoch):
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    return ask(member, ListOffsetsRequest(topics=topics), 6).topics[0].partitions[0].error_code


def end_of_epoch(member, epoch):
    partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=1)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[partition])]
    answer = ask(member, OffsetForLeaderEpochRequest(topics=topics), 4)
    return answer.topics[0].partitions[0].error_code


def test_a_reader_is_sent_to_the_replica_in_its_rack(member):
    now = state_of(member).leader_epoch
    assert fetch(member, now, rack="b") == (E.NONE, 2)
    assert fetch(member, -1, rack="b") == (E.NONE, 2)
    assert fetch(member, now, rack="a") == (E.NONE, -1)


@pytest.mark.parametrize(("by", "code"), EPOCHS)
def test_one_with_another_epoch_is_refused_and_not_sent_on(member, by, code):
    epoch = state_of(member).leader_epoch + by
    assert fetch(member, epoch, rack="b") == (code, -1)
    assert fetch(member, epoch, rack="a") == (code, -1)


@pytest.mark.parametrize(("by", "code"), [*EPOCHS, (0, E.NOT_LEADER_OR_FOLLOWER)])
def test_a_follower_compares_epochs_before_it_says_that_it_does_not_lead(member, by, code):
    follow(member)
    epoch = state_of(member).leader_epoch + by
    assert fetch(member, epoch, version=10) == (code, -1), "cannot read from followers"
    assert list_offsets(member, epoch) == code
    assert end_of_epoch(member, epoch) == code


def test_a_follower_serves_readers_of_its_epoch(member):
    follow(member)
    assert fetch(member, state_of(member).leader_epoch) == (E.NONE, -1)


def test_a_replica_that_was_told_nothing_yet_compares_nothing(member):
    replica = member.node.replicas.get(*T0)
    replica.state.leader, replica.state.is_leader = -1, False
    replica.state.leader_epoch = -1
    assert replica.state.is_undecided
    for epoch in (-1, 0, 5):
        assert fetch(member, epoch) == (E.NOT_LEADER_OR_FOLLOWER, -1)
        assert list_offsets(member, epoch) == E.NOT_LEADER_OR_FOLLOWER
        assert end_of_epoch(member, epoch) == E.NOT_LEADER_OR_FOLLOWER
