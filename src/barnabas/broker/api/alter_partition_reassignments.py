"""AlterPartitionReassignments: move replicas to other brokers while they serve, or cancel that (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[AlterPartitionReassignmentsResponse]:
    """Begin or cancel moves, and answer when that is written; the moves go on after it."""
    request: AlterPartitionReassignmentsRequest = call.request
    office = call.node.members.topics.find_office()
    targets = {
        TopicPartition(topic.name, each.partition_index): None
        if each.replicas is None
        else tuple(each.replicas)
        for topic in request.topics
        for each in topic.partitions
    }
    if call.version and not request.allow_replication_factor_change:
        _check_counts(call, targets)
    verdicts = yield office.ask(lambda machine: machine.on_reassign(targets))
    if verdicts is None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "Another broker has become controller.")
    for key, verdict in verdicts.items():
        if not verdict.code:
            audit.changed(call, "reassign", "Partition", str(key), replicas=targets[key])
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=_responses((key, v.code, v.message) for key, v in verdicts.items()),
    )


def _check_counts(call: Call, targets: dict[TopicPartition, tuple[int, ...] | None]) -> None:
    """Refuse to change how many replicas there are for one who said that it must not change (KIP-860)."""
    view = call.node.members.topics.find_office().machine.view
    for key, target in targets.items():
        partition = view.partition(key)
        if target is None or partition is None:
            continue
        if len(target) != len(partition.assignment.origin):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{key} has {len(partition.assignment.origin)} replicas and would get {len(target)}.",
            )


def refuse(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    """Refuse the request."""
    del request
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)


def _responses(
    outcomes: Iterable[tuple[TopicPartition, ErrorCode, str | None]],
) -> list[ReassignableTopicResponse]:
    topics: dict[str, ReassignableTopicResponse] = {}
    for key, code, message in outcomes:
        topic = topics.setdefault(key.topic, ReassignableTopicResponse(name=key.topic))
        told = (message or code.message) if code else None
        topic.partitions.append(
            ReassignablePartitionResponse(
                partition_index=key.partition, error_code=code, error_message=told
            )
        )
    return list(topics.values())
