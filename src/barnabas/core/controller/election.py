"""Who leads a partition, and who is in sync, after whatever happened.

Job: compare a partition's leadership with the brokers that are at work, and say what it should be. Must not know: what happened, or how it is
written.

| in sync and at work | then                                                                                          |
|---------------------|-----------------------------------------------------------------------------------------------|
| some                | they are the in-sync set; the leader stays if it is among them, else the first in replica order  |
| only shutting down  | the same, with them: they lead until they are gone                                            |
| only just restarted | the same, with them and a new epoch: they may lack what was not on disk, but nobody has more   |
| none, unclean       | the first replica at work leads, alone in sync: records may be lost                           |
| none                | nobody leads; the in-sync set is kept, as one of them must come back                          |

Where a replica knows of a later leader epoch than the store, the store was put back to an older state, and does not know who was in sync:
then all replicas are asked, and the one whose log goes furthest leads, alone in sync, in an epoch after all of theirs.

Invariants: the leader is in the in-sync set, which is part of the replicas and never empty; the leader epoch rises with every change, and when
only the replicas change: brokers ignore an epoch they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.core.controller.reassignment import next_step
from barnabas.core.controller.verdict import NO_SUCH_PARTITION, PLANNED, Verdict
from barnabas.core.controller.view import NO_LEADER, ElectionType, Leadership
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.controller.assignment import Assignment, Replicas
    from barnabas.core.controller.view import ClusterView, PartitionView


@dataclass(frozen=True, slots=True)
class Decision:
    """A leadership to be written, and the step of a move that it makes possible."""

    leadership: Leadership
    settling: Assignment | None = None
    is_unclean: bool = False


def decide_leadership(
    partition: PartitionView, cluster: ClusterView, controller_epoch: int
) -> Decision | None:
    """Say what should be written; None if all is well, or nothing can be done."""
    now = partition.leadership
    if now is None:
        return _decide_first(partition, cluster, controller_epoch)
    if partition.log_ends is not None:
        return _decide_by_logs(now, partition, cluster, controller_epoch)
    settling = partition.settling
    if settling is None and partition.assignment.is_moving:
        fit = tuple(r for r in now.in_sync if cluster.is_fit(r, partition))
        settling = next_step(partition.assignment, fit)
    told = settling or partition.assignment
    leader, in_sync, is_unclean = _elect(partition, told.replicas, cluster)
    assert leader == NO_LEADER or leader in in_sync
    assert in_sync
    is_same = (leader, in_sync) == (now.leader, now.in_sync) and leader not in partition.fenced
    if is_same and told == partition.told:
        return None
    leadership = Leadership(leader, now.leader_epoch + 1, in_sync, controller_epoch)
    return Decision(leadership, settling, is_unclean)


def judge(kind: ElectionType, partition: PartitionView | None, cluster: ClusterView) -> Verdict:
    """Say whether an election that somebody asks for can be held."""
    if partition is None:
        return NO_SUCH_PARTITION
    if partition.id.topic in cluster.deleting:
        return Verdict(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted.")
    replicas = partition.in_force.replicas
    if kind is ElectionType.PREFERRED:
        is_needed = partition.leader != replicas[0]
        is_possible = can_be_led_by_preferred(partition, cluster)
        problem = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        is_in_doubt = partition.log_ends is not None
        is_needed = is_in_doubt or not cluster.is_serving(partition.leader, partition)
        is_possible = any(cluster.is_fit(replica, partition) for replica in replicas)
        problem = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not is_needed:
        return Verdict(ErrorCode.ELECTION_NOT_NEEDED)
    return PLANNED if is_possible else Verdict(problem)


def can_be_led_by_preferred(partition: PartitionView, cluster: ClusterView) -> bool:
    """Tell whether the first replica may be made leader."""
    preferred = partition.in_force.replicas[0]
    return preferred in partition.in_sync and cluster.is_fit(preferred, partition)


def _decide_first(
    partition: PartitionView, cluster: ClusterView, controller_epoch: int
) -> Decision | None:
    """A new partition: whoever is there is in sync, as there are no records."""
    replicas = partition.assignment.replicas
    fit = tuple(r for r in replicas if cluster.is_fit(r, partition))
    if not fit:
        return None
    return Decision(Leadership(fit[0], 0, fit, controller_epoch))


def _decide_by_logs(
    now: Leadership, partition: PartitionView, cluster: ClusterView, controller_epoch: int
) -> Decision | None:
    """Wait for all replicas, unless records may be lost: any of them may be the only one that has all."""
    replicas, ends = partition.in_force.replicas, partition.log_ends
    assert ends is not None
    known = [r for r in replicas if r in ends and cluster.is_reachable(r, partition)]
    is_unclean = len(known) < len(replicas)
    if not known or (is_unclean and not _may_lose_records(partition, cluster)):
        return None
    leader = max(known, key=ends.__getitem__)
    epoch = 1 + max(now.leader_epoch, ends[leader].epoch)
    leadership = Leadership(leader, epoch, (leader,), controller_epoch)
    return Decision(leadership, partition.settling, is_unclean)


def _may_lose_records(partition: PartitionView, cluster: ClusterView) -> bool:
    is_asked_for = partition.election is ElectionType.UNCLEAN
    return is_asked_for or cluster.allows_unclean(partition.id.topic)


def _elect(
    partition: PartitionView, replicas: Replicas, cluster: ClusterView
) -> tuple[int, Replicas, bool]:
    staying = tuple(r for r in partition.in_sync if r in replicas)
    serving = tuple(r for r in staying if cluster.is_serving(r, partition))
    in_sync = (
        tuple(r for r in serving if r not in cluster.shutting_down)
        or serving
        or tuple(r for r in staying if cluster.is_reachable(r, partition))
    )
    if in_sync:
        return _choose(partition, replicas, in_sync), in_sync, False
    if _may_lose_records(partition, cluster):
        for replica in replicas:
            if cluster.is_fit(replica, partition):
                return replica, (replica,), True
    return NO_LEADER, staying or partition.in_sync, False


def _choose(partition: PartitionView, replicas: Replicas, in_sync: Replicas) -> int:
    if partition.election is ElectionType.PREFERRED and replicas[0] in in_sync:
        return replicas[0]
    if partition.leader in in_sync:
        return partition.leader
    return next(replica for replica in replicas if replica in in_sync)
