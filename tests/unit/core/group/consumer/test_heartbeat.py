"""ConsumerGroupHeartbeat: joining, living, changing, leaving; and every way to be refused."""

import pytest
from consumer_kit import SETTINGS, Client, Fleet, Topics, topic_id_of
from guest_kit import Guest

from barnabas.core.group.consumer.requests import ConsumerHeartbeatRequest
from barnabas.core.group.records import (
    ConsumerGroupEpoch,
    ConsumerGroupMember,
    CurrentAssignment,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from barnabas.core.group.settings import GroupOverrides, GroupSettings
from barnabas.model.errors import ErrorCode

T = topic_id_of("t")
U = topic_id_of("u")


@pytest.fixture
def fleet():
    return Fleet(Topics(t=4, u=2))


def ask(fleet, request):
    return fleet.machine.answer("consumer_heartbeat", request)


# Join


def test_the_first_member_gets_everything_at_once(fleet):
    anna = fleet.client("anna")
    reply = fleet.send(anna, anna.join())
    assert reply.error_code is ErrorCode.NONE
    assert (reply.member_id, reply.member_epoch) == ("anna", 2)
    assert reply.heartbeat_interval_ms == 5000
    assert reply.assignment == {T: (0, 1, 2, 3)}
    kinds = [type(record) for record in fleet.machine.log]
    assert kinds == [
        ConsumerGroupMember,
        ConsumerGroupEpoch,
        TargetAssignment,
        TargetAssignmentEpoch,
        CurrentAssignment,
    ]


def test_a_member_without_an_id_is_given_one_by_an_old_version(fleet):
    anna = Client("", requires_member_id=False)
    reply = ask(fleet, anna.join())
    assert reply.member_id == "00000001"


def test_a_member_subscribed_to_nothing_is_a_member_without_partitions(fleet):
    reply = ask(fleet, Client("anna", topics=()).join())
    assert (reply.member_epoch, reply.assignment) == (1, {})
    assert fleet.group.state_name == "Stable"


def test_a_topic_that_does_not_exist_gives_nothing_yet(fleet):
    reply = ask(fleet, Client("anna", topics=("nowhere",)).join())
    assert (reply.member_epoch, reply.assignment) == (2, {})


def test_the_second_member_waits_for_what_the_first_must_give_up(fleet):
    anna = fleet.join("anna")
    bob = fleet.client("bob")
    reply = fleet.send(bob, bob.join())
    assert (reply.member_epoch, reply.assignment) == (3, {})
    assert fleet.group.state_name == "Reconciling"

    reply = ask(fleet, anna.beat())
    assert (reply.member_epoch, reply.assignment) == (2, {T: (0, 1)})
    assert fleet.beat(bob).assignment is None
    anna.owned = {T: (0, 1)}
    assert fleet.beat(anna).member_epoch == 3
    assert fleet.beat(bob).assignment == {T: (2, 3)}
    assert fleet.group.state_name == "Stable"


def test_joining_again_under_the_same_id_starts_from_nothing(fleet):
    anna = fleet.join("anna")
    reply = fleet.send(anna, anna.join())
    assert reply.assignment == {T: (0, 1, 2, 3)}
    assert len(fleet.group.members) == 1


def test_a_full_group_takes_nobody_more():
    fleet = Fleet(Topics(t=1), GroupSettings(consumer_max_size=1))
    anna = fleet.join("anna")
    assert ask(fleet, Client("bob").join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert fleet.beat(anna).error_code is ErrorCode.NONE


# Who is not there


@pytest.mark.parametrize("epoch", [5, -1])
def test_a_group_that_is_not_there_has_no_members(fleet, epoch):
    reply = ask(fleet, ConsumerHeartbeatRequest("g", "anna", epoch))
    assert reply.error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [5, -1])
def test_a_member_that_is_not_there_is_unknown(fleet, epoch):
    fleet.join("anna")
    reply = ask(fleet, ConsumerHeartbeatRequest("g", "bob", epoch))
    assert reply.error_code is ErrorCode.UNKNOWN_MEMBER_ID


# Live


def test_a_heartbeat_with_nothing_new_writes_nothing(fleet):
    anna = fleet.join("anna")
    fleet.settle()
    before = len(fleet.machine.log)
    reply = ask(fleet, anna.beat())
    assert (reply.member_epoch, reply.assignment) == (anna.epoch, None)
    assert len(fleet.machine.log) == before


def test_a_full_heartbeat_is_answered_in_full(fleet):
    anna = fleet.join("anna")
    assert ask(fleet, anna.full()).assignment == {T: (0, 1, 2, 3)}


def test_an_epoch_from_the_future_is_fenced(fleet):
    anna = fleet.join("anna")
    reply = ask(fleet, anna.beat(member_epoch=anna.epoch + 1))
    assert reply.error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch (3)" in reply.error_message


@pytest.mark.parametrize("owned", [None, {T: (0, 3)}, {U: (0,)}])
def test_an_older_epoch_is_fenced(fleet, owned):
    anna = fleet.join("anna")
    fleet.join("bob")
    fleet.settle()
    assert anna.owned == {T: (0, 1)}
    reply = ask(fleet, anna.beat(member_epoch=2, topic_partitions=owned))
    assert reply.error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_taken_when_the_answer_may_have_been_lost(fleet):
    anna = fleet.join("anna")
    fleet.join("bob")
    ask(fleet, anna.beat())  # told to give up 2 and 3
    lost = ask(fleet, anna.beat(topic_partitions={T: (0, 1)}))
    assert lost.member_epoch == 3
    reply = ask(fleet, anna.beat(member_epoch=2, topic_partitions={T: (0, 1)}))
    assert (reply.error_code, reply.member_epoch) == (ErrorCode.NONE, 3)


def test_who_subscribes_to_more_gets_more(fleet):
    anna = fleet.join("anna")
    reply = fleet.send(anna, anna.beat(subscribed_topic_names=["u", "t", "t"]))
    assert (reply.member_epoch, reply.assignment) == (3, {T: (0, 1, 2, 3), U: (0, 1)})


def test_who_subscribes_to_less_must_give_up_first(fleet):
    anna = fleet.join("anna", topics=("t", "u"))
    reply = ask(fleet, anna.beat(subscribed_topic_names=["u"]))
    assert (reply.member_epoch, reply.assignment) == (2, {U: (0, 1)})
    reply = ask(fleet, anna.beat(topic_partitions={U: (0, 1)}))
    assert (reply.member_epoch, reply.assignment) == (3, None)


def test_a_change_that_is_no_subscription_raises_no_epoch(fleet):
    anna = fleet.join("anna")
    reply = ask(fleet, anna.beat(rack_id="north", client_id="c", client_host="/1.2.3.4"))
    assert reply.member_epoch == 2
    member = fleet.group.members["anna"]
    assert (member.rack_id, member.client_id, member.client_host) == ("north", "c", "/1.2.3.4")


def test_most_members_choose_the_assignor(fleet):
    for name, assignor in [("a", "range"), ("b", "range"), ("c", "uniform"), ("d", None)]:
        fleet.join(name, server_assignor=assignor)
    assert fleet.group.preferred_assignor() == "range"
    fleet.settle()
    assert fleet.both.consumer.describe("g").assignor_name == "range"
    assert fleet.clients["a"].owned == {T: (0,)}


# Targets wait a little for more members


def test_members_that_come_together_share_one_target():
    fleet = Fleet(Topics(t=4), GroupSettings())
    anna = fleet.join("anna")
    bob = fleet.join("bob")
    assert (bob.epoch, bob.owned) == (2, {})
    assert (fleet.group.group_epoch, fleet.group.assignment_epoch) == (3, 2)
    assert fleet.group.state_name == "Assigning"
    fleet.machine.advance(1000)
    fleet.beat(anna)
    assert fleet.group.assignment_epoch == 3
    fleet.settle()
    assert len(fleet.owners()) == 4


def test_a_group_may_have_settings_of_its_own():
    own = GroupOverrides(
        consumer_session_timeout_ms=50_000,
        consumer_heartbeat_interval_ms=7000,
        consumer_assignment_interval_ms=0,
    )
    fleet = Fleet(Topics(t=1), GroupSettings(), overrides=lambda group_id: own)
    anna = fleet.client("anna")
    assert fleet.send(anna, anna.join()).heartbeat_interval_ms == 7000
    fleet.machine.advance(49_999)
    assert not fleet.group.is_empty
    fleet.machine.advance(1)
    assert fleet.group.is_empty


# Leave


def test_who_leaves_leaves_its_partitions_to_the_others(fleet):
    anna, bob = fleet.join("anna"), fleet.join("bob")
    fleet.settle()
    reply = ask(fleet, bob.beat(member_epoch=-1))
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (ErrorCode.NONE, "bob", -1)
    del fleet.clients["bob"]
    fleet.settle()
    assert anna.owned == {T: (0, 1, 2, 3)}
    assert anna.epoch == 4


def test_the_last_one_leaves_an_empty_group(fleet):
    anna = fleet.join("anna")
    ask(fleet, anna.beat(member_epoch=-1))
    assert fleet.group.state_name == "Empty"
    assert fleet.group.owners == {T: {}}


# Static members


def test_a_static_member_keeps_its_partitions_while_it_is_away(fleet):
    anna = fleet.join("anna-1", instance_id="anna")
    bob = fleet.join("bob")
    fleet.settle()
    had = anna.owned
    reply = ask(fleet, anna.beat(member_epoch=-2))
    assert (reply.member_epoch, reply.error_code) == (-2, ErrorCode.NONE)
    epoch = fleet.group.group_epoch
    again = fleet.join("anna-2", instance_id="anna")
    del fleet.clients["anna-1"]
    assert again.owned == had
    assert fleet.group.group_epoch == epoch
    assert fleet.beat(bob).assignment is None
    assert list(fleet.group.members) == ["bob", "anna-2"]


def test_a_static_member_that_comes_back_with_another_subscription_rebalances(fleet):
    anna = fleet.join("anna-1", instance_id="anna")
    ask(fleet, anna.beat(member_epoch=-2))
    back = fleet.client("anna-2", topics=("u",), instance_id="anna")
    reply = fleet.send(back, back.join())
    assert (reply.member_epoch, reply.assignment) == (3, {U: (0, 1)})


def test_an_instance_id_in_use_is_not_released(fleet):
    fleet.join("anna-1", instance_id="anna")
    reply = ask(fleet, Client("anna-2", instance_id="anna").join())
    assert reply.error_code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_the_holder_of_an_instance_id_may_not_join_twice_under_its_own_id(fleet):
    anna = fleet.join("anna-1", instance_id="anna")
    assert ask(fleet, anna.join()).error_code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_member_may_take_an_instance_id_when_it_joins_again(fleet):
    anna = fleet.join("anna")
    anna.instance_id = "one"
    assert fleet.send(anna, anna.join()).error_code is ErrorCode.NONE
    assert fleet.group.static_members == {"one": "anna"}


@pytest.mark.parametrize("epoch", [3, -1, -2])
def test_the_one_who_lost_its_instance_id_is_fenced(fleet, epoch):
    anna = fleet.join("anna-1", instance_id="anna")
    ask(fleet, anna.beat(member_epoch=-2))
    fleet.join("anna-2", instance_id="anna")
    reply = ask(fleet, anna.beat(member_epoch=epoch))
    assert reply.error_code is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("epoch", [3, -1, -2])
def test_an_instance_id_nobody_holds_is_unknown(fleet, epoch):
    anna = fleet.join("anna")
    reply = ask(fleet, anna.beat(member_epoch=epoch, instance_id="anna"))
    assert reply.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_can_leave_for_good(fleet):
    anna = fleet.join("anna-1", instance_id="anna")
    ask(fleet, anna.beat(member_epoch=-1))
    assert fleet.group.is_empty
    assert fleet.group.static_members == {}


def test_a_static_member_that_stays_away_too_long_is_removed(fleet):
    anna = fleet.join("anna-1", instance_id="anna")
    ask(fleet, anna.beat(member_epoch=-2))
    fleet.machine.advance(SETTINGS.consumer_session_timeout_ms)
    assert fleet.group.is_empty


def test_a_static_member_lives_like_any_other(fleet):
    anna = fleet.join("anna-1", instance_id="anna")
    fleet.settle()
    assert ask(fleet, anna.beat()).error_code is ErrorCode.NONE
    assert ask(fleet, anna.beat(member_epoch=9)).error_code is ErrorCode.FENCED_MEMBER_EPOCH


# A group of the other kind


def test_an_empty_classic_group_gives_way(fleet):
    fleet.both.classic.make_simple("g")
    fleet.join("anna")
    assert fleet.group.group_type == "consumer"


@pytest.mark.parametrize("epoch", [2, -1])
def test_a_classic_group_is_no_consumer_group(fleet, epoch):
    fleet.both.classic.make_simple("g")
    reply = ask(fleet, ConsumerHeartbeatRequest("g", "anna", epoch))
    assert reply.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert reply.error_message == "Group g is not a consumer group."


def test_a_classic_group_with_members_changes_its_protocol(fleet):
    guest = Guest(fleet, "carl")
    guest.member_id = ask_join(fleet, guest).member_id
    fleet.machine.ask("join", guest.join_request())
    assert fleet.join("anna").epoch == 1
    assert fleet.group.classic_member_count == 1


def ask_join(fleet, guest):
    return fleet.machine.answer("join", guest.join_request())


def test_expressions_are_looked_at_by_a_heartbeat_with_nothing_else(fleet):
    anna = fleet.join("anna", topics=None, regex="t")
    fleet.settle()
    fleet.machine.advance(10_001)
    fleet.topics.make("t2", 1)
    fleet.both.consumer.on_topics_changed(["t2"])
    ask(fleet, anna.beat())
    assert fleet.group.regexes_are_tried
