"""What a broker serves while its session with the store lives, may be over, and is over."""

import pytest
from member_kit import ask, new_store, put, put_topic, start_member

from barnabas.broker import cluster_znodes
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.ports import Delete
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NONE, REFUSED = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
T0 = TopicPartition("t", 0)


@pytest.fixture
def store():
    return new_store()


@pytest.fixture
def member(store):
    """The only broker; it leads t-0."""
    put_topic(store, "t", (1,), (1,))
    member = start_member(store)
    assert (produce(member), find_end(member)) == (NONE, NONE)
    return member


def produce(member):
    records = batch.build([Record(0, 1, b"k", b"v", ())])
    topic = TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=records)]
    )
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    [answer] = ask(member, request, 9).responses[0].partition_responses
    return answer.error_code


def find_end(member):
    """As a client asks for the latest offset."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name="t", partitions=[partition])
    [answer] = ask(member, ListOffsetsRequest(topics=[topic]), 7).topics[0].partitions
    return answer.error_code


def state_of(member):
    return member.node.replicas.get(*T0).state


def test_what_is_led_is_served_without_the_store(member):
    member.node.members.on_suspended()
    member.events.advance(3_600_000)
    assert (produce(member), find_end(member)) == (NONE, NONE)


def test_after_its_session_a_broker_serves_nothing_until_it_is_told_what_it_leads(member):
    epoch = state_of(member).leader_epoch
    member.events.expire()
    assert (produce(member), find_end(member)) == (REFUSED, REFUSED)
    assert not member.node.replicas.get(*T0).tenure.is_leader
    member.events.reconnect()
    for _ in range(20):
        member.events.advance(100)
    assert (produce(member), find_end(member)) == (NONE, NONE)
    assert state_of(member).leader_epoch >= epoch


def test_what_a_store_that_was_put_back_does_not_know_is_served_on(member):
    member.node.members.on_gone_back()
    member.events.expire()
    assert (produce(member), find_end(member)) == (NONE, NONE)


def role(member, leader, epoch, version=50):
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=leader, leader_epoch=epoch, isr=[leader], partition_epoch=version, replicas=[1, 2],
    )  # fmt: skip
    topic_id = member.node.topics.by_name["t"].id
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])
    return LeaderAndIsrRequest(
        controller_id=1, controller_epoch=9, topic_states=[topic],
        broker_epoch=member.node.members.broker_epoch,
    )  # fmt: skip


def begin(member, request):
    answers = []
    drive(member.node.members.orders.lead_and_follow(request, 1000), lambda *a: answers.append(a))
    member.events.settle()
    return answers


def test_no_order_for_a_registration_that_is_over_is_taken(member):
    """The controller may have sent it before it knew."""
    order = role(member, 1, state_of(member).leader_epoch + 1)
    member.events.expire()
    answers = begin(member, order)
    member.events.advance(100)
    assert not answers
    assert produce(member) == REFUSED
    member.events.reconnect()
    for _ in range(5):
        member.events.advance(100)
    assert answers == [(ErrorCode.STALE_BROKER_EPOCH, None)]


def test_who_stops_before_it_is_registered_takes_no_order(member):
    order = role(member, 1, state_of(member).leader_epoch + 1)
    member.events.expire()
    answers = begin(member, order)
    member.node.stopping = True
    member.events.advance(100)
    assert answers == [(ErrorCode.STALE_BROKER_EPOCH, None)]
    assert not state_of(member).is_leader


# A process that stood still


def test_who_stood_still_serves_nothing_until_the_store_has_said_that_nobody_took_over(member):
    epoch = state_of(member).leader_epoch
    member.node.on_stood_still()
    link_answers = (produce_now(member), state_of(member).is_leader)
    assert link_answers == (REFUSED, False)
    member.events.settle()
    assert (produce(member), find_end(member)) == (NONE, NONE)
    assert state_of(member).leader_epoch == epoch


def produce_now(member):
    """Ask before anything else happens."""
    replica = member.node.led(*T0)
    return replica if isinstance(replica, ErrorCode) else NONE


def test_who_stood_still_for_too_long_serves_nothing_until_it_is_registered_again(store, member):
    put(store, Delete(cluster_znodes.broker_path(1)))  # as the end of its session does
    member.node.on_stood_still()
    for _ in range(10):
        member.events.advance(100)
    assert produce(member) == REFUSED
    member.events.expire()
    member.events.reconnect()
    for _ in range(20):
        member.events.advance(100)
    assert produce(member) == NONE


def test_no_order_is_taken_while_it_is_in_doubt_whom_it_is_for(member):
    order = role(member, 1, state_of(member).leader_epoch + 1)
    member.node.on_stood_still()
    answers = []
    drive(member.node.members.orders.lead_and_follow(order, 1000), lambda *a: answers.append(a))
    assert not answers
    assert not state_of(member).is_leader
    member.events.settle()
    member.events.advance(100)
    assert answers == [({T0: NONE}, None)]


def test_who_is_cut_off_from_the_store_anyway_is_in_no_other_doubt(member):
    member.node.members.on_suspended()
    member.node.on_stood_still()
    assert produce(member) == NONE


def test_what_the_controller_said_meanwhile_stays(member):
    """The doubt ends when the replica follows already."""
    replica = member.node.replicas.get(*T0)
    member.node.on_stood_still()
    replica.follow(leader=2, leader_epoch=9, partition_epoch=60, replicas=[1, 2], in_sync=[2])
    member.events.settle()
    assert not replica.state.is_leader
    assert replica.state.leader == 2


class PlantedFault(Exception):
    """Nobody foresaw it."""


def test_a_fault_in_one_partition_keeps_no_other_from_being_laid_down(store):
    for name in "tuv":
        put_topic(store, name, (1,), (1,))
    member = start_member(store)
    replicas = list(member.node.replicas)

    def fail(_code, _problem):
        raise PlantedFault

    replicas[0].commitment.until(1000, 3, None, member.events)(fail)
    with pytest.raises(PlantedFault):
        member.node.on_stood_still()
    assert [replica.state.is_leader for replica in replicas] == [False] * 3
    member.events.advance(1000)
    assert [replica.state.is_leader for replica in replicas] == [True] * 3, "nobody took over"


def test_a_fault_at_the_end_of_a_controllers_term_keeps_nothing_from_being_laid_down(store, member):
    member.events.advance(1000)
    office = member.node.members.controller.office

    def fail(_is_so, _problem):
        raise PlantedFault

    office.until(lambda: False, member.node.world.clock.monotonic_ms() + 1000)(fail)
    with pytest.raises(PlantedFault):
        member.node.members.on_expired()
    assert not member.node.replicas.get("t", 0).state.is_leader
