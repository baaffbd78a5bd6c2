"""Groups that change their protocol while they have members, and classic members inside a consumer group."""

import json

import pytest
from consumer_kit import SETTINGS, Client, Fleet, Topics, topic_id_of

from barnabas.core.group import records as r
from barnabas.core.group.classic_requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

T = topic_id_of("t")
E = ErrorCode


def metadata(topics=("t",), owned=None, rack=None):
    return json.dumps({"topics": list(topics), "owned": owned or {}, "rack": rack}).encode()


def partitions(**numbers):
    return json.dumps({"partitions": numbers}).encode()


class Guest:
    """A classic consumer."""

    def __init__(self, fleet, name, instance=None, protocols=None, topics=("t",)):
        self.fleet = fleet
        self.name = name
        self.instance = instance
        self.topics = topics
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.owned = {}

    def join_request(self, **changes):
        said = metadata(self.topics, self.owned)
        protocols = self.protocols or (("range", said), ("roundrobin", said))
        request = JoinRequest(
            "g",
            self.member_id,
            self.instance,
            "consumer",
            protocols,
            10_000,
            30_000,
            self.name,
            "/h",
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def ask(self, entry_point, request):
        return self.fleet.machine.answer(entry_point, request)

    def join(self, **changes):
        reply = self.ask("join", self.join_request(**changes))
        return self.learn(reply)

    def learn(self, reply):
        if reply.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
            self.member_id = reply.member_id
            self.generation = reply.generation_id
        if reply.error_code is E.MEMBER_ID_REQUIRED:
            return self.join()
        return reply

    def join_and_sync(self):
        assert self.join().error_code is E.NONE
        reply = self.sync()
        assert reply.error_code is E.NONE
        self.owned = json.loads(reply.assignment)["partitions"]

    def sync(self, **fields):
        fields = {"protocol_type": "consumer", "protocol_name": "range", **fields}
        generation = fields.pop("generation_id", self.generation)
        return self.ask(
            "sync", SyncRequest("g", generation, self.member_id, self.instance, **fields)
        )

    def beat(self, **fields):
        request = HeartbeatRequest("g", self.generation, self.member_id, self.instance)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask("heartbeat", request).error_code

    def leave(self):
        leaving = LeavingMember(self.member_id, self.instance)
        return self.ask("leave", LeaveRequest("g", (leaving,))).members[0].error_code


def fleet_with(settings=SETTINGS, **counts):
    return Fleet(Topics(**(counts or {"t": 4})), settings)


def classic_group(fleet, *names, assignments=None, **options):
    """A stable classic group of these members."""
    guests = [Guest(fleet, name, **options) for name in names]
    tickets = []
    for guest in guests:
        if guest.instance is None:
            guest.member_id = fleet.machine.answer("join", guest.join_request()).member_id
        tickets.append(fleet.machine.ask("join", guest.join_request()))
    fleet.machine.advance(6000)
    for guest, ticket in zip(guests, tickets, strict=True):
        guest.learn(fleet.machine.replies[ticket])
    shares = assignments or [partitions(t=[0, 1]), partitions(t=[2, 3])]
    given = tuple((guest.member_id, share) for guest, share in zip(guests, shares, strict=False))
    waiting = [
        fleet.machine.ask(
            "sync",
            SyncRequest(
                "g",
                guest.generation,
                guest.member_id,
                guest.instance,
                assignments=given if guest is guests[0] else (),
            ),
        )
        for guest in reversed(guests)
    ]
    for guest, ticket in zip(reversed(guests), waiting, strict=True):
        assert fleet.machine.replies[ticket].error_code is E.NONE
        read = json.loads(fleet.machine.replies[ticket].assignment or b'{"partitions": {}}')
        guest.owned = read.get("partitions", {})
    return guests


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


# Consumer to classic


def mixed(settings=SETTINGS, **options):
    """A consumer group of anna, who speaks the new protocol, and bob, who does not; at rest."""
    fleet = fleet_with(settings)
    fleet.join("anna", **options)
    bob = Guest(fleet, "bob")
    bob.join_and_sync()
    fleet.settle()
    bob.join_and_sync()
    assert bob.owned == {"t": [2, 3]}
    return fleet, bob


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


def static_pair():
    """anna (static, new protocol) and bob (static, classic), at rest."""
    fleet = fleet_with()
    fleet.join("anna", instance_id="a")
    bob = Guest(fleet, "bob", instance="b")
    bob.join_and_sync()
    fleet.settle()
    bob.join_and_sync()
    return fleet, bob


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


def test_one_static_member_alone_goes_back():
    fleet = fleet_with()
    fleet.join("anna", instance_id="a")
    anna = Guest(fleet, "anna", instance="a")
    assert anna.join().error_code is E.NONE
    assert fleet.group.group_type == "classic"


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
