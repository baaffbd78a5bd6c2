"""Topics that an order names for the first time are known with their settings, or not at all."""

import pytest
from member_kit import config_data, new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import Create, SetData
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

COMPACTED = {"cleanup.policy": "compact", "min.insync.replicas": "2"}


@pytest.fixture
def store():
    return new_store()


@pytest.fixture
def member(store):
    put_topic(store, "known", (1, 2), (1, 2))
    return start_member(store)


def put_settings(store, name, texts):
    put(store, Create(f"/config/topics/{name}", config_data(texts)))


def id_of(name):
    return name.encode().ljust(16, b"-")


def roles(*names):
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=1, leader_epoch=0, isr=[1, 2], replicas=[1, 2], is_new=True
    )
    topics = [
        LeaderAndIsrTopicState(topic_name=name, topic_id=id_of(name), partition_states=[state])
        for name in names
    ]
    return LeaderAndIsrRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=topics
    )


def begin(member, *names):
    """Give the order; what comes of it is in the list once it is carried out."""
    outcome = []
    task = member.node.members.orders.lead_and_follow(roles(*names), 1)
    drive(task, lambda *answer: outcome.append(answer))
    member.events.settle()
    return outcome


def replica_of(member, name):
    return member.node.replicas.get(name, 0)


def test_a_topic_is_not_hosted_before_its_settings_were_read(store, member):
    put_settings(store, "c", COMPACTED)
    member.events.unreadable.add("/config/topics/c")
    outcome = begin(member, "c")
    member.events.advance(1000)
    assert not outcome
    assert replica_of(member, "c") is None
    assert "c" not in member.node.topics.by_name
    member.events.unreadable.clear()
    member.events.advance(1000)
    assert outcome[0][0] == {("c", 0): ErrorCode.NONE}
    config = replica_of(member, "c").config
    assert config.compact
    assert config.min_insync_replicas == 2


def test_clients_are_not_told_of_a_topic_before_its_settings_were_read(store, member):
    put_settings(store, "c", COMPACTED)
    member.events.unreadable.add("/config/topics/c")
    state = UpdateMetadataPartitionState(partition_index=0, leader=2, isr=[2], replicas=[2])
    topic = UpdateMetadataTopicState(topic_name="c", topic_id=id_of("c"), partition_states=[state])
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=[topic]
    )
    outcome = []
    drive(member.node.members.orders.update_metadata(request, 1), lambda *a: outcome.append(a))
    member.events.advance(1000)
    assert "c" not in member.node.topics.by_name
    member.events.unreadable.clear()
    member.events.advance(1000)
    assert outcome == [(ErrorCode.NONE, None)]
    assert member.node.topics.by_name["c"].overrides == COMPACTED


def test_a_setting_that_changes_while_others_are_being_read_is_in_force(store, member):
    put_settings(store, "c", {"cleanup.policy": "delete"})
    put_settings(store, "d", {})
    member.events.slow.add("/config/topics/d")
    begin(member, "c", "d")
    changed = SetData("/config/topics/c", config_data(COMPACTED))
    put(store, changed, cluster_znodes.config_notice("topics/c"))
    member.events.settle()
    member.events.answer_slow()
    assert member.node.topics.by_name["c"].overrides == COMPACTED
    assert replica_of(member, "c").config.compact


def test_an_order_whose_registration_is_over_waits_no_longer(store, member):
    put_settings(store, "c", COMPACTED)
    member.events.unreadable.add("/config/topics/c")
    outcome = begin(member, "c")
    member.node.members.broker_epoch += 1
    member.events.advance(1000)
    [(_codes, problem)] = outcome
    assert isinstance(problem, KafkaError)
    assert problem.code == ErrorCode.STALE_BROKER_EPOCH
    assert "c" not in member.node.topics.by_name
    member.events.unreadable.clear()
    assert begin(member, "c")[0][0] == {("c", 0): ErrorCode.NONE}, "the next order has its turn"


def test_settings_that_make_no_sense_refuse_that_topic_alone(store, member):
    put(store, Create("/config/topics/c", b"[]"))
    assert begin(member, "c", "d")[0][0] == {
        ("c", 0): ErrorCode.INVALID_CONFIG,
        ("d", 0): ErrorCode.NONE,
    }
    assert replica_of(member, "c") is None
    assert replica_of(member, "d").state.is_leader


def test_the_controller_hears_whether_a_new_topic_may_be_led_by_who_is_not_in_sync(store, member):
    put_settings(store, "c", {"unclean.leader.election.enable": "true"})
    begin(member, "c")
    assert member.node.office.machine.view.unclean == {"c": True}


def test_a_topic_that_is_made_while_a_broker_starts_is_never_without_its_settings():
    """Topics are read before settings: whoever sees a topic sees what was made with it."""
    store = new_store()
    put_topic(store, "known", (1, 2), (1, 2))
    trees = start_member(store).events.trees_read
    assert trees.index("/brokers/topics") < trees.index("/config")
