"""Moving a partition to other brokers (KIP-455): what may be asked for, and the next step of a move.

Job: check a wish, and say when replicas may be left behind. Must not know: how steps are written, or logs deleted.

A move is: (1) the assignment with the new replicas is written, and they are told to follow; (2) when all of the target are in sync, a leadership
without the others is written; (3) the others delete their logs, if their brokers live; (4) the assignment without them is written.
Whoever becomes controller in between finds the assignment of (1), and goes on from what is in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.assignment import Assignment
from barnabas.core.controller.verdict import NO_SUCH_PARTITION, PLANNED, Verdict
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.controller.assignment import Replicas
    from barnabas.core.controller.view import ClusterView, PartitionView, TopicView
    from barnabas.model.ids import TopicPartition


def next_step(assignment: Assignment, fit: Replicas) -> Assignment | None:
    """Say what a moving assignment may become now, given who is in sync and at work; None while it must stay.

    What was withdrawn may go as soon as anybody else has all records; the rest of a move ends when the whole target has.
    """
    assert assignment.is_moving
    if all(replica in fit for replica in assignment.target):
        return Assignment(assignment.target)
    withdrawn = assignment.withdrawn
    if withdrawn and any(replica not in withdrawn for replica in fit):
        return assignment.without_replicas(withdrawn)
    return None


def is_settled(partition: PartitionView, cluster: ClusterView) -> bool:
    """Tell whether every replica that is left behind has deleted its log. A broker that is down is not waited for."""
    return all(
        replica in partition.stopped or not cluster.is_reachable(replica, partition)
        for replica in partition.leaving
    )


def plan_assignments(topic: TopicView, cluster: ClusterView) -> dict[int, Assignment]:
    """Say what the topic's assignments should be: with steps that are settled, and what was asked for."""
    planned = {}
    for index, partition in topic.partitions.items():
        assignment = partition.assignment
        if partition.settling is not None and is_settled(partition, cluster):
            assignment = partition.settling
        if index in topic.wishes:
            target = topic.wishes[index]
            assignment = assignment.reassigned_to(assignment.origin if target is None else target)
        planned[index] = assignment
    return planned


def judge(id_: TopicPartition, target: Replicas | None, cluster: ClusterView) -> Verdict:
    """Say whether a partition may be moved to this target; None cancels."""
    partition = cluster.partition(id_)
    if partition is None or id_.topic in cluster.deleting:
        return NO_SUCH_PARTITION
    if target is None:
        wished = cluster.topics[id_.topic].wishes.get(id_.partition)
        if wished is None and not partition.assignment.is_reassigned:
            return Verdict(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return PLANNED
    return _judge_target(partition.assignment, target, cluster)


def _judge_target(assignment: Assignment, target: Replicas, cluster: ClusterView) -> Verdict:
    problem = None
    if not target:
        problem = "The list of replicas is empty."
    elif len(set(target)) != len(target):
        problem = f"A broker stands twice in the list of replicas {list(target)}."
    elif min(target) < 0:
        problem = f"The list of replicas {list(target)} has a negative broker id."
    else:
        alive = cluster.brokers.keys() - cluster.shutting_down
        dead = [r for r in target if r not in assignment.origin and r not in alive]
        if dead:
            problem = (
                f"Brokers {dead} are not alive, or are shutting down: a partition can only be moved to "
                f"brokers that stay; those are {sorted(alive)}."
            )
    return PLANNED if problem is None else Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
