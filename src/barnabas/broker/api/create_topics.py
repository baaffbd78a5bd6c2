"""CreateTopics: each topic on its own; one that is refused does not keep the others from being made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.broker import topic_creation
from barnabas.model.config.describe import describe_topic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

#: Kafka's brokers answer with the new topic's settings from this version on (KIP-525).
_DETAILS_SINCE = 5


def handle(call: Call) -> Task[CreateTopicsResponse]:
    """Create, or with validate_only just check."""
    request: CreateTopicsRequest = call.request
    times = Counter(wanted.name for wanted in request.topics)
    results = []
    # A name that is there twice is refused once.
    for wanted in {wanted.name: wanted for wanted in request.topics}.values():
        try:
            if times[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = _plan(call.node, wanted)
            if not request.validate_only:
                yield from topic_creation.create(call.node, topic)
        except KafkaError as refusal:
            results.append(_failed(wanted.name, refusal.code, refusal.message))
        else:
            results.append(_created(call, topic))
    return CreateTopicsResponse(topics=results)


def refuse(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    """Refuse every topic."""
    return CreateTopicsResponse(topics=[_failed(t.name, code, message) for t in request.topics])


def _plan(node: Node, wanted: CreatableTopic) -> Topic:
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "With replica assignments, partition count and replication factor must be -1.",
            )
        given = {a.partition_index: a.broker_ids for a in wanted.assignments}
        if len(given) != len(wanted.assignments):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once."
            )
        assignment = topic_creation.check_assignment(node, given)
    else:
        assignment = topic_creation.decide_assignment(
            node, wanted.num_partitions, wanted.replication_factor
        )
    configs = [(config.name, config.value) for config in wanted.configs]
    for name, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"The setting {name} needs a value.")
    return topic_creation.plan_topic(node, wanted.name, assignment, configs)


def _created(call: Call, topic: Topic) -> CreatableTopicResult:
    result = CreatableTopicResult(name=topic.name, topic_id=topic.id)
    if call.version >= _DETAILS_SINCE:
        result.num_partitions = len(topic.partitions)
        result.replication_factor = len(topic.partitions[0].replicas)
        result.configs = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(call.node.config, topic.overrides)
        ]
    return result


def _failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=code,
        error_message=message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )
