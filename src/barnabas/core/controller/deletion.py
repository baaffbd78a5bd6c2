"""Deleting topics: which replicas must be told, and when a topic is gone.

Job: say what is left to do for a topic that is being deleted. Must not know: how it is done.

Every replica deletes its log (StopReplica), then the topic's znodes go. A replica whose broker is down does it when it comes back, and the topic
stays listed until then, so that an old log never comes back to life under a new topic of that name. A deletion is not held up by a reassignment:
all replicas of it go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.effects import EPOCH_DURING_DELETE, Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.core.controller.view import ClusterView, PartitionView, TopicView


def stops_of(partition: PartitionView, cluster: ClusterView) -> Iterator[Stop]:
    """Orders to delete this partition's log that brokers alive have not carried out: those of a deletion, or of a move."""
    is_deleting = partition.id.topic in cluster.deleting
    replicas = partition.assignment.replicas if is_deleting else partition.leaving
    epoch = EPOCH_DURING_DELETE
    if not is_deleting and partition.leadership is not None:
        epoch = partition.leadership.leader_epoch
    for replica in replicas:
        if replica not in partition.stopped and cluster.is_reachable(replica, partition):
            yield Stop(replica, partition.id, epoch, delete=True)


def is_gone(topic: TopicView) -> bool:
    """Tell whether no replica of the topic is left."""
    return all(
        replica in partition.stopped
        for partition in topic.partitions.values()
        for replica in partition.assignment.replicas
    )
