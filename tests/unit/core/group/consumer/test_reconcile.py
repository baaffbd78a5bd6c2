"""One member's way from what it owns to what it shall own."""

from dataclasses import replace

import pytest

from barnabas.core.group.consumer.group import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Member,
)
from barnabas.core.group.consumer.reconcile import Goal, plan_reconciliation
from barnabas.core.group.consumer.requests import RefusedError
from barnabas.model.errors import ErrorCode

T, U = b"t", b"u"


def at(epoch, state=STABLE, assigned=None, pending=None):
    return Member(
        "anna",
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        assigned=assigned or {},
        pending_revocation=pending or {},
    )


def goal(epoch, target, *, reads=(T, U), changed=False, held=None, owned=None):
    held = held or {}
    return Goal(epoch, target, reads, changed, lambda t, p: held.get((t, p)), owned)


def test_a_stable_member_at_the_targets_epoch_stays():
    member = at(3, assigned={T: {0: 3}})
    assert plan_reconciliation(member, goal(3, {T: (0,)})) is member


def test_free_partitions_are_given_at_once_with_the_targets_epoch():
    after = plan_reconciliation(at(2, assigned={T: {0: 2}}), goal(3, {T: (0, 1), U: (4,)}))
    assert (after.member_epoch, after.previous_member_epoch, after.state) == (3, 2, STABLE)
    assert after.assigned == {T: {0: 2, 1: 3}, U: {4: 3}}


def test_what_must_go_keeps_the_member_in_its_epoch_and_gives_nothing_yet():
    member = at(2, assigned={T: {0: 1, 1: 2}})
    after = plan_reconciliation(member, goal(3, {T: (0, 5)}))
    assert (after.member_epoch, after.previous_member_epoch) == (2, 2)
    assert after.state == UNREVOKED_PARTITIONS
    assert (after.assigned, after.pending_revocation) == ({T: {0: 1}}, {T: {1: 2}})


def test_what_the_member_says_it_does_not_own_needs_no_giving_up():
    member = at(2, assigned={T: {0: 1, 1: 2}})
    after = plan_reconciliation(member, goal(3, {T: (0,)}, owned={T: (0,)}))
    assert (after.member_epoch, after.state, after.assigned) == (3, STABLE, {T: {0: 1}})


REVOKING = at(2, UNREVOKED_PARTITIONS, {T: {0: 1}}, {T: {1: 2}})


@pytest.mark.parametrize("owned", [None, {T: (0, 1)}, {T: (1,)}])
def test_a_member_that_may_still_own_what_must_go_waits(owned):
    assert plan_reconciliation(REVOKING, goal(3, {T: (0,)}, owned=owned)) is REVOKING


@pytest.mark.parametrize("owned", [{}, {T: (0,)}, {U: (1,)}])
def test_a_member_that_gave_up_goes_on(owned):
    after = plan_reconciliation(REVOKING, goal(3, {T: (0,)}, owned=owned))
    assert (after.member_epoch, after.state, after.pending_revocation) == (3, STABLE, {})


def test_a_member_that_gave_up_may_have_to_give_up_more():
    after = plan_reconciliation(REVOKING, goal(4, {}, owned={T: (0,)}))
    assert (after.member_epoch, after.state) == (2, UNREVOKED_PARTITIONS)
    assert (after.assigned, after.pending_revocation) == ({}, {T: {0: 1}})


def test_what_it_was_to_give_up_may_come_back_to_it():
    after = plan_reconciliation(
        REVOKING, goal(4, {T: (0, 1)}, owned={T: (0,)}, held={(T, 1): "anna"})
    )
    assert after.assigned == {T: {0: 1, 1: 4}}


def test_what_others_hold_is_waited_for_in_the_targets_epoch():
    after = plan_reconciliation(at(2), goal(3, {T: (0, 1)}, held={(T, 1): "bob"}))
    assert (after.member_epoch, after.state) == (3, UNRELEASED_PARTITIONS)
    assert after.assigned == {T: {0: 3}}
    only_waits = plan_reconciliation(at(2), goal(3, {T: (1,)}, held={(T, 1): "bob"}))
    assert (only_waits.state, only_waits.assigned) == (UNRELEASED_PARTITIONS, {})


def test_what_is_waited_for_comes_when_it_is_free():
    waiting = at(3, UNRELEASED_PARTITIONS, {T: {0: 3}})
    busy = goal(3, {T: (0, 1)}, held={(T, 1): "bob"})
    still = plan_reconciliation(waiting, busy)
    assert still.assigned == waiting.assigned
    assert plan_reconciliation(still, busy) is still
    after = plan_reconciliation(still, goal(3, {T: (0, 1)}))
    assert (after.state, after.assigned) == (STABLE, {T: {0: 3, 1: 3}})


def test_a_target_of_a_topic_the_member_does_not_read_is_none():
    after = plan_reconciliation(
        at(2, assigned={U: {0: 2}}), goal(3, {T: (0,), U: (0,)}, reads=(T,))
    )
    assert after.state == UNREVOKED_PARTITIONS
    assert after.pending_revocation == {U: {0: 2}}


# The subscription changed, the target has not followed yet


def test_unread_topics_are_taken_away_in_the_same_epoch():
    member = at(3, assigned={T: {0: 3}, U: {0: 2}})
    after = plan_reconciliation(member, goal(3, {}, reads=(T,), changed=True))
    assert (after.member_epoch, after.state) == (3, UNREVOKED_PARTITIONS)
    assert (after.assigned, after.pending_revocation) == ({T: {0: 3}}, {U: {0: 2}})


def test_a_changed_subscription_that_takes_nothing_away_changes_nothing():
    member = at(3, assigned={T: {0: 3}})
    assert plan_reconciliation(member, goal(3, {}, changed=True)) is member


def test_unread_topics_that_are_not_owned_any_more_just_go():
    member = at(3, assigned={T: {0: 3}, U: {0: 2}})
    after = plan_reconciliation(member, goal(3, {}, reads=(T,), changed=True, owned={T: (0,)}))
    assert (after.state, after.assigned, after.pending_revocation) == (STABLE, {T: {0: 3}}, {})


def test_more_unread_topics_join_what_is_being_given_up():
    revoking = at(2, UNREVOKED_PARTITIONS, {T: {0: 1}, U: {0: 1}}, {U: {1: 2}})
    after = plan_reconciliation(revoking, goal(3, {}, reads=(T,), changed=True))
    assert (after.assigned, after.pending_revocation) == ({T: {0: 1}}, {U: {0: 1, 1: 2}})
    assert plan_reconciliation(after, goal(3, {}, reads=(T,))) is after


# A state of a newer coordinator


@pytest.mark.parametrize("owned", [None, {T: (0,)}])
def test_a_member_in_an_unknown_state_is_fenced_while_it_owns_something(owned):
    with pytest.raises(RefusedError) as refusal:
        plan_reconciliation(replace(REVOKING, state=7), goal(3, {T: (0,)}, owned=owned))
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_in_an_unknown_state_that_owns_nothing_starts_again():
    after = plan_reconciliation(replace(REVOKING, state=7), goal(3, {T: (0, 1)}, owned={}))
    assert (after.member_epoch, after.state) == (3, STABLE)
    assert set(after.assigned[T]) == {0, 1}
