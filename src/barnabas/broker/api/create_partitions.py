"""CreatePartitions: give topics more partitions; never fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker import audit, topic_creation
from barnabas.broker.pieces import Pieces
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

#: Waiting for changes before it, and a plan.
_STEPS_PER_TOPIC: Final = 5
#: From this version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_QUOTA_SINCE: Final = 3


def handle(call: Call) -> Task[Response]:
    """Grow each topic on its own, or with validate_only just check. A name given twice is refused once."""
    request: CreatePartitionsRequest = call.request
    pieces = Pieces(call, finishes=True)
    wanted = yield from pieces.work(len(request.topics), lambda: _by_name(request.topics))
    deadline_ms = call.deadline_ms
    results = []
    for name, asked in wanted.items():
        try:
            if len(asked) > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            yield from _grow(call, asked[0], deadline_ms)
        except KafkaError as refusal:
            results.append(_answer(name, refusal.code, refusal.message))
        else:
            if not request.validate_only:
                audit.changed(call, "alter", "Topic", name, partitions=asked[0].count)
            results.append(_answer(name, ErrorCode.NONE, None))
        pieces.count(_STEPS_PER_TOPIC)
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: CreatePartitionsResponse(results=results)))


def refuse(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """Refuse every topic."""
    return CreatePartitionsResponse(
        results=[_answer(topic.name, code, message) for topic in request.topics]
    )


def _by_name(topics: list[CreatePartitionsTopic]) -> dict[str, list[CreatePartitionsTopic]]:
    wanted: dict[str, list[CreatePartitionsTopic]] = {}
    for topic in topics:
        wanted.setdefault(topic.name, []).append(topic)
    return wanted


def _grow(call: Call, asked: CreatePartitionsTopic, deadline_ms: int) -> Task[None]:
    node, request = call.node, call.request
    yield node.changes.take
    try:
        topic = node.topics.by_name.get(asked.name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{asked.name}'."
            )
        assignment = _plan(node, topic, asked)
        if not request.validate_only:
            call.take_permits(len(assignment), _STRICT_QUOTA_SINCE)
            yield from topic_creation.add_partitions(node, topic, assignment)
    finally:
        node.changes.give()
    # Others may change something meanwhile: what is written does not change by waiting for it.
    if not node.is_lone and not request.validate_only:
        yield from node.members.topics.until_led(topic, asked.count, deadline_ms)


def _plan(node: Node, topic: Topic, asked: CreatePartitionsTopic) -> list[tuple[int, ...]]:
    old_count = len(topic.partitions)
    if asked.count == old_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {old_count} partition(s)."
        )
    if asked.count < old_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {old_count} partition(s);"
            f" {asked.count} would not be an increase.",
        )
    additional = asked.count - old_count
    if asked.assignments is None:
        return topic_creation.decide_added(node, topic, additional)
    if len(asked.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but"
            f" {len(asked.assignments)} assignment(s) were specified.",
        )
    given = {old_count + i: one.broker_ids for i, one in enumerate(asked.assignments)}
    return topic_creation.check_assignment(node, given, old_count)


def _answer(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
