"""What went while a broker was away: topics and replicas that nobody could tell it of."""

import pytest
from member_kit import new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicId, TopicPartition, topic_id_text
from barnabas.ports import Delete, SetData
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    put_topic(store, "u", (1,), (1,))
    put_topic(store, "other", (2,), (2,))
    return store


@pytest.fixture
def member(store):
    """The only broker, and its controller; what the tests change in the store behind its back it is not told."""
    member = start_member(store, **{"log.segment.delete.delay.ms": "0"})
    member.node.members.controller.leave("the test")
    return member


def id_of(name):
    return name.encode().ljust(16, b"-")


def stored(name, replicas, topic_id=None):
    text = topic_id_text(TopicId(topic_id or id_of(name)))
    return cluster_znodes.topic_data(cluster_znodes.StoredTopic(text, {0: replicas}, {}, {}))


def move_away(store, name, epoch):
    """As a controller does that does not know of broker 1."""
    put(store, SetData(f"/brokers/topics/{name}", stored(name, (2,))))
    state = cluster_znodes.state_data(2, epoch, (2,), 1)
    put(store, SetData(cluster_znodes.state_path(name, 0), state))


def hear_of_a_controller(member, epoch=20):
    """Let its first order come, which says nothing."""
    request = UpdateMetadataRequest(controller_id=2, controller_epoch=epoch, broker_epoch=-1)
    answers = []
    drive(member.node.members.orders.update_metadata(request, 1), lambda *a: answers.append(a))
    member.events.settle()
    member.events.advance(1000)
    assert answers == [(ErrorCode.NONE, None)]


def folders(member):
    names = {path.split("/")[2] for path in member.disk.contents() if path.count("/") > 2}
    return sorted(name for name in names if name.startswith(("t-", "u-")))


def hosted(member):
    return [str(replica.key) for replica in member.node.replicas]


def test_a_topic_that_was_deleted_meanwhile_is_known_no_more(store, member):
    put(store, Delete("/brokers/topics/other"), Delete("/config/topics/other"))
    hear_of_a_controller(member)
    assert sorted(member.node.topics.by_name) == ["t", "u"]
    assert hosted(member) == ["t-0", "u-0"]


def test_a_replica_that_was_moved_away_meanwhile_is_deleted(store, member):
    move_away(store, "t", epoch=9)
    hear_of_a_controller(member)
    assert hosted(member) == ["u-0"]
    assert folders(member) == ["u-0"]
    assert "t" in member.node.topics.by_name, "it is elsewhere"


def test_the_log_of_a_replica_is_kept_where_no_later_leader_is_known(store, member):
    """A store that was put back does not know what this replica was told: it may have the only copy."""
    move_away(store, "t", epoch=1)
    hear_of_a_controller(member)
    assert hosted(member) == ["u-0"]
    stray, kept = folders(member)
    assert stray.endswith("-stray")
    assert kept == "u-0"


def test_the_log_of_a_topic_that_is_gone_is_set_aside(store, member):
    put(store, Delete("/brokers/topics/t"), Delete("/config/topics/t"))
    hear_of_a_controller(member)
    assert hosted(member) == ["u-0"]
    assert folders(member)[0].endswith("-stray")


def test_one_look_per_controller_and_registration(store, member):
    hear_of_a_controller(member, epoch=20)
    move_away(store, "t", epoch=9)
    hear_of_a_controller(member, epoch=20)
    assert hosted(member) == ["t-0", "u-0"]
    hear_of_a_controller(member, epoch=21)
    assert hosted(member) == ["u-0"]


def test_what_cannot_be_read_is_not_taken_for_gone(store, member):
    member.events.unreadable.add("/brokers/topics/t")
    hear_of_a_controller(member)
    assert hosted(member) == ["t-0", "u-0"]
    move_away(store, "u", epoch=9)
    member.events.unreadable.clear()
    member.events.advance(1000)
    assert hosted(member) == ["t-0"]


def test_a_topic_that_makes_no_sense_in_the_store_keeps_no_other_from_its_comparison(store, member):
    put(store, SetData("/brokers/topics/u", b"[]"))
    move_away(store, "t", epoch=9)
    hear_of_a_controller(member)
    assert hosted(member) == ["u-0"]


def test_a_state_that_makes_no_sense_in_the_store_costs_no_log(store, member):
    for name in ("t", "u"):
        move_away(store, name, epoch=9)
    put(store, SetData(cluster_znodes.state_path("u", 0), b"[]"))
    hear_of_a_controller(member)
    assert hosted(member) == []
    [stray] = folders(member)
    assert stray.startswith("u-0.")
    assert stray.endswith("-stray")


def test_what_a_store_has_forgotten_that_was_put_back_stays(store, member):
    member.node.members.orders.on_gone_back()
    move_away(store, "t", epoch=1)
    put(store, Delete("/brokers/topics/u"), Delete("/config/topics/u"))
    hear_of_a_controller(member)
    assert hosted(member) == ["t-0", "u-0"]
    assert sorted(member.node.topics.by_name) == ["other", "t", "u"]
    move_away(store, "t", epoch=9)
    hear_of_a_controller(member, epoch=21)
    assert hosted(member) == ["u-0"], "others have gone on without it"


def role(topic_id, epoch=0):
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=1, leader_epoch=epoch, isr=[1], replicas=[1], is_new=True
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])
    return LeaderAndIsrRequest(
        controller_id=2, controller_epoch=20, broker_epoch=-1, topic_states=[topic]
    )


def order(member, request):
    answers = []
    drive(member.node.members.orders.lead_and_follow(request, 1), lambda *a: answers.append(a))
    member.events.settle()
    [(codes, problem)] = answers
    assert problem is None
    return codes[TopicPartition("t", 0)]


def test_a_topic_that_was_made_again_takes_the_place_of_its_namesake(store, member):
    made_again = b"made again".ljust(16, b"-")
    put(store, SetData("/brokers/topics/t", stored("t", (1,), made_again)))
    assert order(member, role(made_again)) == ErrorCode.NONE
    replica = member.node.replicas.get("t", 0)
    assert replica.topic.id == made_again
    assert replica.state.is_leader
    assert [name for name in folders(member) if name.endswith("-stray")]
    assert "t-0" in folders(member)


def test_an_order_for_an_id_that_the_store_does_not_have_takes_nobodys_place(store, member):
    assert order(member, role(b"somebody's idea-")) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert member.node.replicas.get("t", 0).topic.id == id_of("t")
    assert folders(member) == ["t-0", "u-0"]
