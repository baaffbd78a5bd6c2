"""Moves: what may be asked for, when a step may be taken, and when it is settled."""

from __future__ import annotations

import pytest

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.reassignment import (
    is_settled,
    judge,
    next_step,
    plan_assignments,
)
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.view import ClusterView, PartitionView, TopicView
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

E = ErrorCode
T0 = TopicPartition("t", 0)
MOVING = Assignment((3, 4, 1), adding=(3, 4), removing=(1,))


def cluster_with(assignment=MOVING, live=(1, 2, 3, 4), **soft):
    cluster = ClusterView(ControllerSettings())
    cluster.brokers = {broker: LiveBroker(broker, 1) for broker in live}
    topic = cluster.topics["t"] = TopicView("t", b"id", 0)
    topic.partitions[0] = PartitionView(T0, assignment, **soft)
    return cluster


@pytest.mark.parametrize(
    ("assignment", "fit", "expected"),
    [
        (MOVING, (1, 3), None),
        (MOVING, (4, 3), Assignment((3, 4))),
        (MOVING.reassigned_to((1,)), (3, 1), Assignment((1,))),
        # Cancelled, but only a new replica has the records.
        (MOVING.reassigned_to((1,)), (3,), None),
        # Replaced by another move: what was withdrawn goes first.
        (MOVING.reassigned_to((3, 2)), (1,), Assignment((3, 2, 1), (3, 2), (1,))),
        (MOVING.reassigned_to((3, 2)), (4,), None),
    ],
)
def test_the_next_step(assignment, fit, expected):
    assert next_step(assignment, fit) == expected


@pytest.mark.parametrize(
    ("soft", "live", "expected"),
    [
        ({}, (1, 3, 4), False),
        ({"stopped": {1}}, (1, 3, 4), True),
        ({}, (3, 4), True),
        ({"offline": {1}}, (1, 3, 4), True),
    ],
)
def test_who_is_left_behind_must_delete_its_log_if_it_can(soft, live, expected):
    cluster = cluster_with(live=live, settling=Assignment((3, 4)), **soft)
    assert is_settled(cluster.partition(T0), cluster) is expected
    planned = Assignment((3, 4)) if expected else MOVING
    assert plan_assignments(cluster.topics["t"], cluster) == {0: planned}


def test_wishes_are_planned_on_top_of_what_is_there():
    cluster = cluster_with()
    topic = cluster.topics["t"]
    topic.wishes[0] = (2,)
    assert plan_assignments(topic, cluster) == {0: MOVING.reassigned_to((2,))}
    topic.wishes[0] = None
    assert plan_assignments(topic, cluster) == {0: MOVING.reassigned_to((1,))}


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ((2, 3), E.NONE, None),
        (None, E.NONE, None),
        ((), E.INVALID_REPLICA_ASSIGNMENT, "empty"),
        ((2, 2), E.INVALID_REPLICA_ASSIGNMENT, "twice"),
        ((2, -3), E.INVALID_REPLICA_ASSIGNMENT, "negative"),
        ((2, 9), E.INVALID_REPLICA_ASSIGNMENT, "[9] are not alive"),
        ((4,), E.INVALID_REPLICA_ASSIGNMENT, "[4] are not alive"),
    ],
)
def test_what_can_be_asked_for(target, code, words):
    cluster = cluster_with()
    cluster.shutting_down = {4}
    verdict = judge(T0, target, cluster)
    assert verdict.code is code
    assert words is None or words in verdict.message


def test_who_is_there_already_may_be_dead():
    assert judge(T0, (2, 1), cluster_with(live=(2, 3))).code is E.NONE


def test_what_is_not_there_is_not_moved():
    cluster = cluster_with()
    assert judge(TopicPartition("t", 1), (1,), cluster).code is E.UNKNOWN_TOPIC_OR_PARTITION
    cluster.deleting["t"] = None
    assert judge(T0, (1,), cluster).code is E.UNKNOWN_TOPIC_OR_PARTITION


def test_only_a_move_can_be_cancelled():
    cluster = cluster_with(Assignment((1, 2)))
    assert judge(T0, None, cluster).code is E.NO_REASSIGNMENT_IN_PROGRESS
    # One that is asked for, and not written yet, is one.
    cluster.topics["t"].wishes[0] = (3,)
    assert judge(T0, None, cluster).code is E.NONE
    assert judge(T0, None, cluster_with(MOVING.reassigned_to((1,)))).code is (
        E.NO_REASSIGNMENT_IN_PROGRESS
    )
