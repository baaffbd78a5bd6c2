"""One consumer group: what offsets and administration ask of it."""

import pytest
from consumer_kit import topic_id_of

from barnabas.core.group import records as r
from barnabas.core.group.consumer.group import STABLE, UNRELEASED_PARTITIONS, ConsumerGroup, Member
from barnabas.core.group.consumer.requests import RefusedError
from barnabas.model.errors import ErrorCode

T = topic_id_of("t")
GUEST = r.ClassicMemberMetadata(10_000, (("range", b""),))


def group_with(*members):
    group = ConsumerGroup("g")
    for member in members:
        group.replay(member.subscription_record("g"))
        group.replay(member.assignment_record("g"))
    return group


def member(member_id="anna", epoch=5, **fields):
    fields = {"assigned": {T: {0: 3, 1: 5}}, "pending_revocation": {T: {2: 2}}, **fields}
    return Member(member_id, member_epoch=epoch, **fields)


def commit(group, member_id="anna", epoch=5, *, instance=None, transactional=False, knows=True):
    return group.validate_offset_commit(member_id, instance, epoch, transactional, knows)


def test_anybody_may_commit_to_an_empty_group():
    group = ConsumerGroup("g")
    assert commit(group, "", -1) is ErrorCode.NONE
    assert commit(group, "anna", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_partition_commit("", -1, T, 0) is ErrorCode.NONE


def test_a_member_commits_at_its_epoch():
    group = group_with(member())
    assert commit(group) is ErrorCode.NONE
    assert group.validate_partition_commit("anna", 5, T, 99) is ErrorCode.NONE
    group.on_offset_commit("anna", 0)


def test_strangers_do_not_commit_to_a_group_with_members():
    group = group_with(member())
    assert commit(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, "bob", 5) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_need_not_name_a_member():
    group = group_with(member())
    assert commit(group, "", -1, transactional=True) is ErrorCode.NONE
    assert commit(group, "", -1, transactional=True, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, "anna", 5, transactional=True, knows=False) is ErrorCode.NONE


def test_a_client_that_knows_no_epochs_is_too_old():
    assert commit(group_with(member()), knows=False) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(group_with(member(classic=GUEST)), knows=False) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("classic", "error"),
    [(None, ErrorCode.STALE_MEMBER_EPOCH), (GUEST, ErrorCode.ILLEGAL_GENERATION)],
)
def test_commits_in_another_epoch(classic, error):
    group = group_with(member(classic=classic))
    assert commit(group, epoch=6) is error
    assert commit(group, epoch=4) is ErrorCode.NONE, "asked per partition"
    may = [group.validate_partition_commit("anna", 4, T, n) for n in range(4)]
    assert may == [ErrorCode.NONE, error, ErrorCode.NONE, error]
    assert group.validate_partition_commit("anna", 1, T, 2) is error
    assert group.validate_offset_fetch("anna", 4, 0) is error
    assert group.validate_offset_fetch("anna", 5, 0) is ErrorCode.NONE


def test_offsets_may_be_read_by_members_and_by_who_does_not_claim_to_be_one():
    group = group_with(member())
    assert group.validate_offset_fetch(None, -1, 0) is ErrorCode.NONE
    assert group.validate_offset_fetch("bob", 5, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_offset_fetch(None, 5, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_administration_asks():
    group = group_with(member(subscribed_topic_names=("t",)))
    assert group.validate_offset_delete() is ErrorCode.NONE
    assert group.validate_delete() is ErrorCode.NON_EMPTY_GROUP
    assert ConsumerGroup("g").validate_delete() is ErrorCode.NONE
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    assert group.offsets_expiry_base(77) == 77
    listed = group.as_listed()
    assert (listed.group_id, listed.protocol_type, listed.group_type) == (
        "g",
        "consumer",
        "consumer",
    )
    assert listed.group_state == "Reconciling"


def test_a_group_is_taken_out_of_the_log_record_by_record():
    group = group_with(member())
    group.replay(r.TargetAssignment("g", "anna", {T: (0,)}))
    group.replay(r.TargetAssignmentEpoch("g", 5, 9))
    group.replay(r.ResolvedRegularExpression("g", "t.*", ("t",), 1, 1))
    for record in group.removal_records()[:-1]:
        group.replay(record)
    assert group.is_empty
    assert (group.target, group.resolved, group.assignment_epoch) == ({}, {}, -1)
    assert group.owners == {T: {}}
    assert not group.subscriptions.topics()


def test_tombstones_of_members_that_are_not_there_are_passed_over():
    group = group_with(member())
    for record in [
        r.CurrentAssignmentRemoved("g", "bob"),
        r.TargetAssignmentRemoved("g", "bob"),
        r.ConsumerGroupMemberRemoved("g", "bob"),
        r.ResolvedRegularExpressionRemoved("g", "b"),
    ]:
        group.replay(record)
    assert list(group.members) == ["anna"]


def test_an_instance_id_stays_with_who_took_it():
    old, new = (
        member("a1", instance_id="i", assigned={}, pending_revocation={}),
        member("a2", instance_id="i"),
    )
    group = group_with(old, new)
    group.replay(r.CurrentAssignmentRemoved("g", "a1"))
    group.replay(r.ConsumerGroupMemberRemoved("g", "a1"))
    assert group.static_members == {"i": "a2"}
    assert group.static_member("i").member_id == "a2"
    assert group.static_member(None) is None
    assert group.static_member("x") is None


def test_a_member_that_drops_its_instance_id_frees_it():
    group = group_with(member(instance_id="i"))
    group.replay(member().subscription_record("g"))
    assert group.static_members == {}


def test_a_partition_has_one_owner():
    with pytest.raises(AssertionError, match="one owner"):
        group_with(member("a"), member("b"))


def test_owners_are_known_by_partition():
    group = group_with(member())
    assert [group.owner(T, n) for n in range(4)] == ["anna", "anna", "anna", None]
    assert group.owner(b"x", 0) is None


def test_a_member_that_is_not_there_is_refused():
    with pytest.raises(RefusedError) as refusal:
        ConsumerGroup("g").member("anna")
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_states_in_order():
    group = ConsumerGroup("g")
    assert group.state_name == "Empty"
    group = group_with(member(epoch=1, state=STABLE))
    assert group.state_name == "Stable"
    group.replay(r.ConsumerGroupEpoch("g", 2))
    assert group.state_name == "Assigning"
    group.replay(r.TargetAssignmentEpoch("g", 2))
    assert group.state_name == "Reconciling"


def test_waiting_for_others_ends_when_they_let_go():
    waits = member("anna", state=UNRELEASED_PARTITIONS, assigned={T: {0: 5}}, pending_revocation={})
    holds = member("bob", assigned={T: {1: 5}}, pending_revocation={})
    group = group_with(waits, holds)
    group.replay(r.TargetAssignment("g", "anna", {T: (0, 1)}))
    assert group.waits_for_others(group.members["anna"])
    group.replay(r.CurrentAssignmentRemoved("g", "bob"))
    assert not group.waits_for_others(group.members["anna"])


def test_the_metadata_check_of_an_epoch_that_was_never_written_does_not_count():
    group = ConsumerGroup("g")
    assert group.metadata_is_stale
    group.metadata_checked_epoch = 2
    assert group.metadata_is_stale
    group.replay(r.ConsumerGroupEpoch("g", 2))
    assert not group.metadata_is_stale


def test_the_assignor_with_the_most_votes_is_preferred():
    group = group_with(
        *[
            member(name, server_assignor=assignor, assigned={}, pending_revocation={})
            for name, assignor in [("a", "uniform"), ("b", "range"), ("c", None)]
        ]
    )
    assert group.preferred_assignor() == "uniform", "a tie"
    assert group.preferred_assignor(group.members["a"]) == "range"
    assert (
        group.preferred_assignor(group.members["c"], member("c", server_assignor="range"))
        == "range"
    )
    assert ConsumerGroup("g").preferred_assignor() is None


def test_an_assignment_may_come_before_what_its_member_said():
    group = ConsumerGroup("g")
    group.replay(member().assignment_record("g"))
    assert (group.members["anna"].member_epoch, group.owner(T, 0)) == (5, "anna")
