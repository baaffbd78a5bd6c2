"""Changes of the in-sync set that a leader asks the controller for (KIP-497), as Apache Kafka's brokers do.

Job: judge one such wish against what is known. Must not write: whoever does makes it conditional on the version that was judged.
Barnabas's own leaders write to the store themselves, as Kafka's before KIP-497.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.core.controller.view import ClusterView, PartitionView
    from barnabas.model.ids import TopicPartition

RECOVERED: Final = 0


class Alteration(NamedTuple):
    """What a leader wishes to be in sync with, and what it knew when it did."""

    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    version: int
    recovery_state: int = RECOVERED


def judge_alteration(view: ClusterView, key: TopicPartition, wish: Alteration) -> ErrorCode:
    """Say why a wish is refused; NONE if it may be written, or is what there is already."""
    partition = view.partition(key)
    if partition is None or partition.leadership is None or key.topic in view.deleting:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    now = partition.leadership
    if wish.version > partition.version or wish.leader_epoch > now.leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # it has heard of a later one
    if wish.leader_epoch < now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if is_so(view, key, wish):
        return ErrorCode.NONE
    if wish.version < partition.version:
        return ErrorCode.INVALID_UPDATE_VERSION
    return _judge_in_sync(view, partition, wish)


def _judge_in_sync(view: ClusterView, partition: PartitionView, wish: Alteration) -> ErrorCode:
    in_sync = set(wish.in_sync)
    is_sound = wish.leader == partition.leader and wish.leader in in_sync
    # Nobody is told here to recover.
    is_recovered = wish.recovery_state == RECOVERED
    if not is_sound or not is_recovered or not in_sync <= set(partition.in_force.replicas):
        return ErrorCode.INVALID_REQUEST
    serving = set(view.brokers) - view.shutting_down
    return ErrorCode.NONE if in_sync <= serving else ErrorCode.INELIGIBLE_REPLICA


def is_so(view: ClusterView, key: TopicPartition, wish: Alteration) -> bool:
    """Tell whether a wish is fulfilled: an answer may have been lost."""
    partition = view.partition(key)
    assert partition is not None
    assert partition.leadership is not None
    now = partition.leadership
    return wish.leader == now.leader and sorted(wish.in_sync) == sorted(now.in_sync)
