"""Whether the store still knows what this broker was told: if not, it was put back to an older state.

Job: compare the states of hosted partitions with what the store holds of them. Whatever a broker is told was in the store before, so the store is
never behind. A topic that was deleted and made again is another topic. Must not know what follows from it (`orders.py`, `members.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import cluster_znodes, store

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.ids import TopicPartition
    from barnabas.ports import ZNode


def find_forgotten(node: Node) -> Task[list[TopicPartition]]:
    """Return the partitions of which this broker knows something later than the store. OSError if it cannot be read."""
    # What is known is noted first: the controller may tell something newer while the store is being read.
    known = {
        cluster_znodes.state_path(*replica.key): (replica, _version(replica))
        for replica in node.replicas
        if not replica.state.is_undecided
    }
    found = yield from store.read_all(node, list(known))
    older = [
        replica for path, (replica, version) in known.items() if _is_older(found[path], version)
    ]
    paths = {replica.key.topic: cluster_znodes.topic_path(replica.key.topic) for replica in older}
    topics = yield from store.read_all(node, list(paths.values()))
    return [replica.key for replica in older if _is_same(topics[paths[replica.key.topic]], replica)]


def _is_same(found: ZNode | None, replica: Replica) -> bool:
    """Tell whether the store holds the replica's own topic. A new topic of its name begins with low epochs, which are not older."""
    return found is not None and cluster_znodes.id_of_topic(found) == replica.topic.id


def _version(replica: Replica) -> tuple[int, int]:
    return replica.state.leader_epoch, replica.state.partition_epoch


def _is_older(found: ZNode | None, version: tuple[int, int]) -> bool:
    if found is None:
        return False  # the topic was deleted, or made later: nobody can give orders about it
    state = cluster_znodes.read_state(found)
    return (state.leader_epoch, state.version) < version
