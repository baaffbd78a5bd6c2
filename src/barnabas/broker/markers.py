"""Writing the markers that end transactions on partitions that this broker leads.

For the transaction coordinator of this node, and for whoever sends WriteTxnMarkers. On a partition of the offsets topic the
group coordinator is told: the offsets of the transaction count from then on, or never did.

Invariant: a marker is reported as written when every in-sync replica has it, and it is as durable as its topic's settings ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.pieces import PIECE
from barnabas.broker.tasks import side_by_side
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.ids import TopicPartition
    from barnabas.wire.batch import Producer
    from barnabas.wire.control_batch import EndMarker


class End(NamedTuple):
    """The end of one transaction on some of its partitions."""

    marker: EndMarker
    producer: Producer
    transaction_version: int
    partitions: Sequence[TopicPartition]


#: How long markers wait to be committed, before who sent them is told to try again: those of others wait for the same answer.
PATIENCE_MS: Final = 5_000

#: What each partition answers.
Answers = list[tuple["TopicPartition", ErrorCode]]
#: A replica that has taken markers, and the leader epoch in which it did.
_Taken = dict["TopicPartition", tuple["Replica", int]]


def write(node: Node, ends: Sequence[End]) -> Task[list[Answers]]:
    """Write every marker to each of its partitions; what they answer, in their order."""
    every: list[Answers] = []
    taken: _Taken = {}
    count = 0
    node.staging.write()  # batches that were judged before the marker go before it
    for end in ends:
        answers: Answers = []
        for one in end.partitions:
            answers.append((one, _write_one(node, end, one, taken)))
            count += 1
            if count % PIECE == 0:
                yield node.pauses.add
                node.staging.write()
        every.append(answers)
    late = yield from _wait(node, taken)
    if late:
        every = [
            [(one, code or late.get(one, ErrorCode.NONE)) for one, code in answers]
            for answers in every
        ]
    return every


def _write_one(node: Node, end: End, partition: TopicPartition, taken: _Taken) -> ErrorCode:
    replica = node.led(*partition)
    if isinstance(replica, ErrorCode):
        return replica
    code = replica.state.decide_append(-1, replica.config.min_insync_replicas)
    if code:
        return code
    marker, producer, version = end.marker, end.producer, end.transaction_version
    if partition.topic == OFFSETS_TOPIC:
        code = node.coordinators.end_transaction(partition.partition, marker, producer, version)
    else:
        code = replica.append_marker(marker, producer.id, producer.epoch, version)
    if not code:
        # If the epoch is another one when all are written, nobody knows whether the first is still there.
        taken.setdefault(partition, (replica, replica.state.leader_epoch))
    return code


def _wait(node: Node, taken: _Taken) -> Task[dict[TopicPartition, ErrorCode]]:
    """Wait until what the replicas have taken is committed and synced; those where it is not, and why."""
    waits = list(_waits(node, taken))
    if not waits:
        return {}
    codes = yield side_by_side([wait for _one, wait in waits])
    return {one: code for (one, _wait), code in zip(waits, codes, strict=True) if code}


def _waits(node: Node, taken: _Taken) -> Iterator[tuple[TopicPartition, Task[ErrorCode]]]:
    deadline_ms = node.world.clock.monotonic_ms() + PATIENCE_MS
    for one, (replica, leader_epoch) in taken.items():
        state, log = replica.state, replica.log
        is_same = state.is_leader and state.leader_epoch == leader_epoch
        is_safe = is_same and state.high_watermark >= log.log_end_offset
        if not is_safe or log.unflushed_records >= replica.config.flush_messages:
            yield one, _until_safe(node, replica, deadline_ms, is_same=is_same)


def _until_safe(
    node: Node, replica: Replica, deadline_ms: int, *, is_same: bool
) -> Task[ErrorCode]:
    state, log = replica.state, replica.log
    if not is_same:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if state.high_watermark < log.log_end_offset:
        code: ErrorCode = yield replica.commitment.until(
            log.log_end_offset, state.leader_epoch, deadline_ms, node.world
        )
        if code:
            return code
    if log.unflushed_records >= replica.config.flush_messages:
        try:
            yield replica.flush
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
