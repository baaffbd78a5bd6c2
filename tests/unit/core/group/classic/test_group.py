"""What a classic group answers to those who keep and delete offsets, in each of its states."""

from __future__ import annotations

import pytest

from barnabas.core.group.classic.deadlines import Deadlines
from barnabas.core.group.classic.group import ClassicGroup, State
from barnabas.core.group.classic.member import Member
from barnabas.core.group.classic.requests import JoinRequest
from barnabas.model.errors import ErrorCode

E = ErrorCode
COMMITTED_MS = 500
EMPTY_SINCE_MS = 1000


def read_topics(metadata):
    text = metadata.decode()
    return None if "?" in text else [name for name in text.split(",") if name]


def new_group(state, *, protocol_type="consumer", metadata=b"t,u"):
    """A group with the dynamic member m and the static one s (instance i) in generation 5, or empty."""
    group = ClassicGroup("g", EMPTY_SINCE_MS, read_topics)
    group.generation = 5
    group.protocol_type = protocol_type
    if state is State.EMPTY:
        return group
    group.protocol_name = "range"
    for number, (member_id, instance_id) in enumerate((("m", None), ("s", "i"))):
        request = JoinRequest(
            "g", "", instance_id, protocol_type, (("range", metadata),), 10_000, 60_000
        )
        member = Member.from_request(member_id, request)
        group.add(member, protocol_type, number)
        group.release_join(member)
    group.state = state
    return group


@pytest.mark.parametrize(
    ("state", "sender", "error"),
    [
        (State.EMPTY, ("", None, -1), E.NONE),
        (State.EMPTY, ("m", None, -1), E.NONE),
        (State.EMPTY, ("m", None, 5), E.UNKNOWN_MEMBER_ID),
        (State.STABLE, ("", None, -1), E.UNKNOWN_MEMBER_ID),
        (State.STABLE, ("m", None, 5), E.NONE),
        (State.STABLE, ("m", None, 4), E.ILLEGAL_GENERATION),
        (State.STABLE, ("m", None, -1), E.ILLEGAL_GENERATION),
        (State.STABLE, ("x", None, 5), E.UNKNOWN_MEMBER_ID),
        (State.STABLE, ("s", "i", 5), E.NONE),
        (State.STABLE, ("old", "i", 5), E.FENCED_INSTANCE_ID),
        (State.STABLE, ("s", "j", 5), E.UNKNOWN_MEMBER_ID),
        (State.STABLE, ("", "i", -1), E.FENCED_INSTANCE_ID),
        (State.PREPARING_REBALANCE, ("m", None, 5), E.NONE),
        (State.COMPLETING_REBALANCE, ("m", None, 5), E.REBALANCE_IN_PROGRESS),
        (State.COMPLETING_REBALANCE, ("m", None, 4), E.ILLEGAL_GENERATION),
    ],
)
def test_who_may_commit_offsets(state, sender, error):
    assert new_group(state).validate_offset_commit(*sender, False, True) is error


@pytest.mark.parametrize(
    ("state", "sender", "error"),
    [
        (State.STABLE, ("", None, -1), E.NONE),
        (State.COMPLETING_REBALANCE, ("m", None, 5), E.NONE),
        (State.STABLE, ("m", None, 4), E.ILLEGAL_GENERATION),
    ],
)
def test_who_may_commit_offsets_in_a_transaction(state, sender, error):
    assert new_group(state).validate_offset_commit(*sender, True, True) is error


def test_a_member_may_commit_any_partition_and_everybody_may_read():
    group = new_group(State.STABLE)
    assert group.validate_partition_commit("m", 5, bytes(16), 0) is E.NONE
    assert group.validate_offset_fetch(None, -1, 0) is E.NONE


@pytest.mark.parametrize(
    ("state", "deadline_ms"),
    [
        (State.STABLE, 15_000),
        (State.PREPARING_REBALANCE, 15_000),
        (State.COMPLETING_REBALANCE, 10_000),
    ],
)
def test_a_commit_is_a_sign_of_life(state, deadline_ms):
    group, deadlines = new_group(state), Deadlines()
    member = group.members["m"]
    deadlines.expect_member(group, member, 10_000)
    group.on_offset_commit("m", 5000)
    group.on_offset_commit("x", 5000)
    assert member.deadline_ms == deadline_ms
    due = deadlines.pop_due(10_000)
    assert (due is None) == (deadline_ms > 10_000)


@pytest.mark.parametrize("state", list(State))
def test_what_may_be_deleted(state):
    empty = state is State.EMPTY
    assert new_group(state).validate_delete() is (E.NONE if empty else E.NON_EMPTY_GROUP)
    assert new_group(state).validate_offset_delete() is E.NONE
    others = new_group(state, protocol_type="connect")
    assert others.validate_offset_delete() is (E.NONE if empty else E.NON_EMPTY_GROUP)


def test_the_topics_of_consumers_are_known():
    group = new_group(State.STABLE)
    assert [group.is_subscribed_to(topic) for topic in ("t", "u", "v")] == [True, True, False]
    assert group.subscribed_topics() is group.subscribed_topics(), "worked out once"
    assert not new_group(State.EMPTY).is_subscribed_to("t")


def test_consumers_that_cannot_be_read_are_taken_to_read_everything():
    group = new_group(State.STABLE, metadata=b"?")
    assert group.is_subscribed_to("v")
    assert not new_group(State.STABLE, protocol_type="connect").is_subscribed_to("t")


@pytest.mark.parametrize(
    ("group", "base_ms"),
    [
        (new_group(State.EMPTY), EMPTY_SINCE_MS),
        (new_group(State.EMPTY, protocol_type=None), COMMITTED_MS),
        (new_group(State.STABLE), COMMITTED_MS),
        (new_group(State.STABLE, metadata=b"?"), None),
        (new_group(State.STABLE, protocol_type="connect"), None),
        (new_group(State.PREPARING_REBALANCE), None),
        (new_group(State.COMPLETING_REBALANCE), None),
    ],
)
def test_from_when_the_retention_of_an_offset_counts(group, base_ms):
    assert group.offsets_expiry_base(COMMITTED_MS) == base_ms


def test_if_it_is_not_known_since_when_a_group_is_empty_the_commit_counts():
    group = new_group(State.EMPTY)
    group.state_timestamp_ms = -1
    assert group.offsets_expiry_base(COMMITTED_MS) == COMMITTED_MS


def test_a_generation_follows_only_a_join_phase():
    with pytest.raises(AssertionError, match="does not lead to"):
        new_group(State.STABLE).begin_generation(0)


def test_an_instance_id_has_one_holder():
    group = new_group(State.STABLE)
    request = JoinRequest("g", "", "i", "consumer", (("range", b""),), 10_000, 60_000)
    with pytest.raises(AssertionError, match="one holder"):
        group.add(Member.from_request("other", request), "consumer", 9)
