"""The classic protocol through its entry points: joining, syncing, heartbeats, leaving, and the log."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from group_kit import WALL_MS, Machine, uuids

from barnabas.core.group.classic.machine import ClassicGroups
from barnabas.core.group.classic.requests import (
    DescribedGroup,
    DescribedMember,
    HeartbeatRequest,
    JoinedMember,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    ListedGroup,
    SyncReply,
    SyncRequest,
)
from barnabas.core.group.records import (
    ClassicGroupRemoved,
    ClassicGroupSaved,
    ClassicMember,
    ConsumerGroupEpochRemoved,
    OffsetRemoved,
)
from barnabas.core.group.result import Result
from barnabas.core.group.settings import GroupSettings
from barnabas.model.errors import ErrorCode

E = ErrorCode
RANGE = (("range", b"r"),)
EMPTY_RECORD = ClassicGroupSaved("g", "", 0, None, None, WALL_MS, ())


def read_topics(metadata):
    """Topics with commas between; anything with a question mark cannot be read."""
    text = metadata.decode()
    return None if "?" in text else [name for name in text.split(",") if name]


class Groups(Machine):
    """The classic groups alone, with a word for each request."""

    def __init__(self, **settings):
        self.settings = GroupSettings(**settings)
        self.new_uuid = uuids()
        self.groups = {}
        super().__init__(self.fresh())

    def fresh(self):
        self.groups = {}
        return ClassicGroups(self.settings, self.groups, self.new_uuid, read_topics)

    def ask_join(self, member="", group="g", **fields):
        fields.setdefault("client_id", "c")
        fields.setdefault("client_host", "/h")
        fields.setdefault("protocols", RANGE)
        request = JoinRequest(
            group,
            member,
            fields.pop("instance", None),
            fields.pop("protocol_type", "consumer"),
            fields.pop("protocols"),
            fields.pop("session_ms", 10_000),
            fields.pop("rebalance_ms", 60_000),
            **fields,
        )
        return self.ask("join", request)

    def join(self, member="", **fields):
        ticket = self.ask_join(member, **fields)
        assert not self.waits(ticket)
        return self.replies[ticket]

    def new_member(self, **fields):
        """Join as a new dynamic member: ask for an id, come again with it; (id, ticket)."""
        member = self.join(**fields).member_id
        return member, self.ask_join(member, **fields)

    def ask_sync(self, member, generation, group="g", **fields):
        fields["group_instance_id"] = fields.pop("instance", None)
        return self.ask("sync", SyncRequest(group, generation, member, **fields))

    def sync(self, member, generation, **fields):
        ticket = self.ask_sync(member, generation, **fields)
        assert not self.waits(ticket)
        return self.replies[ticket]

    def heartbeat(self, member, generation, instance=None, group="g"):
        return self.answer(
            "heartbeat", HeartbeatRequest(group, generation, member, instance)
        ).error_code

    def leave(self, *members, group="g"):
        leaving = tuple(
            LeavingMember(*one) if isinstance(one, tuple) else LeavingMember(one) for one in members
        )
        return self.answer("leave", LeaveRequest(group, leaving))

    def stable(self, count=1, **fields):
        """A group with members m1, m2 … in generation 1, each assigned its own id; the first leads."""
        members, tickets = zip(*[self.new_member(**fields) for _ in range(count)], strict=True)
        self.advance(3000 if count == 1 else 6000)
        assert [self.replies[ticket].generation_id for ticket in tickets] == [1] * count
        for member in members[1:]:
            self.ask_sync(member, 1)
        self.sync(members[0], 1, assignments=tuple((name, name.encode()) for name in members))
        assert self.state == "Stable"
        return list(members)

    @property
    def group(self):
        return self.groups["g"]

    @property
    def state(self):
        return self.group.state_name


@pytest.fixture
def groups():
    return Groups()


# The first member


def test_a_new_member_is_given_an_id_and_comes_again_with_it(groups):
    reply = groups.join()
    assert reply == JoinReply(E.MEMBER_ID_REQUIRED, member_id="c-00000001")
    assert groups.log == [EMPTY_RECORD]
    assert groups.state == "Empty"
    ticket = groups.ask_join("c-00000001")
    assert groups.waits(ticket)
    assert groups.state == "PreparingRebalance"
    groups.advance(2999)
    assert groups.waits(ticket)
    groups.advance(1)
    assert groups.replies[ticket] == JoinReply(
        E.NONE,
        1,
        "consumer",
        "range",
        "c-00000001",
        False,
        "c-00000001",
        (JoinedMember("c-00000001", None, b"r"),),
    )
    assert groups.state == "CompletingRebalance"
    assert groups.log == [EMPTY_RECORD], "a generation is written down with its assignment"


def test_an_old_client_is_in_at_once(groups):
    ticket = groups.ask_join(requires_known_member_id=False)
    assert groups.log == [EMPTY_RECORD]
    groups.advance(3000)
    assert groups.replies[ticket].member_id == "c-00000001"


def test_the_leaders_assignment_is_written_down_then_given_to_all(groups):
    first, second = groups.stable(2)
    record = groups.log[-1]
    assert record == ClassicGroupSaved(
        "g",
        "consumer",
        1,
        "range",
        first,
        groups.group.state_timestamp_ms,
        tuple(
            ClassicMember(name, None, "c", "/h", 60_000, 10_000, b"r", name.encode())
            for name in (first, second)
        ),
    )
    assert groups.sync(second, 1) == SyncReply(E.NONE, "consumer", "range", second.encode())


def test_only_the_leader_gets_the_list_of_members(groups):
    (first, first_ticket), (_, second_ticket) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    assert len(groups.replies[first_ticket].members) == 2
    assert groups.replies[second_ticket].members == ()
    assert groups.replies[second_ticket].leader == first


def test_who_is_not_in_the_assignment_owns_nothing(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    waiting = groups.ask_sync(second, 1)
    assert groups.waits(waiting)
    groups.sync(first, 1, assignments=((first, b"all"), ("nobody", b"x")))
    assert groups.replies[waiting].assignment == b""
    assert [member.assignment for member in groups.log[-1].members] == [b"all", b""]


# Refused joins


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"session_ms": 5999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member": "made-up"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_is_refused_makes_no_group(groups, fields, error):
    reply = groups.join(**fields)
    assert reply == JoinReply(error, member_id=fields.get("member", ""))
    assert groups.groups == {}
    assert groups.log == []


def test_a_member_must_share_a_protocol_with_all_others(groups):
    member, *_ = groups.stable()
    assert groups.join(protocols=(("sticky", b""),)).error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert groups.join(protocol_type="connect").error_code is E.INCONSISTENT_GROUP_PROTOCOL
    refused = groups.join(member, protocols=(("sticky", b""),))
    assert refused == JoinReply(E.INCONSISTENT_GROUP_PROTOCOL, member_id=member)
    assert groups.state == "Stable"


def test_an_id_nobody_gave_out_is_unknown(groups):
    groups.stable()
    assert groups.join("made-up") == JoinReply(E.UNKNOWN_MEMBER_ID, member_id="made-up")


def test_an_id_is_not_given_out_to_static_members(groups):
    member = groups.join().member_id
    assert groups.join(member, instance="i").error_code is E.UNKNOWN_SERVER_ERROR
    assert member in groups.group.pending


# The size of a group


def test_a_full_group_takes_no_new_members():
    groups = Groups(max_size=1)
    member, *_ = groups.stable()
    assert groups.join() == JoinReply(E.GROUP_MAX_SIZE_REACHED)
    assert groups.heartbeat(member, 1) is E.NONE


def test_while_a_group_rebalances_only_those_who_joined_count():
    groups = Groups(max_size=1)
    ids = [groups.join().member_id for _ in range(2)]
    first = groups.ask_join(ids[0])
    assert groups.join(ids[1]) == JoinReply(E.GROUP_MAX_SIZE_REACHED)
    assert ids[1] not in groups.group.pending
    groups.advance(3000)
    assert groups.replies[first].generation_id == 1


def test_a_loaded_group_over_the_limit_rebalances_and_keeps_who_comes_first():
    groups = Groups()
    first, second = groups.stable(2)
    groups.settings = GroupSettings(max_size=1)
    groups.restart(groups.fresh())
    assert groups.state == "PreparingRebalance"
    assert groups.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS
    ticket = groups.ask_join(second)
    again = groups.ask_join(second)
    assert groups.replies[ticket].error_code is E.REBALANCE_IN_PROGRESS
    assert groups.join(first) == JoinReply(E.GROUP_MAX_SIZE_REACHED)
    assert list(groups.group.members) == [second]
    groups.advance(60_000)
    assert groups.replies[again].leader == second


# The initial delay


def test_the_first_rebalance_waits_longer_while_members_come(groups):
    _, first = groups.new_member()
    groups.advance(2000)
    groups.new_member()
    groups.advance(1000)
    assert groups.waits(first), "somebody came, so three more seconds"
    groups.advance(2999)
    assert groups.waits(first)
    groups.advance(1)
    assert groups.replies[first].generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout(groups):
    _, first = groups.new_member(rebalance_ms=7000)
    for _ in range(3):
        assert groups.waits(first)
        groups.new_member(rebalance_ms=7000)
        groups.advance(3000)
    # 3 s, 3 s again (1 s of 7 s is left by Kafka's count), then 1 s.
    assert groups.replies[first].generation_id == 1


def test_without_a_delay_the_first_member_begins_at_once():
    groups = Groups(initial_rebalance_delay_ms=0)
    _, ticket = groups.new_member()
    assert groups.waits(ticket)
    groups.advance(0)
    assert groups.replies[ticket].generation_id == 1


# Rebalances


def test_a_new_member_calls_everybody_to_join_again(groups):
    first, *_ = groups.stable()
    second, ticket = groups.new_member()
    assert groups.waits(ticket)
    assert groups.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS
    assert groups.sync(first, 1).error_code is E.REBALANCE_IN_PROGRESS
    again = groups.ask_join(first)
    assert groups.replies[again].generation_id == 2
    assert groups.replies[ticket].member_id == second
    assert groups.group.leader == first


def test_members_who_do_not_join_again_are_out_when_the_timeout_is_over(groups):
    first, second = groups.stable(2)
    _, ticket = groups.new_member()
    for _ in range(6):
        groups.advance(9000)
        assert groups.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS
        assert groups.heartbeat(second, 1) is E.REBALANCE_IN_PROGRESS
    groups.advance(6000)
    assert groups.replies[ticket].leader == groups.replies[ticket].member_id
    assert first not in groups.group.members
    assert groups.heartbeat(first, 1) is E.UNKNOWN_MEMBER_ID


def test_a_join_during_sync_with_the_same_metadata_gets_the_generation_again(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    assert groups.join(second).generation_id == 1
    assert groups.join(second).members == ()
    assert len(groups.join(first).members) == 2
    assert groups.state == "CompletingRebalance"


def test_a_join_during_sync_with_other_metadata_begins_again(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    waiting = groups.ask_sync(second, 1)
    ticket = groups.ask_join(first, protocols=(("range", b"other"),))
    assert groups.replies[waiting] == SyncReply(E.REBALANCE_IN_PROGRESS)
    assert groups.waits(ticket)
    groups.ask_join(second)
    assert groups.replies[ticket].generation_id == 2


def test_a_member_that_waits_for_its_assignment_and_joins_with_other_metadata_is_told(groups):
    (_, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    waiting = groups.ask_sync(second, 1)
    assert groups.waits(groups.ask_join(second, protocols=(("range", b"other"),)))
    assert groups.replies[waiting] == SyncReply(E.REBALANCE_IN_PROGRESS)


def test_in_a_stable_group_only_the_leader_or_new_metadata_begins_a_rebalance(groups):
    first, second = groups.stable(2)
    assert groups.join(second).generation_id == 1
    assert groups.state == "Stable"
    groups.ask_join(second, protocols=(("range", b"new"),))
    assert groups.state == "PreparingRebalance"
    ticket = groups.ask_join(first)
    assert groups.replies[ticket].members[1].metadata == b"new"
    groups.sync(first, 2)
    assert groups.waits(groups.ask_join(first))
    assert groups.state == "PreparingRebalance"


def test_members_vote_for_a_protocol_all_know(groups):
    both = (("range", b"r"), ("sticky", b"s"))
    turned = (("sticky", b"s"), ("only-mine", b""), ("range", b"r"))
    tickets = [groups.new_member(protocols=names)[1] for names in (both, turned, turned)]
    groups.advance(6000)
    assert {groups.replies[ticket].protocol_name for ticket in tickets} == {"sticky"}


def test_a_protocol_named_twice_counts_once(groups):
    _, ticket = groups.new_member(protocols=(("range", b"1"), ("range", b"2")))
    groups.advance(3000)
    assert groups.replies[ticket].members[0].metadata == b"1"


# Sessions


def test_a_silent_member_is_out_and_the_others_rebalance(groups):
    first, second = groups.stable(2)
    groups.advance(9999)
    assert groups.heartbeat(first, 1) is E.NONE
    groups.advance(1)
    assert list(groups.group.members) == [first]
    assert groups.state == "PreparingRebalance"
    assert groups.heartbeat(second, 1) is E.UNKNOWN_MEMBER_ID
    ticket = groups.ask_join(first)
    assert groups.replies[ticket].generation_id == 2


def test_the_last_silent_member_leaves_an_empty_group_that_is_written_down(groups):
    groups.stable()
    groups.advance(10_000)
    assert groups.state == "Empty"
    assert groups.log[-1] == ClassicGroupSaved("g", "consumer", 2, None, None, groups.wall_ms, ())
    assert groups.group.leader is None


def test_many_silent_members_of_a_group_make_one_result(groups):
    groups.stable(3)
    written = len(groups.log)
    groups.now_ms += 10_000
    results = groups.machine.on_time(groups.now_ms, groups.wall_ms)
    assert [result.group_id for result in results] == ["g"]
    groups.apply(results[0])
    assert len(groups.log) == written + 1
    assert groups.state == "Empty"


def test_who_waits_need_not_send_heartbeats(groups):
    first, _ = groups.stable(2)
    ticket = groups.ask_join(first)
    groups.advance(10_000)
    assert groups.replies[ticket].generation_id == 2, "the silent other one is out"
    groups.sync(first, 2)
    groups.advance(9_999)
    assert groups.state == "Stable"
    groups.advance(1)
    assert groups.state == "Empty"


def test_who_waits_long_is_not_out(groups):
    first, second = groups.stable(2)
    ticket = groups.ask_join(first)
    for _ in range(10):
        groups.advance(5000)
        groups.heartbeat(second, 1)
    assert groups.waits(ticket)
    assert first in groups.group.members


def test_who_waits_for_its_assignment_is_not_out(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    waiting = groups.ask_sync(second, 1)
    for _ in range(5):
        groups.advance(9000)
        assert groups.heartbeat(first, 1) is E.NONE
    groups.sync(first, 1, assignments=((second, b"2"),))
    assert groups.replies[waiting].assignment == b"2"


def test_an_id_that_does_not_come_back_is_forgotten(groups):
    member = groups.join().member_id
    groups.advance(10_000)
    assert groups.group.pending == {}
    assert groups.join(member).error_code is E.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_given_out(groups):
    first, *_ = groups.stable()
    groups.advance(9000)
    groups.heartbeat(first, 1)
    groups.join()
    ticket = groups.ask_join(first)
    assert groups.waits(ticket)
    groups.advance(10_000)
    assert groups.replies[ticket].generation_id == 2


def test_a_new_member_whose_link_broke_is_out_after_five_minutes():
    groups = Groups(initial_rebalance_delay_ms=400_000)
    _, ticket = groups.new_member(rebalance_ms=1_000_000)
    groups.advance(299_999)
    assert groups.waits(ticket)
    groups.advance(1)
    assert groups.replies[ticket] == JoinReply(E.UNKNOWN_MEMBER_ID)
    assert groups.state == "Empty"


def test_members_that_never_ask_for_their_assignment_are_out(groups):
    first, second = (groups.new_member(rebalance_ms=20_000)[0] for _ in range(2))
    groups.advance(6000)
    groups.sync(first, 1)
    for _ in range(3):
        groups.advance(6000)
        assert groups.heartbeat(second, 1) is E.NONE
        groups.heartbeat(first, 1)
    groups.advance(2000)
    assert groups.heartbeat(second, 1) is E.UNKNOWN_MEMBER_ID
    assert groups.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_is_out_and_another_leads(groups):
    first, second = (groups.new_member(rebalance_ms=20_000)[0] for _ in range(2))
    groups.advance(6000)
    waiting = groups.ask_sync(second, 1)
    for _ in range(3):
        groups.advance(6000)
        groups.heartbeat(first, 1)
    groups.advance(2000)
    assert groups.replies[waiting] == SyncReply(E.REBALANCE_IN_PROGRESS)
    assert groups.group.leader == second


def test_when_everybody_has_synced_nobody_is_late(groups):
    first, second = groups.stable(2)
    assert groups.group.sync_deadline_ms is None
    for _ in range(20):
        groups.advance(5000)
        assert groups.heartbeat(first, 1) is E.NONE
        assert groups.heartbeat(second, 1) is E.NONE


def test_who_left_before_it_synced_is_not_late(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    groups.leave(second)
    ticket = groups.ask_join(first)
    assert groups.replies[ticket].generation_id == 2


def test_a_sync_deadline_with_nobody_late_does_nothing(groups):
    static = groups.ask_join(instance="i", rebalance_ms=20_000)
    groups.advance(3000)
    member = groups.replies[static].member_id
    group = groups.group
    group.pending_sync.clear()
    for _ in range(4):
        groups.advance(5000)
        groups.heartbeat(member, 1)
    assert groups.state == "CompletingRebalance"


# Sync and heartbeat are fenced


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 0}, E.ILLEGAL_GENERATION),
        ({"generation": 2}, E.ILLEGAL_GENERATION),
        ({"member": "other"}, E.UNKNOWN_MEMBER_ID),
        ({"instance": "i"}, E.UNKNOWN_MEMBER_ID),
        ({"group": "other"}, E.UNKNOWN_MEMBER_ID),
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"protocol_name": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, E.NONE),
    ],
)
def test_a_sync_must_be_of_this_member_and_generation(groups, fields, error):
    (member,) = groups.stable()
    fields = {"member": member, "generation": 1} | fields
    assert groups.sync(**fields).error_code is error
    assert groups.state == "Stable"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 0}, E.ILLEGAL_GENERATION),
        ({"member": "other"}, E.UNKNOWN_MEMBER_ID),
        ({"instance": "i"}, E.UNKNOWN_MEMBER_ID),
        ({"group": "other"}, E.UNKNOWN_MEMBER_ID),
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({}, E.NONE),
    ],
)
def test_a_heartbeat_must_be_of_this_member_and_generation(groups, fields, error):
    (member,) = groups.stable()
    assert groups.heartbeat(**({"member": member, "generation": 1} | fields)) is error


def test_a_second_sync_over_a_new_link_takes_the_place_of_the_first(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    lost, again = groups.ask_sync(second, 1), groups.ask_sync(second, 1)
    assert groups.replies[lost].error_code is E.REBALANCE_IN_PROGRESS
    groups.sync(first, 1, assignments=((second, b"2"),))
    assert groups.replies[again].assignment == b"2"


# Leaving


def test_who_leaves_is_out_at_once(groups):
    first, second = groups.stable(2)
    assert groups.leave(second) == LeaveReply(members=(LeftMember(second, None),))
    assert groups.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS
    assert groups.replies[groups.ask_join(first)].generation_id == 2


def test_the_last_who_leaves_empties_the_group(groups):
    (member,) = groups.stable()
    groups.leave(member)
    assert groups.state == "Empty"
    assert groups.log[-1].members == ()
    assert groups.log[-1].generation == 2


def test_many_leave_at_once_each_by_its_own_right(groups):
    first, second = groups.stable(2)
    pending = groups.join().member_id
    reply = groups.leave(first, "other", pending, ("", "i"), ("", None), (second, "i"))
    assert [member.error_code for member in reply.members] == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert list(groups.group.members) == [second]
    assert groups.group.pending == {}


def test_if_nobody_could_leave_nothing_changes(groups):
    groups.stable()
    groups.leave("other")
    assert groups.state == "Stable"


def test_leaving_an_empty_group_or_none(groups):
    unknown = (LeftMember("m", None, E.UNKNOWN_MEMBER_ID),)
    assert groups.leave("m") == LeaveReply(members=unknown)
    assert groups.leave("m", group="") == LeaveReply(E.INVALID_GROUP_ID)
    member = groups.join().member_id
    assert groups.leave(member).members == (LeftMember(member, None),)
    assert groups.state == "Empty"


def test_what_waits_of_a_member_that_leaves_is_answered(groups):
    first, second = groups.stable(2)
    waiting = groups.ask_join(second, protocols=(("range", b"new"),))
    groups.leave(second)
    assert groups.replies[waiting] == JoinReply(E.UNKNOWN_MEMBER_ID)
    third, _ = groups.new_member()
    groups.ask_join(first)
    waiting = groups.ask_sync(third, 2)
    groups.leave(third)
    assert groups.replies[waiting] == SyncReply(E.UNKNOWN_MEMBER_ID)


def test_a_leave_in_the_first_rebalance_does_not_end_it(groups):
    _, ticket = groups.new_member()
    second, _ = groups.new_member()
    groups.leave(second)
    assert groups.waits(ticket)
    groups.advance(6000)
    assert groups.replies[ticket].generation_id == 1


# Static members


@pytest.fixture
def static():
    """Two static members in generation 1, the first leads: (groups, id of a, id of b)."""
    groups = Groups()
    tickets = [groups.ask_join(instance=name) for name in ("a", "b")]
    groups.advance(6000)
    first, second = (groups.replies[ticket].member_id for ticket in tickets)
    groups.ask_sync(second, 1, instance="b")
    groups.sync(first, 1, instance="a", assignments=((first, b"A"), (second, b"B")))
    return groups, first, second


def test_a_static_member_needs_no_second_round(static):
    _, first, second = static
    assert (first, second) == ("a-00000001", "b-00000002")


def test_a_static_member_comes_back_without_a_rebalance(static):
    groups, first, second = static
    reply = groups.join(instance="b")
    assert reply == JoinReply(E.NONE, 1, "consumer", "range", first, False, "b-00000003", ())
    assert groups.state == "Stable"
    assert [member.member_id for member in groups.log[-1].members] == [first, "b-00000003"]
    assert groups.sync("b-00000003", 1, instance="b").assignment == b"B"
    assert groups.heartbeat(second, 1, instance="b") is E.FENCED_INSTANCE_ID
    assert groups.heartbeat(second, 1) is E.UNKNOWN_MEMBER_ID
    assert groups.join(second, instance="b").error_code is E.FENCED_INSTANCE_ID
    assert groups.sync(second, 1, instance="b").error_code is E.FENCED_INSTANCE_ID
    left = groups.leave((second, "b")).members
    assert left == (LeftMember(second, "b", E.FENCED_INSTANCE_ID),)


def test_a_static_leader_that_comes_back_is_told_to_leave_the_assignment_as_it_is(static):
    groups, _, _ = static
    reply = groups.join(instance="a")
    assert reply.leader == reply.member_id == "a-00000003"
    assert reply.skip_assignment
    assert len(reply.members) == 2


def test_an_old_static_leader_is_not_told_that_it_leads(static):
    groups, first, _ = static
    reply = groups.join(instance="a", can_skip_assignment=False)
    assert (reply.leader, reply.skip_assignment, reply.members) == (first, False, ())
    assert groups.group.leader == reply.member_id


def test_a_static_member_that_changes_the_vote_causes_a_rebalance():
    groups = Groups()
    both = (("range", b""), ("sticky", b""))
    ticket = groups.ask_join(instance="a", protocols=both)
    groups.advance(3000)
    groups.sync(groups.replies[ticket].member_id, 1)
    ticket = groups.ask_join(instance="a", protocols=both[::-1])
    assert groups.replies[ticket].generation_id == 2
    assert groups.replies[ticket].protocol_name == "sticky"


def test_a_second_holder_fences_who_waits_to_join(static):
    groups, first, _ = static
    waiting = groups.ask_join(first, instance="a")
    ticket = groups.ask_join(instance="a")
    assert groups.replies[waiting] == JoinReply(E.FENCED_INSTANCE_ID, member_id=first)
    assert groups.waits(ticket)
    assert groups.group.joining_count == 1


def test_a_second_holder_during_sync_begins_again(static):
    groups, first, second = static
    groups.ask_join(first, instance="a")
    groups.ask_join(second, instance="b")
    waiting = groups.ask_sync(second, 2, instance="b")
    ticket = groups.ask_join(instance="b")
    assert groups.replies[waiting] == SyncReply(E.FENCED_INSTANCE_ID)
    assert groups.state == "PreparingRebalance"
    groups.ask_join(first, instance="a")
    assert groups.replies[ticket].generation_id == 3


def test_who_comes_back_before_it_synced_owes_the_sync(static):
    groups, first, second = static
    groups.ask_join(first, instance="a")
    groups.ask_join(second, instance="b")
    groups.sync(first, 2, instance="a")
    back = groups.join(instance="b").member_id
    assert list(groups.group.pending_sync) == [back]
    groups.sync(back, 2, instance="b")
    assert groups.group.sync_deadline_ms is None


def test_static_members_stay_when_they_do_not_join_in_time(static):
    groups, first, second = static
    ticket = groups.ask_join(second, instance="b", protocols=(("range", b"new"),))
    for _ in range(12):
        groups.advance(5000)
        groups.heartbeat(first, 1, instance="a")
    assert groups.replies[ticket].leader == second, "the leader did not come"
    assert list(groups.group.members) == [first, second]
    assert groups.heartbeat(first, 1, instance="a") is E.ILLEGAL_GENERATION


def test_if_no_static_member_comes_the_rebalance_waits_for_their_sessions(static):
    groups, first, second = static
    dynamic = groups.join().member_id
    groups.ask_join(dynamic)
    groups.leave(dynamic)
    for _ in range(13):
        groups.advance(5000)
        assert groups.heartbeat(first, 1, instance="a") is E.REBALANCE_IN_PROGRESS
        groups.heartbeat(second, 1, instance="b")
    assert groups.state == "PreparingRebalance"
    groups.advance(10_000)
    assert groups.state == "Empty"


def test_an_administrator_removes_a_static_member_by_its_instance_id(static):
    groups, first, _ = static
    assert groups.leave(("", "b")) == LeaveReply(members=(LeftMember("", "b"),))
    assert list(groups.group.static_members) == ["a"]
    assert groups.heartbeat(first, 1, instance="a") is E.REBALANCE_IN_PROGRESS


# Views


def test_a_group_describes_itself(groups):
    (member,) = groups.stable()
    assert groups.machine.describe("g") == DescribedGroup(
        "g",
        "Stable",
        "consumer",
        "range",
        (DescribedMember(member, None, "c", "/h", b"r", member.encode()),),
    )
    groups.ask_join(member)
    described = groups.machine.describe("g")
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert described.members[0].metadata == b""
    assert groups.group.as_listed() == ListedGroup(
        "g", "consumer", "CompletingRebalance", "classic"
    )


def test_a_group_that_is_not_there_is_dead(groups):
    assert groups.machine.describe("x") == DescribedGroup(
        "x", "Dead", error_code=E.GROUP_ID_NOT_FOUND, error_message="Group x not found."
    )
    groups.groups["x"] = SimpleNamespace(group_type="consumer")
    assert groups.machine.describe("x").error_message == "Group x is not a classic group."


def test_a_simple_group_only_keeps_offsets(groups):
    groups.machine.make_simple("g")
    assert groups.group.is_simple
    assert groups.group.as_listed() == ListedGroup("g", "", "Empty", "classic")
    groups.stable()
    assert not groups.group.is_simple
    assert groups.log[0].generation == 1, "the group was there already"


# The log


def test_a_loaded_group_goes_on_with_fresh_sessions(groups):
    first, second = groups.stable(2)
    groups.advance(9000)
    groups.restart(groups.fresh())
    assert groups.state == "Stable"
    assert groups.sync(second, 1).assignment == second.encode()
    groups.advance(9999)
    assert groups.heartbeat(first, 1) is E.NONE
    groups.advance(1)
    assert list(groups.group.members) == [first]
    assert groups.group.leader == first


def test_an_empty_group_is_loaded_with_its_generation(groups):
    (member,) = groups.stable()
    groups.leave(member)
    timestamp = groups.group.state_timestamp_ms
    groups.restart(groups.fresh())
    assert (groups.state, groups.group.generation) == ("Empty", 2)
    assert groups.group.state_timestamp_ms == timestamp
    assert groups.group.protocol_type == "consumer"


def test_records_of_the_oldest_kafka_are_understood(groups):
    member = ClassicMember("m", "i", "c", "/h", -1, 30_000, b"t", b"a")
    record = ClassicGroupSaved("g", "consumer", 3, "range", "gone", -1, (member,))
    groups.machine.replay(record)
    groups.machine.on_loaded(groups.now_ms, groups.wall_ms)
    assert groups.group.members["m"].rebalance_timeout_ms == 30_000
    assert groups.group.leader == "m"
    assert groups.group.static_members == {"i": "m"}
    assert groups.machine.next_deadline_ms() == groups.now_ms + 30_000


def test_a_tombstone_forgets_the_group_and_its_deadlines(groups):
    groups.stable()
    assert groups.group.removal_records() == [ClassicGroupRemoved("g")]
    for _ in range(2):
        groups.machine.replay(ClassicGroupRemoved("g"))
    assert groups.groups == {}
    groups.advance(300_000)
    assert groups.machine.next_deadline_ms() is None
    assert groups.log[-1].members, "nothing was written for a group that is gone"


def test_other_records_are_not_its_business(groups):
    groups.machine.replay(OffsetRemoved("g", "t", 0))
    assert groups.groups == {}


def test_who_waits_when_the_shard_goes_is_told(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    waiting_sync = groups.ask_sync(second, 1)
    waiting_join = groups.ask_join(requires_known_member_id=False, group="h")
    groups.groups["x"] = SimpleNamespace(group_type="consumer")
    groups.restart(groups.fresh())
    assert groups.replies[waiting_sync] == SyncReply(E.NOT_COORDINATOR)
    assert groups.replies[waiting_join].error_code is E.NOT_COORDINATOR
    assert groups.sync(first, 1).error_code is E.UNKNOWN_MEMBER_ID, "generation 1 was not written"
    groups.groups["x"] = SimpleNamespace(group_type="consumer")
    groups.machine.on_loaded(groups.now_ms, groups.wall_ms)


# Appends that fail


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.INVALID_REQUIRED_ACKS, E.INVALID_REQUIRED_ACKS),
    ],
)
def test_a_group_that_cannot_be_written_is_not_there(groups, error, told):
    groups.fail_appends_with = error
    assert groups.join() == JoinReply(told)
    assert groups.join(requires_known_member_id=False) == JoinReply(told)
    assert groups.groups == {}
    groups.fail_appends_with = None
    groups.advance(400_000)
    assert groups.log == []


def test_an_assignment_that_cannot_be_written_is_made_again(groups):
    (first, _), (second, _) = groups.new_member(), groups.new_member()
    groups.advance(6000)
    groups.fail_appends_with = E.NOT_ENOUGH_REPLICAS
    waiting = groups.ask_sync(second, 1)
    assert groups.sync(first, 1) == SyncReply(E.COORDINATOR_NOT_AVAILABLE)
    assert groups.replies[waiting] == SyncReply(E.COORDINATOR_NOT_AVAILABLE)
    assert groups.state == "PreparingRebalance"
    groups.fail_appends_with = None
    ticket = groups.ask_join(first)
    groups.ask_join(second)
    assert groups.replies[ticket].generation_id == 2
    assert groups.sync(first, 2, assignments=((first, b"x"),)).assignment == b"x"


def test_a_static_member_that_cannot_be_written_does_not_take_the_place(static):
    groups, first, second = static
    groups.fail_appends_with = E.REQUEST_TIMED_OUT
    reply = groups.join(instance="a", protocols=(("range", b"new"),))
    assert reply == JoinReply(
        E.COORDINATOR_NOT_AVAILABLE, 1, "consumer", "range", first, False, "", ()
    )
    groups.fail_appends_with = None
    assert groups.heartbeat(first, 1, instance="a") is E.NONE
    assert groups.group.leader == first
    assert groups.sync(first, 1, instance="a").assignment == b"A"
    groups.heartbeat(second, 1)
    groups.advance(10_000)
    assert groups.state == "Empty", "sessions count on"


def test_a_group_that_became_empty_is_empty_even_if_that_is_not_written(groups):
    first, second = groups.stable(2)
    waiting = groups.ask_join(first)
    groups.fail_appends_with = E.KAFKA_STORAGE_ERROR
    assert groups.leave(first, second) == LeaveReply(E.NOT_COORDINATOR)
    assert groups.replies[waiting] == JoinReply(E.UNKNOWN_MEMBER_ID), "its own answer stays"
    assert groups.state == "Empty"


def test_a_failed_record_of_a_group_that_is_not_here_is_only_answered(groups):
    result = Result([ClassicGroupRemoved("x")], [("ticket", LeaveReply())], "x")
    failed = groups.machine.on_append_failed(result, E.REQUEST_TIMED_OUT, groups.now_ms)
    assert failed.replies == [("ticket", LeaveReply(E.COORDINATOR_NOT_AVAILABLE))]


# Between the protocols


class EmptyConsumerGroup:
    is_empty = True

    def removal_records(self):
        return [ConsumerGroupEpochRemoved("g")]


def test_an_empty_consumer_group_gives_way(groups):
    groups.groups["g"] = EmptyConsumerGroup()
    assert groups.join("made-up").error_code is E.UNKNOWN_MEMBER_ID
    assert groups.log == []
    assert groups.join().error_code is E.MEMBER_ID_REQUIRED
    assert groups.log == [ConsumerGroupEpochRemoved("g"), EMPTY_RECORD]
    assert groups.group.group_type == "classic"


def test_an_empty_consumer_group_stays_if_the_new_one_cannot_be_written(groups):
    before = groups.groups["g"] = EmptyConsumerGroup()
    groups.fail_appends_with = E.NOT_ENOUGH_REPLICAS
    groups.join()
    assert groups.groups["g"] is before


def test_a_consumer_group_becomes_a_classic_one(groups):
    members = tuple(
        ClassicMember(name, None, "c", "/h", 60_000, 10_000, b"t", b"a") for name in ("m", "n")
    )
    groups.machine.replay(ClassicGroupSaved("g", "consumer", 7, "range", "m", 0, members))
    both = (("range", b"t"), ("sticky", b"s"))
    result = groups.machine.take_over(
        "g", groups.now_ms, groups.wall_ms, protocols={"m": both, "n": both}
    )
    assert not result.records
    assert groups.heartbeat("m", 7) is E.REBALANCE_IN_PROGRESS
    assert groups.group.protocol_counts == {"range": 2, "sticky": 2}
    groups.ask_join("m", protocols=both[1:])
    groups.advance(10_000)
    assert list(groups.group.members) == ["m"], "the silent one is out"


def test_before_a_group_becomes_a_consumer_group_everybody_is_sent_to_come_again(groups):
    first, _ = groups.stable(2)
    waiting = groups.ask_join(first)
    assert groups.machine.release("g", groups.now_ms) == [
        (waiting, JoinReply(E.REBALANCE_IN_PROGRESS, member_id=first))
    ]


# Size and speed


def test_joining_costs_the_same_for_each_of_many_members(groups):
    """Counts calls, not time: the work of a join must not grow with the group."""
    ids = [groups.join().member_id for _ in range(500)]
    costs = []
    for member in ids:
        calls = 0

        def count(_frame, event, _argument):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        groups.ask_join(member)
        sys.setprofile(None)
        costs.append(calls)
    assert max(costs[1:]) <= min(costs[1:]) + 5
    groups.advance(6000)
    assert len(groups.group.members) == 500
