"""Bringing leaders back to where they are preferred, when too many are elsewhere.

Job: say which partitions deserve a preferred election, and count what is out of order. Must not know: when that is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.core.controller.election import can_be_led_by_preferred
from barnabas.core.controller.view import NO_LEADER

if TYPE_CHECKING:
    from barnabas.core.controller.view import ClusterView, PartitionView


def imbalanced(cluster: ClusterView) -> list[PartitionView]:
    """Partitions to be led by their first replica, of those brokers for which more than the allowed share is led by others."""
    preferred: dict[int, list[PartitionView]] = {}
    for partition in cluster.kept_partitions():
        preferred.setdefault(partition.assignment.replicas[0], []).append(partition)
    allowed = cluster.settings.leader_imbalance_per_broker_percentage
    chosen = []
    for broker, partitions in sorted(preferred.items()):
        elsewhere = [p for p in partitions if p.leadership and p.leader != broker]
        if 100 * len(elsewhere) > allowed * len(partitions):
            chosen += [p for p in elsewhere if can_be_led_by_preferred(p, cluster)]
    return chosen


@dataclass(frozen=True, slots=True)
class Counts:
    """What Kafka's controller shows as metrics."""

    topics: int
    partitions: int
    offline_partitions: int
    preferred_replica_imbalance: int
    topics_to_delete: int
    replicas_to_delete: int


def count(cluster: ClusterView) -> Counts:
    """Count over the whole view: for whoever asks for metrics, not after each event."""
    kept = list(cluster.kept_partitions())
    doomed = [p for p in cluster.partitions() if p.id.topic in cluster.deleting]
    return Counts(
        topics=len(cluster.topics),
        partitions=len(kept) + len(doomed),
        offline_partitions=sum(
            p.leader == NO_LEADER or p.leader not in cluster.brokers for p in kept
        ),
        preferred_replica_imbalance=sum(p.leader != p.assignment.replicas[0] for p in kept),
        topics_to_delete=len(cluster.deleting),
        replicas_to_delete=sum(len(p.assignment.replicas) - len(p.stopped) for p in doomed),
    )
