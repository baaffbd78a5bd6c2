"""What brokers of Apache Kafka ask their controller for, and Barnabas's do themselves: the in-sync set, producer ids."""

from random import Random

import pytest
from fuzz import good_request
from fuzz_world import FuzzLink
from member_kit import ask, new_store, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.view import Leadership, ReadState, ReadTopic
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

EPOCHS_SINCE = 3
IDS = {name: name.encode().ljust(16, b"-") for name in ("t", "u")}


@pytest.fixture
def store():
    store = new_store()
    for name in IDS:
        put_topic(store, name, (1,), (1,))
    return store


@pytest.fixture
def member(store):
    return start_member(store)


def state_of(store, topic):
    return cluster_znodes.read_state(store.tree[cluster_znodes.state_path(topic, 0)])


def wish(member, store, topic, *, version=3, epoch_change=0, **changes):
    now = state_of(store, topic)
    asked = RequestPartitionData(leader_epoch=now.leader_epoch, partition_epoch=now.version)
    if version < EPOCHS_SINCE:
        asked.new_isr = [1]
    else:
        asked.new_isr_with_epochs = [BrokerState(broker_id=1)]
    for name, value in changes.items():
        setattr(asked, name, value)
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=member.node.members.broker_epoch + epoch_change,
        topics=[RequestTopicData(topic_id=IDS[topic], partitions=[asked])],
    )
    return ask(member, request, version)


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_so_is_told(member, store, version):
    [topic] = wish(member, store, "t", version=version).topics
    [answer] = topic.partitions
    now = state_of(store, "t")
    assert (answer.error_code, answer.leader_id, answer.isr) == (0, 1, [1])
    assert (answer.leader_epoch, answer.partition_epoch) == (now.leader_epoch, now.version)


def test_who_is_not_registered_so_is_refused(member, store):
    assert wish(member, store, "t", epoch_change=-1).error_code == ErrorCode.STALE_BROKER_EPOCH
    ids = AllocateProducerIdsRequest(broker_id=2, broker_epoch=5)
    assert ask(member, ids, 0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_an_old_epoch_is_refused_alone(member, store):
    [topic] = wish(member, store, "t", leader_epoch=0).topics
    assert topic.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_topic_that_is_not_there(member, store, monkeypatch):
    monkeypatch.setitem(IDS, "u", bytes(Random(1).randbytes(16)))
    [topic] = wish(member, store, "u").topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def make_again(member, topic):
    """The controller has carried out that a topic is deleted, and made under the same name."""
    machine, key = member.node.office.machine, TopicPartition(topic, 0)
    old = machine.view.partition(key)
    state = ReadState(Leadership(1, old.leadership.leader_epoch, (1,), 1), old.version, 9)
    machine.on_topics_gone([topic])
    machine.on_topics([ReadTopic(topic, bytes(range(16)), 0, {0: Assignment((1, 2), (), ())})])
    machine.on_states({key: state})


def test_a_topic_that_is_made_again_while_another_one_is_written_keeps_its_in_sync_set():
    store = new_store()
    for name in IDS:
        put_topic(store, name, (1, 2), (1, 2))
    member = start_member(store)
    member.node.office.machine.view.brokers[2] = LiveBroker(2)
    before = {name: state_of(store, name) for name in IDS}
    assert [before[name].in_sync for name in IDS] == [(1,), (1,)]
    asked = [
        RequestTopicData(
            topic_id=IDS[name],
            partitions=[
                RequestPartitionData(
                    leader_epoch=now.leader_epoch,
                    partition_epoch=now.version,
                    new_isr_with_epochs=[BrokerState(broker_id=each) for each in (1, 2)],
                )
            ],
        )
        for name, now in before.items()
    ]
    request = AlterPartitionRequest(
        broker_id=1, broker_epoch=member.node.members.broker_epoch, topics=asked
    )
    link = FuzzLink()
    frame = memoryview(bytearray(good_request(request, 3, 1)))
    assert member.node.on_request(link, frame) is None, "it does not wait"
    make_again(member, "u")
    member.events.settle()
    assert len(link.answers) == 1
    assert state_of(store, "t").in_sync == (1, 2)
    assert state_of(store, "u") == before["u"]


def test_blocks_of_producer_ids_are_given_once(member):
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=member.node.members.broker_epoch)
    first, second = ask(member, request, 0), ask(member, request, 0)
    assert first.error_code == second.error_code == 0
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len
