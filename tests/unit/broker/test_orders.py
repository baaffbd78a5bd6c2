"""Orders that are older than what a broker knows: from a store that was put back to an older state, or for its life before."""

from errno import ENOSPC

import pytest
from member_kit import new_store, put_topic, start_member

from barnabas.broker.edge import Contained
from barnabas.broker.orders import NOT_REGISTERED
from barnabas.broker.tasks import drive
from barnabas.broker.upkeep import OPEN_AGAIN_MS
from barnabas.model.cluster import Topic
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.stop_replica import StopReplicaRequest
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

T0 = TopicPartition("t", 0)
#: As `put_topic` names it.
TOPIC_ID = b"t".ljust(16, b"-")
REFUSED = ErrorCode.FENCED_LEADER_EPOCH


@pytest.fixture
def member():
    """The only one of two brokers that is there; it leads in epoch 3 and then 4, since it was away."""
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    return start_member(store)


def order(member, leader, epoch, version=50):
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=leader, leader_epoch=epoch, isr=[leader], partition_epoch=version, replicas=[1, 2],
    )  # fmt: skip
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=[topic]
    )
    answers = []
    drive(
        member.node.members.orders.lead_and_follow(request, 0),
        lambda *answer: answers.append(answer),
    )
    member.events.settle()
    ((codes, problem),) = answers
    assert problem is None
    return codes[T0]


def state_of(member):
    return member.node.replicas.get(*T0).state


def test_the_epoch_of_another_leader_is_refused(member):
    now = state_of(member).leader_epoch
    assert order(member, 2, now) == REFUSED
    assert order(member, 1, now) == ErrorCode.NONE
    assert order(member, 2, now - 1) == REFUSED
    assert state_of(member).is_leader
    assert order(member, 2, now + 1) == ErrorCode.NONE


def test_nobody_leads_or_follows_below_the_last_epoch_of_its_log(member):
    state = state_of(member)
    member.node.replicas.get(*T0).log.assign_epoch(20)
    for leader in (1, 2):
        assert order(member, leader, 19) == REFUSED
    assert state.leader_epoch < 19
    assert order(member, 1, 20) == ErrorCode.NONE


def test_once_the_store_was_put_back_only_later_epochs_count(member):
    orders, now = member.node.members.orders, state_of(member).leader_epoch
    orders.on_gone_back()
    assert orders.is_outlived(member.node.replicas.get(*T0))
    assert order(member, 1, now) == REFUSED
    assert order(member, 1, now + 1) == ErrorCode.NONE
    assert not orders.is_outlived(member.node.replicas.get(*T0))


def test_another_topic_of_the_same_name_begins_with_its_first_epoch_after_that(member):
    """Epochs that were known of the topic before it say nothing of this one."""
    orders = member.node.members.orders
    orders.on_gone_back()
    member.node.replicas.get(*T0).topic = Topic("t", b"t".ljust(16, b"+"), [])
    assert not orders.is_outlived(member.node.replicas.get(*T0))
    assert orders.outlived == []


def test_a_role_that_a_full_disk_kept_from_being_taken_is_asked_for_again(member, caplog):
    """The answer was that it was taken: the partition had no leader until somebody elected another one."""
    replica, disk = member.node.replicas.get(*T0), member.disk
    epoch = state_of(member).leader_epoch
    disk.fail_path(replica.log.directory + "/leader-epoch-checkpoint", ENOSPC)
    assert order(member, 1, epoch + 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (replica.offline, state_of(member).leader_epoch) == (False, epoch)
    disk.heal()
    member.events.advance(OPEN_AGAIN_MS)
    assert "broker 1 has lost logs: it is asked which" in caplog.text
    assert order(member, 1, epoch + 1) == ErrorCode.NONE
    assert not member.node.members.orders.has_untaken()


def test_nothing_is_taken_before_the_first_registration(member):
    """An order for the life before looks like one for this life until the broker knows its epoch."""
    members = member.node.members
    now, members.broker_epoch = members.broker_epoch, NOT_REGISTERED
    answers = []
    for order_of, request in (
        (members.orders.lead_and_follow, LeaderAndIsrRequest),
        (members.orders.stop, StopReplicaRequest),
        (members.orders.update_metadata, UpdateMetadataRequest),
    ):
        old = request(controller_id=1, controller_epoch=9, broker_epoch=now - 1)
        drive(order_of(old, 0), lambda *answer: answers.append(answer))
    for _ in range(10):
        member.events.advance(100)
    assert not answers
    members.broker_epoch = now
    for _ in range(3):  # each when the one before is done
        member.events.advance(100)
    assert answers == [(ErrorCode.STALE_BROKER_EPOCH, None)] * 3


def tell(member, leader, number, controller_epoch=9, broker_epoch=None):
    """Tell what clients are to be told of the leader; the answer."""
    state = UpdateMetadataPartitionState(
        partition_index=0, leader=leader, leader_epoch=7, isr=[leader], replicas=[1, 2]
    )
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    members = member.node.members
    request = UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=members.broker_epoch if broker_epoch is None else broker_epoch,
        topic_states=[topic],
    )
    answers = []
    drive(members.orders.update_metadata(request, number), lambda *answer: answers.append(answer))
    member.events.settle()
    ((code, problem),) = answers
    assert problem is None
    return code


def told_leader(member):
    return member.node.topics.by_name["t"].partitions[0].leader


def test_an_order_that_its_controller_has_given_up_does_not_count(member):
    """It was on its way over a connection that had stalled. Its controller gave that up, and has given other orders since."""
    assert tell(member, 2, number=12) == ErrorCode.NONE
    assert tell(member, 1, number=6) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert told_leader(member) == 2
    assert tell(member, 1, number=12) == ErrorCode.NONE
    assert told_leader(member) == 1


def test_numbers_of_orders_begin_again_with_a_controller_and_with_a_registration(member):
    assert tell(member, 2, number=12) == ErrorCode.NONE
    assert tell(member, 1, number=1, controller_epoch=10) == ErrorCode.NONE
    member.node.members.broker_epoch += 1
    assert tell(member, 2, number=0, controller_epoch=10) == ErrorCode.NONE
    assert told_leader(member) == 2


def test_orders_that_name_no_registration_have_no_order(member):
    assert tell(member, 2, number=12) == ErrorCode.NONE
    assert tell(member, 1, number=6, broker_epoch=-1) == ErrorCode.NONE
    assert told_leader(member) == 1


def test_the_rest_of_an_order_is_not_carried_out_in_the_next_registration(member):
    """The session ended while the order waited for the store, and the broker had registered anew before the answer came."""
    members = member.node.members
    now = state_of(member).leader_epoch
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=2, leader_epoch=now + 1, isr=[2], partition_epoch=50, replicas=[1, 2],
    )  # fmt: skip
    new = LeaderAndIsrPartitionState(
        partition_index=0, leader=2, leader_epoch=0, isr=[2], partition_epoch=0, replicas=[1, 2], is_new=True,
    )  # fmt: skip
    topics = [
        LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state]),
        LeaderAndIsrTopicState(topic_name="u", topic_id=bytes(range(16)), partition_states=[new]),
    ]
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=9, broker_epoch=members.broker_epoch, topic_states=topics
    )
    answers = []
    drive(members.orders.lead_and_follow(request, 10_000), lambda *answer: answers.append(answer))
    assert not answers, "the settings of the new topic are to be read"
    members.broker_epoch += 1
    member.events.settle()
    assert answers == [(ErrorCode.STALE_BROKER_EPOCH, None)]
    assert state_of(member).leader_epoch == now


class PlantedFault(Exception):
    """Nobody foresaw it."""


def test_a_fault_in_one_partition_keeps_no_other_from_its_role():
    store = new_store()
    for name in ("t", "u"):
        put_topic(store, name, (1, 2), (1, 2))
    member = start_member(store)
    replicas = {replica.topic.name: replica for replica in member.node.replicas}
    epoch = replicas["t"].state.leader_epoch + 1

    def fail(_code, _problem):
        raise PlantedFault

    replicas["t"].commitment.until(1000, epoch - 1, None, member.events)(fail)
    topics = [
        LeaderAndIsrTopicState(
            topic_name=name, topic_id=replica.topic.id,
            partition_states=[
                LeaderAndIsrPartitionState(
                    partition_index=0, leader=2, leader_epoch=epoch, isr=[2], partition_epoch=50, replicas=[1, 2],
                )
            ],
        )
        for name, replica in replicas.items()
    ]  # fmt: skip
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=9, broker_epoch=-1, topic_states=topics
    )
    answers = []
    orders = member.node.members.orders
    drive(orders.lead_and_follow(request, 0), lambda *answer: answers.append(answer))
    with pytest.raises(Contained):
        member.events.advance(0)
    codes = {T0: ErrorCode.UNKNOWN_SERVER_ERROR, TopicPartition("u", 0): ErrorCode.NONE}
    assert answers == [(codes, None)]
    assert replicas["u"].state.leader == 2
