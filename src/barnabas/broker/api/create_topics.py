"""CreateTopics: each topic on its own; one that is refused does not keep the others from being made."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import audit, topic_creation
from barnabas.broker.pieces import Pieces
from barnabas.broker.tasks import drive, together
from barnabas.model.acl import Operation, ResourceType
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
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

log = logging.getLogger(__name__)

#: Kafka's brokers answer with the new topic's settings from this version on (KIP-525).
_DETAILS_SINCE = 5
#: From this version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_QUOTA_SINCE: Final = 6
#: A plan of a topic, and its settings in the answer.
_STEPS_PER_TOPIC: Final = 10


def handle(call: Call) -> Task[Response]:
    """Create, or with validate_only just check."""
    request: CreateTopicsRequest = call.request
    call.node.check_controller()
    times = Counter(wanted.name for wanted in request.topics)
    planned: list[Topic] = []
    outcomes: dict[str, Topic | BaseException] = {}
    pieces = Pieces(call, finishes=True)
    # A name that is there twice is refused once.
    for wanted in {wanted.name: wanted for wanted in request.topics}.values():
        pieces.count(_STEPS_PER_TOPIC)
        if pieces.is_full:
            yield pieces.pause
        try:
            if times[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = outcomes[wanted.name] = _plan(call.node, wanted)
            if not request.validate_only:
                call.take_permits(len(topic.partitions), _STRICT_QUOTA_SINCE)
        except KafkaError as refusal:
            outcomes[wanted.name] = refusal
            continue
        if not request.validate_only:
            topic_creation.reserve(call.node, topic)
            planned.append(topic)
    if planned:
        # Side by side: their commits share the store's syncs.
        deadline_ms = call.deadline_ms
        creations = [
            partial(drive, topic_creation.create(call.node, topic, deadline_ms))
            for topic in planned
        ]
        errors = yield together(creations)
        for topic, error in zip(planned, errors, strict=True):
            if error is not None:
                outcomes[topic.name] = error
            else:
                audit.changed(call, "create", "Topic", topic.name, partitions=len(topic.partitions))
    results = _results(call, outcomes)
    return (yield from pieces.respond(lambda: CreateTopicsResponse(topics=results)))


def _results(call: Call, outcomes: dict[str, Topic | BaseException]) -> list[CreatableTopicResult]:
    """Answer in the order of the request; settings are described once for topics that have the same."""
    described: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}
    results = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            results.append(_failed(name, outcome.code, outcome.message))
        elif isinstance(outcome, BaseException):
            log.error("creating %s failed", name, exc_info=outcome)
            results.append(_failed(name, ErrorCode.UNKNOWN_SERVER_ERROR, None))
        else:
            key = tuple(sorted(outcome.overrides.items()))
            if key not in described:
                described[key] = _described(call, outcome)
            results.append(_created(call, outcome, described[key]))
    return results


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


def _created(
    call: Call, topic: Topic, configs: list[CreatableTopicConfigs]
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=topic.name, topic_id=topic.id)
    if call.version >= _DETAILS_SINCE and not _may_see_configs(call, topic.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = None
    elif call.version >= _DETAILS_SINCE:
        result.num_partitions = len(topic.partitions)
        result.replication_factor = len(topic.partitions[0].replicas)
        result.configs = configs
    return result


def _may_see_configs(call: Call, topic: str) -> bool:
    return call.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic, quietly=True)


def _described(call: Call, topic: Topic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(call.node.config, topic.overrides)
    ]


def _failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=code,
        error_message=message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )
