"""Writing the markers that end a transaction on its partitions.

For the transaction coordinator of this node, and for whoever sends WriteTxnMarkers. On a partition of the offsets topic the
group coordinator is told: the offsets of the transaction count from then on, or never did.

Invariant: a marker is reported as written when it is as durable as its topic's settings ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.coordinators import TOPIC as OFFSETS_TOPIC
from barnabas.broker.pieces import PIECE
from barnabas.broker.tasks import together
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.ids import TopicPartition
    from barnabas.wire.batch import Producer
    from barnabas.wire.control_batch import EndMarker

Answers = list[tuple["TopicPartition", ErrorCode]]


def write(
    node: Node,
    marker: EndMarker,
    producer: Producer,
    transaction_version: int,
    partitions: Sequence[TopicPartition],
) -> Task[Answers]:
    """Write one marker to each partition; what each answers, in their order."""
    answers: Answers = []
    node.staging.write()  # batches that were judged before the marker go before it
    for number, one in enumerate(partitions, 1):
        answers.append((one, _write_one(node, marker, producer, transaction_version, one)))
        if number % PIECE == 0:
            yield node.pauses.add
    unsynced = [
        replica
        for one, code in answers
        if not code and (replica := node.replicas.get(*one)) is not None and _is_due(replica)
    ]
    if unsynced:
        errors = yield together([replica.flush for replica in unsynced])
        failed = {
            replica.key
            for replica, error in zip(unsynced, errors, strict=True)
            if error is not None
        }
        return [
            (one, ErrorCode.KAFKA_STORAGE_ERROR if one in failed else code) for one, code in answers
        ]
    return answers


def _is_due(replica: Replica) -> bool:
    return replica.log.unflushed_records >= replica.config.flush_messages


def _write_one(
    node: Node,
    marker: EndMarker,
    producer: Producer,
    transaction_version: int,
    partition: TopicPartition,
) -> ErrorCode:
    replica = node.led(*partition)
    if isinstance(replica, ErrorCode):
        return replica
    code = replica.state.decide_append(-1, replica.config.min_insync_replicas)
    if code:
        return code
    if partition.topic == OFFSETS_TOPIC:
        return node.coordinators.end_transaction(
            partition.partition, marker, producer, transaction_version
        )
    return replica.append_marker(marker, producer.id, producer.epoch, transaction_version)
