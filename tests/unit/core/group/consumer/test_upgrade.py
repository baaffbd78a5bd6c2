"""Groups that change their protocol while they have members."""

from dataclasses import replace

import pytest
from consumer_kit import SETTINGS, Client, topic_id_of
from guest_kit import Guest, classic_group, fleet_with, metadata, mixed, partitions, static_pair

from barnabas.core.group import records as r
from barnabas.core.group.classic.requests import SyncRequest
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

T = topic_id_of("t")
E = ErrorCode


# Classic to consumer


def test_a_classic_group_becomes_a_consumer_group_when_the_first_new_member_joins():
    fleet = fleet_with()
    anna, bob = classic_group(fleet, "anna", "bob")
    carl = fleet.client("carl")
    reply = fleet.send(carl, carl.join())
    assert (reply.error_code, reply.member_epoch, reply.assignment) == (E.NONE, 2, {})
    group = fleet.group
    assert group.group_type == "consumer"
    assert list(group.members) == [anna.member_id, bob.member_id, "carl"]
    assert group.members[anna.member_id].assigned == {T: {0: 1, 1: 1}}
    assert group.classic_member_count == 2
    assert type(fleet.machine.log[-1]) is r.CurrentAssignment
    assert r.ClassicGroupRemoved("g") in fleet.machine.log


def test_classic_members_are_led_to_the_new_assignment_by_their_own_protocol():
    fleet = fleet_with()
    anna, bob = classic_group(fleet, "anna", "bob")
    carl = fleet.join("carl")
    assert fleet.both.consumer.describe("g").members[0].member_type == 0
    for guest in (anna, bob):
        assert guest.beat() is E.REBALANCE_IN_PROGRESS
        assert guest.sync().error_code is E.REBALANCE_IN_PROGRESS
        guest.join_and_sync()
    owners = {p for guest in (anna, bob) for p in guest.owned["t"]}
    assert len(owners) == 3
    givers = [guest for guest in (anna, bob) if guest.beat() is E.REBALANCE_IN_PROGRESS]
    for guest in givers:
        guest.join_and_sync()
    fleet.beat(carl)
    assert len(carl.owned[T]) == 1
    assert owners | set(carl.owned[T]) == {0, 1, 2, 3}
    assert [anna.beat(), bob.beat()] == [E.NONE, E.NONE]
    assert fleet.group.state_name == "Stable"


def test_an_upgraded_group_is_the_same_after_a_restart():
    fleet = fleet_with()
    classic_group(fleet, "anna", "bob")
    fleet.join("carl")
    before = fleet.both.consumer.describe("g")
    fleet.restart()
    assert fleet.both.consumer.describe("g") == before


def test_who_waits_in_the_classic_group_must_come_again():
    fleet = fleet_with()
    anna, bob = classic_group(fleet, "anna", "bob")
    waiting = fleet.machine.ask("join", anna.join_request(protocols=(("range", metadata(["u"])),)))
    assert fleet.machine.waits(waiting)
    fleet.join("carl")
    assert fleet.machine.replies[waiting].error_code is E.REBALANCE_IN_PROGRESS
    assert bob.beat() is E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("settings", "changes", "code"),
    [
        (SETTINGS, {"subscribed_topic_regex": "("}, E.INVALID_REGULAR_EXPRESSION),
        (
            replace(SETTINGS, consumer_max_size=2),
            {},
            E.GROUP_MAX_SIZE_REACHED,
        ),
    ],
)
def test_a_newcomer_that_is_refused_leaves_those_who_wait_waiting(settings, changes, code):
    fleet = fleet_with(settings)
    anna, bob = classic_group(fleet, "anna", "bob")
    other = (("range", metadata(["u"])),)
    first = fleet.machine.ask("join", anna.join_request(protocols=other))
    refusal = fleet.machine.answer("consumer_heartbeat", Client("carl").join(**changes))
    assert refusal.error_code is code
    assert fleet.group.group_type == "classic"
    assert fleet.machine.waits(first)
    second = fleet.machine.ask("join", bob.join_request(protocols=other))
    for waiting in (first, second):
        assert fleet.machine.replies[waiting].error_code is E.NONE
        assert fleet.machine.replies[waiting].generation_id == 2


def test_a_newcomer_that_is_refused_leaves_no_deadlines_behind():
    fleet = fleet_with()
    classic_group(fleet, "anna", "bob")
    before = fleet.both.consumer.next_deadline_ms()
    fleet.machine.answer("consumer_heartbeat", Client("carl").join(subscribed_topic_regex="("))
    assert fleet.both.consumer.next_deadline_ms() == before


def test_members_released_by_an_upgrade_that_cannot_be_written_are_watched_again():
    fleet = fleet_with()
    anna, bob = classic_group(fleet, "anna", "bob")
    other = (("range", metadata(["u"])),)
    tickets = [fleet.machine.ask("join", one.join_request(protocols=other)) for one in (anna, bob)]
    for guest, ticket in zip((anna, bob), tickets, strict=True):
        guest.learn(fleet.machine.replies[ticket])
    waiting = fleet.machine.ask("sync", SyncRequest("g", bob.generation, bob.member_id))
    assert fleet.machine.waits(waiting)
    fleet.machine.advance(9_000)
    assert anna.beat() is E.NONE
    fleet.machine.advance(2_000)  # bob's session deadline came and went while its SyncGroup waited
    fleet.machine.fail_appends_with = E.NOT_ENOUGH_REPLICAS
    fleet.machine.answer("consumer_heartbeat", Client("carl").join())
    assert fleet.machine.replies[waiting].error_code is E.REBALANCE_IN_PROGRESS
    fleet.machine.fail_appends_with = None
    assert anna.sync().error_code is E.NONE
    fleet.machine.advance(9_000)
    assert anna.beat() is E.NONE
    fleet.machine.advance(2_000)
    assert anna.beat() is E.REBALANCE_IN_PROGRESS, "bob is silent and has lost its place"


def test_a_group_before_its_first_generation_can_change_too():
    fleet = fleet_with()
    anna = Guest(fleet, "anna")
    anna.member_id = fleet.machine.answer("join", anna.join_request()).member_id
    waiting = fleet.machine.ask("join", anna.join_request())
    fleet.join("carl")
    assert fleet.machine.replies[waiting].error_code is E.REBALANCE_IN_PROGRESS
    assert fleet.group.members[anna.member_id].subscribed_topic_names == ("t",)


@pytest.mark.parametrize(
    ("settings", "options", "why"),
    [
        (GroupSettings(consumer_migration_policy="downgrade"), {}, "online upgrade is disabled"),
        (GroupSettings(consumer_migration_policy="disabled"), {}, "online upgrade is disabled"),
        (GroupSettings(consumer_max_size=1), {}, "group size exceeds"),
        (SETTINGS, {"assignments": [b"{}", b"{}"]}, "malformed"),
        (SETTINGS, {"protocols": (("range", b"?"),)}, "malformed"),
        (
            SETTINGS,
            {"assignments": [b'{"partitions": {}, "user_data": "x"}', b""]},
            "custom assignor",
        ),
    ],
)
def test_a_group_that_cannot_change_stays_classic(settings, options, why):
    fleet = fleet_with(settings)
    anna, bob = classic_group(fleet, "anna", "bob", **options)
    before = list(fleet.machine.log)
    reply = fleet.machine.answer("consumer_heartbeat", Client("carl").join())
    assert reply.error_code is E.GROUP_ID_NOT_FOUND
    assert why in reply.error_message
    assert fleet.machine.log == before
    assert [anna.beat(), bob.beat()] == [E.NONE, E.NONE]


def test_a_group_of_another_protocol_type_stays_classic():
    fleet = fleet_with()
    anna = Guest(fleet, "anna")
    request = anna.join_request(protocol_type="connect")
    request.member_id = fleet.machine.answer("join", request).member_id
    fleet.machine.ask("join", request)
    reply = fleet.machine.answer("consumer_heartbeat", Client("carl").join())
    assert "does not use the consumer embedded protocol" in reply.error_message


def test_a_partition_with_two_owners_cannot_go_over():
    fleet = fleet_with()
    classic_group(fleet, "anna", "bob", assignments=[partitions(t=[0]), partitions(t=[0])])
    reply = fleet.machine.answer("consumer_heartbeat", Client("carl").join())
    assert reply.error_code is E.UNKNOWN_SERVER_ERROR


def test_assigned_topics_that_are_gone_stay_behind():
    fleet = fleet_with()
    (anna,) = classic_group(fleet, "anna", assignments=[partitions(t=[0], gone=[1])])
    fleet.join("carl")
    assert fleet.group.members[anna.member_id].assigned == {T: {0: 1}}


def test_an_upgrade_that_cannot_be_written_did_not_happen():
    fleet = fleet_with()
    anna, _ = classic_group(fleet, "anna", "bob")
    fleet.machine.fail_appends_with = E.NOT_ENOUGH_REPLICAS
    reply = fleet.machine.answer("consumer_heartbeat", Client("carl").join())
    assert reply.error_code is E.COORDINATOR_NOT_AVAILABLE
    assert fleet.group.group_type == "classic"
    assert anna.beat() is E.NONE


# Consumer to classic


def test_the_group_becomes_a_classic_one_when_the_last_new_member_leaves():
    fleet, bob = mixed()
    fleet.machine.answer("consumer_heartbeat", fleet.clients["anna"].beat(member_epoch=-1))
    assert fleet.group.group_type == "classic"
    fleet.machine.advance(0)
    assert fleet.group.state_name == "PreparingRebalance"
    assert bob.beat() is E.REBALANCE_IN_PROGRESS
    assert fleet.group.generation == 3
    reply = bob.join()
    assert (reply.generation_id, reply.leader) == (4, bob.member_id)


def test_the_group_becomes_a_classic_one_when_the_last_new_member_falls_silent():
    fleet, bob = mixed()
    for _ in range(9):
        fleet.machine.advance(5000)
        bob.beat()
    assert fleet.group.group_type == "classic"
    assert bob.beat() is E.REBALANCE_IN_PROGRESS


def test_a_downgraded_group_is_the_same_after_a_restart():
    fleet, bob = mixed()
    fleet.machine.answer("consumer_heartbeat", fleet.clients["anna"].beat(member_epoch=-1))
    fleet.restart()
    (member,) = fleet.group.members.values()
    assert (member.member_id, member.assignment) == (bob.member_id, partitions(t=[2, 3]))
    assert fleet.group.state_name == "Stable"


def test_a_classic_member_may_join_before_the_hand_over():
    fleet, bob = mixed()
    fleet.machine.answer("consumer_heartbeat", fleet.clients["anna"].beat(member_epoch=-1))
    ticket = fleet.machine.ask("join", bob.join_request(protocols=(("range", metadata(["u"])),)))
    fleet.machine.advance(0)
    assert fleet.machine.replies[ticket].error_code is E.NONE
    assert bob.beat(generation_id=4) is not E.UNKNOWN_MEMBER_ID
    assert fleet.group.members[bob.member_id].deadline_ms > 0


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_where_groups_may_not_go_back_the_group_stays(policy):
    fleet, bob = mixed()
    fleet.both.consumer._ctx.settings = GroupSettings(consumer_migration_policy=policy)
    fleet.machine.answer("consumer_heartbeat", fleet.clients["anna"].beat(member_epoch=-1))
    assert fleet.group.group_type == "consumer"
    assert list(fleet.group.members) == [bob.member_id]


def test_a_group_too_large_for_a_classic_one_stays():
    fleet, _ = mixed()
    fleet.both.consumer._ctx.settings = GroupSettings(max_size=0)
    fleet.machine.answer("consumer_heartbeat", fleet.clients["anna"].beat(member_epoch=-1))
    assert fleet.group.group_type == "consumer"


def test_a_downgrade_that_cannot_be_written_did_not_happen():
    fleet, bob = mixed()
    fleet.machine.fail_appends_with = E.NOT_ENOUGH_REPLICAS
    reply = fleet.machine.answer("consumer_heartbeat", fleet.clients["anna"].beat(member_epoch=-1))
    assert reply.error_code is E.COORDINATOR_NOT_AVAILABLE
    fleet.machine.fail_appends_with = None
    fleet.machine.advance(0)
    assert fleet.group.group_type == "consumer"
    assert bob.beat() is E.NONE
    fleet.machine.advance(46_000)
    assert "g" in fleet.both.groups


def test_members_vote_for_the_protocol_of_the_classic_group():
    fleet = fleet_with()
    anna = fleet.join("anna")
    said = metadata()
    for name, order in [("bob", "ab"), ("carl", "ba"), ("dora", "ba"), ("emil", "cb")]:
        guest = Guest(fleet, name, protocols=tuple((one, said) for one in order))
        assert guest.join().error_code is E.NONE
        guest.sync(protocol_name=order[0])
    fleet.machine.answer("consumer_heartbeat", anna.beat(member_epoch=-1))
    assert fleet.machine.log[-1].protocol == "b"
    fleet.machine.advance(0)
    assert fleet.group.protocol_counts == {"a": 3, "b": 4, "c": 1}


# Static members that change their protocol


def test_a_static_member_goes_from_classic_to_consumer_with_its_partitions():
    fleet = fleet_with()
    (anna,) = classic_group(fleet, "anna", instance="one", assignments=[partitions(t=[0, 1, 2, 3])])
    back = fleet.client("anna-2", instance_id="one")
    reply = fleet.send(back, back.join())
    assert (reply.error_code, reply.assignment) == (E.NONE, {T: (0, 1, 2, 3)})
    assert list(fleet.group.members) == ["anna-2"]
    assert fleet.group.classic_member_count == 0
    assert anna.beat() is E.FENCED_INSTANCE_ID


def test_the_last_static_member_that_goes_back_makes_the_group_classic_without_a_rebalance():
    fleet, bob = static_pair()
    had = fleet.clients["anna"].owned
    anna = Guest(fleet, "anna", instance="a")
    reply = anna.join()
    assert (reply.error_code, reply.generation_id) == (E.NONE, 3)
    assert fleet.group.group_type == "classic"
    fleet.machine.advance(0)
    assert fleet.group.state_name == "Stable"
    assert [anna.beat(), bob.beat()] == [E.NONE, E.NONE]
    assert had == {T: (0, 1)}
    assert anna.sync(protocol_name=fleet.group.protocol_name).assignment == partitions(t=[0, 1])


def test_the_last_static_member_that_goes_back_with_another_subscription_rebalances():
    fleet, bob = static_pair()
    anna = Guest(fleet, "anna", instance="a", topics=("u",))
    anna.join()
    fleet.machine.advance(0)
    assert fleet.group.state_name == "PreparingRebalance"
    assert bob.beat() is E.REBALANCE_IN_PROGRESS


def test_one_static_member_alone_goes_back():
    fleet = fleet_with()
    fleet.join("anna", instance_id="a")
    anna = Guest(fleet, "anna", instance="a")
    assert anna.join().error_code is E.NONE
    assert fleet.group.group_type == "classic"
