"""Classic members inside a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup to it."""

import json

import pytest
from guest_kit import Guest, fleet_with, metadata, mixed, partitions, static_pair

from barnabas.core.group.classic.requests import LeaveRequest, LeavingMember
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

E = ErrorCode


# Classic members in a consumer group


def test_a_classic_member_joins_a_consumer_group():
    fleet = fleet_with()
    anna = fleet.join("anna")
    bob = Guest(fleet, "bob")
    reply = bob.join()
    assert (reply.error_code, reply.generation_id) == (E.NONE, 3)
    assert (reply.protocol_type, reply.protocol_name, reply.leader) == ("consumer", "range", "")
    assert bob.sync().assignment == partitions()
    assert bob.beat() is E.NONE, "what it waits for is not free yet"
    fleet.beat(anna)
    fleet.beat(anna)
    assert bob.beat() is E.REBALANCE_IN_PROGRESS
    bob.join_and_sync()
    assert bob.owned == {"t": [2, 3]}
    assert bob.beat() is E.NONE


def test_a_classic_member_says_in_its_join_what_it_still_owns():
    fleet = fleet_with()
    fleet.join("carl")
    anna = Guest(fleet, "anna")
    anna.join_and_sync()
    fleet.settle()
    anna.join_and_sync()
    assert anna.owned == {"t": [2, 3]}
    fleet.join("dora")
    assert anna.beat() is E.REBALANCE_IN_PROGRESS
    anna.join_and_sync()  # still says it owns both
    assert len(anna.owned["t"]) == 1
    assert anna.generation == 3, "it has to come again without what it lost"
    assert anna.beat() is E.REBALANCE_IN_PROGRESS
    anna.join_and_sync()
    assert anna.generation == 4
    fleet.settle()
    assert len(fleet.owners()) + len(anna.owned["t"]) == 4


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"session_timeout_ms": 1}, E.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("mine", metadata()),)}, E.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": (("range", b"?"),), "requires_known_member_id": False},
            E.UNKNOWN_SERVER_ERROR,
        ),
        ({"group_instance_id": "i", "member_id": "x"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_does_not_fit_is_refused(changes, error):
    fleet = fleet_with()
    fleet.join("anna")
    bob = Guest(fleet, "bob")
    bob.join_and_sync()
    before = list(fleet.machine.log)
    reply = fleet.machine.answer("join", Guest(fleet, "carl").join_request(**changes))
    assert reply.error_code is error
    assert fleet.machine.log == before


def test_where_groups_may_not_change_a_classic_member_may_not_come():
    fleet = fleet_with(GroupSettings(consumer_migration_policy="disabled"))
    fleet.join("anna")
    assert Guest(fleet, "bob").join().error_code is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_member():
    fleet = fleet_with(GroupSettings(consumer_max_size=1))
    fleet.join("anna")
    assert Guest(fleet, "bob").join().error_code is E.GROUP_MAX_SIZE_REACHED


def test_an_old_client_needs_no_second_join():
    fleet = fleet_with()
    fleet.join("anna")
    bob = Guest(fleet, "bob")
    reply = fleet.machine.answer("join", bob.join_request(requires_known_member_id=False))
    assert reply.error_code is E.NONE


def test_requests_of_who_is_no_classic_member_are_refused():
    fleet = fleet_with()
    fleet.join("anna")
    bob = Guest(fleet, "bob")
    bob.join_and_sync()
    assert bob.beat(generation_id=9) is E.ILLEGAL_GENERATION
    assert bob.sync(generation_id=9).error_code is E.ILLEGAL_GENERATION
    assert bob.beat(member_id="x") is E.UNKNOWN_MEMBER_ID
    assert bob.beat(member_id="anna") is E.UNKNOWN_MEMBER_ID
    assert bob.beat(group_instance_id="i") is E.UNKNOWN_MEMBER_ID
    assert bob.sync(protocol_type="connect").error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert bob.sync(protocol_name="mine").error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert bob.sync(protocol_type=None, protocol_name=None).error_code is E.NONE


def test_a_classic_member_that_falls_silent_is_removed():
    fleet = fleet_with()
    anna = fleet.join("anna")
    bob = Guest(fleet, "bob")
    bob.join_and_sync()
    fleet.machine.advance(9999)
    assert bob.member_id in fleet.group.members
    fleet.machine.advance(1)
    assert list(fleet.group.members) == ["anna"]
    assert fleet.beat(anna).error_code is E.NONE


def test_a_classic_member_that_never_syncs_is_removed():
    fleet = fleet_with()
    fleet.join("anna")
    bob = Guest(fleet, "bob")
    bob.join()
    for _ in range(4):
        fleet.machine.advance(7500)
        bob.beat()
    assert list(fleet.group.members) == ["anna"]


def test_a_classic_member_that_never_joins_again_is_removed():
    fleet = fleet_with()
    anna = fleet.join("anna")
    bob = Guest(fleet, "bob")
    bob.join_and_sync()
    fleet.beat(anna)
    fleet.beat(anna)
    for _ in range(4):
        assert bob.beat() is E.REBALANCE_IN_PROGRESS
        fleet.machine.advance(7500)
    assert list(fleet.group.members) == ["anna"]


def test_a_join_that_cannot_be_written_did_not_happen():
    fleet = fleet_with()
    fleet.join("anna")
    bob = Guest(fleet, "bob")
    reply = fleet.machine.answer("join", bob.join_request())
    bob.member_id = reply.member_id
    fleet.machine.fail_appends_with = E.NOT_LEADER_OR_FOLLOWER
    assert bob.join().error_code is E.NOT_COORDINATOR
    assert list(fleet.group.members) == ["anna"]


# Leaving


def leave(fleet, *members):
    reply = fleet.machine.answer("leave", LeaveRequest("g", members))
    return [one.error_code for one in reply.members]


def test_members_leave_one_by_one_or_together():
    fleet = fleet_with(GroupSettings(consumer_migration_policy="upgrade"))
    fleet.join("anna")
    fleet.join("bob", instance_id="b")
    fleet.join("carl", instance_id="c")
    codes = leave(
        fleet,
        LeavingMember("anna"),
        LeavingMember("x"),
        LeavingMember("", "b"),
        LeavingMember("y", "c"),
        LeavingMember("", "nobody"),
    )
    assert codes == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.FENCED_INSTANCE_ID,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert list(fleet.group.members) == ["carl"]
    before = len(fleet.machine.log)
    assert leave(fleet, LeavingMember("x")) == [E.UNKNOWN_MEMBER_ID]
    assert len(fleet.machine.log) == before


# Static members


def test_a_static_classic_member_that_restarts_keeps_its_place():
    fleet, bob = static_pair()
    again = Guest(fleet, "bob", instance="b")
    reply = again.join()
    assert reply.error_code is E.NONE
    assert again.member_id != bob.member_id
    assert json.loads(again.sync().assignment) == {"partitions": {"t": [2, 3]}}
    assert bob.beat() is E.FENCED_INSTANCE_ID
    assert bob.join().error_code is E.FENCED_INSTANCE_ID
    assert fleet.group.group_epoch == 3
    again.owned = {"t": [2, 3]}
    again.join_and_sync()
    assert again.owned == {"t": [2, 3]}


def test_among_others_a_static_member_that_goes_back_is_a_guest():
    fleet = fleet_with()
    fleet.join("anna", instance_id="a")
    fleet.join("bob")
    anna = Guest(fleet, "anna", instance="a")
    assert anna.join().error_code is E.NONE
    assert fleet.group.group_type == "consumer"
    assert fleet.group.classic_member_count == 1


def test_a_static_member_with_an_expression_takes_it_back_when_it_becomes_classic():
    fleet = fleet_with()
    fleet.join("anna", topics=None, regex="t", instance_id="a")
    fleet.join("bob")
    fleet.settle()
    anna = Guest(fleet, "anna", instance="a")
    anna.join(rebalance_timeout_ms=-1)
    assert fleet.group.resolved == {}
    assert fleet.group.members[anna.member_id].subscribed_topic_regex == ""
    assert fleet.group.members[anna.member_id].rebalance_timeout_ms == 60_000


def test_topics_that_are_gone_are_in_no_classic_assignment():
    fleet, bob = mixed()
    fleet.topics.delete("t")
    assert json.loads(bob.sync().assignment) == {"partitions": {}}


def test_a_guest_that_is_behind_must_join_before_it_syncs():
    fleet, bob = mixed()
    fleet.join("carl")
    assert bob.sync().error_code is E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("topics", [("t",), ("u",)])
def test_the_last_static_member_that_comes_as_a_guest_makes_the_group_classic(topics):
    fleet, _ = static_pair()
    assert Guest(fleet, "anna", instance="a", topics=topics).join().error_code is E.NONE
    assert fleet.group.group_type == "classic"
