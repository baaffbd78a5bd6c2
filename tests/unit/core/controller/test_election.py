"""Who leads: each rule, on a partition as it stands."""

from __future__ import annotations

import pytest

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.election import can_be_led_by_preferred, decide_leadership, judge
from barnabas.core.controller.settings import ControllerSettings
from barnabas.core.controller.verdict import PLANNED
from barnabas.core.controller.view import (
    ClusterView,
    ElectionType,
    Leadership,
    LogEnd,
    PartitionView,
)
from barnabas.model.cluster import LiveBroker
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

E = ErrorCode
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
#: The term of the controller that decides; the states there are of the term before.
TERM = 8


def cluster_of(*live, unclean=False, shutting_down=()):
    cluster = ClusterView(ControllerSettings(unclean_leader_election_enable=unclean))
    cluster.brokers = {broker: LiveBroker(broker, 1) for broker in live}
    cluster.shutting_down = set(shutting_down)
    return cluster


def partition_of(leader=1, in_sync=(1, 2, 3), assignment=None, **soft):
    assignment = assignment or Assignment((1, 2, 3))
    leadership = None if leader is None else Leadership(leader, 5, in_sync, TERM - 1)
    soft = {"told": assignment, **soft}
    return PartitionView(TopicPartition("t", 0), assignment, leadership, 9, **soft)


def decide(partition, cluster):
    """(leader, in-sync set, unclean?) to be written, or None."""
    decision = decide_leadership(partition, cluster, TERM)
    if decision is None:
        return None
    leadership = decision.leadership
    assert leadership.controller_epoch == TERM
    assert leadership.leader_epoch == (6 if partition.leadership else 0)
    return leadership.leader, leadership.in_sync, decision.is_unclean


@pytest.mark.parametrize(
    ("partition", "cluster", "expected"),
    [
        # New partitions: who is there is in sync, in replica order.
        (partition_of(None), cluster_of(3, 2), (2, (2, 3), False)),
        (partition_of(None), cluster_of(4), None),
        (partition_of(None), cluster_of(1, 2, shutting_down=[1]), (2, (2,), False)),
        # All is well.
        (partition_of(), cluster_of(1, 2, 3), None),
        (partition_of(2, (2, 1)), cluster_of(1, 2, 3), None),
        # The leader is dead: the first in replica order that is in sync.
        (partition_of(1, (3, 1, 2)), cluster_of(2, 3), (2, (3, 2), False)),
        (partition_of(1, (1, 3)), cluster_of(2, 3), (3, (3,), False)),
        # A follower is dead: it leaves the set.
        (partition_of(), cluster_of(1, 3), (1, (1, 3), False)),
        # Its directory failed, or it went away and came back: as if dead.
        (partition_of(offline={1}), cluster_of(1, 2, 3), (2, (2, 3), False)),
        (partition_of(fenced={1}), cluster_of(1, 2, 3), (2, (2, 3), False)),
        # Unless nobody else is in sync: then with a new epoch, before anybody who would lose more.
        (partition_of(1, (1,), fenced={1}), cluster_of(1, 2, unclean=True), (1, (1,), False)),
        (partition_of(1, (1, 2), fenced={1, 2}), cluster_of(1, 2), (1, (1, 2), False)),
        (partition_of(1, (1, 2), fenced={1, 2}), cluster_of(2), (2, (2,), False)),
        (partition_of(-1, (1,), fenced={1}), cluster_of(2), None),
        # Nobody in sync is left: nobody leads, and nobody is forgotten.
        (partition_of(1, (1, 2)), cluster_of(3), (-1, (1, 2), False)),
        (partition_of(-1, (1, 2)), cluster_of(3), None),
        (partition_of(-1, (1, 2)), cluster_of(2, 3), (2, (2,), False)),
        # Unless records may be lost.
        (partition_of(1, (1,)), cluster_of(2, 3, unclean=True), (2, (2,), True)),
        (partition_of(1, (1,)), cluster_of(2, 3, unclean=True, shutting_down=[2]), (3, (3,), True)),
        (partition_of(1, (1,)), cluster_of(4, unclean=True), (-1, (1,), False)),
        (partition_of(-1, (1,), election=UNCLEAN), cluster_of(2), (2, (2,), True)),
        (partition_of(-1, (1,), election=PREFERRED), cluster_of(2), None),
        # Who shuts down gives way if there is somebody else, and stays if not: even where unclean elections are allowed.
        (partition_of(), cluster_of(1, 2, 3, shutting_down=[1]), (2, (2, 3), False)),
        (partition_of(), cluster_of(1, 2, 3, shutting_down=[3]), (1, (1, 2), False)),
        (partition_of(1, (1,)), cluster_of(1, 2, 3, shutting_down=[1], unclean=True), None),
        (partition_of(1, (1, 3)), cluster_of(1, 2, shutting_down=[1]), (1, (1,), False)),
        # The preferred leader, when asked for, and only if it can.
        (partition_of(2, election=PREFERRED), cluster_of(1, 2, 3), (1, (1, 2, 3), False)),
        (partition_of(2, (2, 3), election=PREFERRED), cluster_of(1, 2, 3), None),
        # The replicas were told another assignment: a new epoch, nothing else.
        (partition_of(told=Assignment((1, 2))), cluster_of(1, 2, 3), (1, (1, 2, 3), False)),
        (partition_of(told=None), cluster_of(1, 2, 3), (1, (1, 2, 3), False)),
    ],
)
def test_the_rules(partition, cluster, expected):
    assert decide(partition, cluster) == expected


def test_a_topic_can_allow_what_the_cluster_does_not():
    cluster = cluster_of(2)
    cluster.unclean["t"] = True
    assert decide(partition_of(1, (1,)), cluster) == (2, (2,), True)
    cluster = cluster_of(2, unclean=True)
    cluster.unclean["t"] = False
    assert decide(partition_of(1, (1,)), cluster) == (-1, (1,), False)


def test_when_the_target_of_a_move_is_in_sync_the_others_leave():
    moving = Assignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    cluster = cluster_of(1, 2, 3, 4)
    assert decide(partition_of(1, (1, 2, 3), moving), cluster) is None
    ready = partition_of(1, (1, 2, 4, 3), moving)
    decision = decide_leadership(ready, cluster, TERM)
    assert (decision.leadership.leader, decision.leadership.in_sync) == (3, (4, 3))
    assert decision.settling == Assignment((3, 4))


def test_a_move_that_is_being_settled_is_not_taken_back():
    moving = Assignment((3, 4, 1), adding=(3, 4), removing=(1,))
    rest = {"settling": Assignment((3, 4)), "told": Assignment((3, 4))}
    # 4 fell behind; 1 has no log any more.
    assert decide(partition_of(3, (3,), moving, **rest), cluster_of(1, 3, 4)) is None
    assert decide(partition_of(3, (3,), moving, **rest), cluster_of(1, 4)) == (-1, (3,), False)


@pytest.mark.parametrize(
    ("kind", "partition", "cluster", "code"),
    [
        (PREFERRED, None, cluster_of(1), E.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, partition_of(1), cluster_of(1, 2, 3), E.ELECTION_NOT_NEEDED),
        (PREFERRED, partition_of(2), cluster_of(1, 2, 3), E.NONE),
        (PREFERRED, partition_of(2), cluster_of(2, 3), E.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, partition_of(2, (2,)), cluster_of(1, 2), E.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, partition_of(None), cluster_of(1), E.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, partition_of(1), cluster_of(1, 2, 3), E.ELECTION_NOT_NEEDED),
        (UNCLEAN, partition_of(-1, (1,)), cluster_of(2), E.NONE),
        (UNCLEAN, partition_of(1, (1,)), cluster_of(4), E.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_what_can_be_asked_for(kind, partition, cluster, code):
    assert judge(kind, partition, cluster).code is code


def test_a_topic_that_is_being_deleted_elects_nobody():
    cluster = cluster_of(1, 2)
    cluster.deleting["t"] = None
    assert judge(PREFERRED, partition_of(2), cluster).code is E.INVALID_TOPIC_EXCEPTION


def test_who_shuts_down_is_not_made_the_preferred_leader():
    assert can_be_led_by_preferred(partition_of(2), cluster_of(1, 2))
    assert not can_be_led_by_preferred(partition_of(2), cluster_of(1, 2, shutting_down=[1]))


# A store that was put back: what logs say counts.

LATER, LED, LONGER = LogEnd(7, False, 3), LogEnd(7, True, 2), LogEnd(6, False, 9)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({1: LONGER, 2: LATER, 3: LONGER}, (2, (2,), False)),
        ({1: LATER, 2: LED, 3: LATER}, (2, (2,), False)),
        ({1: LATER, 2: LATER, 3: LONGER}, (1, (1,), False)),
        # Any may be the only one that has all.
        ({1: LONGER, 2: LATER}, None),
        ({}, None),
    ],
)
def test_in_doubt_the_log_that_goes_furthest_leads_once_all_are_known(ends, expected):
    partition = partition_of(1, (1, 2, 3), log_ends=ends)
    decision = decide_leadership(partition, cluster_of(1, 2, 3), TERM)
    if expected is None:
        assert decision is None
    else:
        leadership = decision.leadership
        assert (leadership.leader, leadership.in_sync, decision.is_unclean) == expected
        assert leadership.leader_epoch == 8, "after all that are known"


def test_in_doubt_who_asks_for_it_gets_whoever_is_there():
    partition = partition_of(1, (1, 2, 3), log_ends={3: LONGER})
    assert judge(UNCLEAN, partition, cluster_of(1, 3)) is PLANNED
    partition.election = UNCLEAN
    decision = decide_leadership(partition, cluster_of(1, 3), TERM)
    assert (decision.leadership.leader, decision.is_unclean) == (3, True)
    partition.log_ends.clear()
    assert decide_leadership(partition, cluster_of(1, 3), TERM) is None, "somebody must have told"


def test_in_doubt_who_went_away_since_it_told_does_not_lead():
    partition = partition_of(1, (1, 2, 3), log_ends={1: LONGER, 2: LATER, 3: LONGER})
    assert decide_leadership(partition, cluster_of(1, 3), TERM) is None
