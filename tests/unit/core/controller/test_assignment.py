"""How assignments follow from one another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.controller.assignment import Assignment

replica_lists = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


def test_a_move_keeps_the_old_replicas_behind_the_new_ones():
    moving = Assignment((1, 2)).reassigned_to((3, 2))
    assert moving == Assignment((3, 2, 1), adding=(3,), removing=(1,))
    assert (moving.target, moving.origin) == ((3, 2), (2, 1))
    assert moving.is_moving
    assert moving.is_reassigned


def test_another_order_is_no_move():
    assert Assignment((1, 2)).reassigned_to((2, 1)) == Assignment((2, 1))


def test_a_cancelled_move_is_still_to_be_undone_but_nobody_sees_it_as_one():
    moving = Assignment((1, 2)).reassigned_to((3, 4))
    undone = moving.reassigned_to(moving.origin)
    assert undone == Assignment((1, 2, 3, 4), adding=(3, 4), removing=(3, 4))
    assert undone.withdrawn == (3, 4)
    assert undone.is_moving
    assert not undone.is_reassigned
    assert undone.without_replicas(undone.withdrawn) == Assignment((1, 2))


def test_another_move_over_one_remembers_whom_to_drop_and_where_it_came_from():
    twice = Assignment((1, 2)).reassigned_to((3, 2)).reassigned_to((4, 2))
    assert twice == Assignment((4, 2, 3, 1), adding=(4, 3), removing=(3, 1))
    assert twice.withdrawn == (3,)
    assert twice.is_reassigned
    assert set(twice.origin) == {1, 2}


@given(replica_lists, st.lists(replica_lists, min_size=1, max_size=4))
def test_any_row_of_moves(first, targets):
    assignment = Assignment(first)
    for target in targets:
        moved = assignment.reassigned_to(target)
        assert moved.target == target
        assert set(moved.origin) == set(first)
        # Nobody who may hold records is forgotten.
        assert set(assignment.replicas) <= set(moved.replicas)
        assert len(set(moved.replicas)) == len(moved.replicas)
        assert moved.reassigned_to(target) == moved
        assignment = moved
    cancelled = assignment.reassigned_to(assignment.origin)
    assert not cancelled.is_reassigned
    assert set(cancelled.without_replicas(cancelled.withdrawn).replicas) == set(first)
