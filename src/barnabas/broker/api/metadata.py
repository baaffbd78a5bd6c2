"""Metadata: which brokers there are, which topics, and who leads their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit, topic_creation
from barnabas.broker.authorized import NOT_ASKED, cluster_operations, operations
from barnabas.broker.pieces import Pieces
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import topic_name_problem
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

_AUTO_CREATE_FLAG_SINCE = 4
#: The field is there from version 10 on, but two releases could not be asked by id (KAFKA-10545).
_TOPIC_IDS_SINCE = 12
_NO_ID = bytes(16)


def handle(call: Call) -> Task[Response]:
    """Answer for the topics named, or for all."""
    request: MetadataRequest = call.request
    node = call.node
    every = request.topics is None or (call.version == 0 and not request.topics)
    pieces = Pieces(call)
    topics = []
    if every:
        for name in list(node.topics.by_name):
            topic = node.topics.by_name.get(name)
            if topic is None:
                continue  # deleted during a pause
            pieces.count(1)
            if not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=True):
                continue
            topics.append(_known(call, topic))
            pieces.count(len(topic.partitions))
            if pieces.is_full:
                yield pieces.pause
    else:
        _check_wanted(call)
        told: dict[tuple[str | None, bytes], None] = {}
        for wanted in request.topics or ():
            answer = yield from _answer(call, wanted)
            # A topic that is asked for twice, also once by name and once by id, is told once.
            key = (answer.name, answer.topic_id)
            if key not in told:
                told[key] = None
                topics.append(answer)
            pieces.count(1 + len(answer.partitions))
            if pieces.is_full:
                yield pieces.pause
    asked = request.include_cluster_authorized_operations
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker_id, host=host, port=port, rack=rack)
            for broker_id, host, port, rack in node.cluster.addresses(call.link)
        ],
        cluster_id=node.cluster_id,
        controller_id=node.cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(call) if asked else NOT_ASKED,
    )
    return (yield from pieces.respond(lambda: response))


def refuse(request: MetadataRequest, code: ErrorCode, _message: str | None) -> MetadataResponse:
    """Refuse every topic named; not every version has a place for a name that is null."""
    return MetadataResponse(
        topics=[_failed(t.name or "", t.topic_id, code) for t in request.topics or ()],
        error_code=code,
    )


def _check_wanted(call: Call) -> None:
    if call.version >= _TOPIC_IDS_SINCE:
        return
    for wanted in call.request.topics or ():
        if wanted.name is None or wanted.topic_id != _NO_ID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"version {call.version} takes topics by name only, ids come with {_TOPIC_IDS_SINCE}",
            )


def _answer(call: Call, wanted: MetadataRequestTopic) -> Task[MetadataResponseTopic]:
    node, denied = call.node, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if wanted.name is None or wanted.topic_id != _NO_ID:  # with an id, Java leaves the name empty
        topic = node.topics.by_id.get(wanted.topic_id)
        if topic is None:
            return _failed(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            return _failed(None, wanted.topic_id, denied)
    else:
        # Before anybody looks whether it exists.
        if not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, wanted.name):
            return _failed(wanted.name, wanted.topic_id, denied)
        topic = node.topics.by_name.get(wanted.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and topic_name_problem(wanted.name) is not None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif topic is None and _is_auto_created(call):
            if not _may_create(call, wanted.name):
                return _failed(wanted.name, wanted.topic_id, denied)
            topic, code = yield from _auto_create(call, wanted.name)
    if topic is None:
        told = _topic_operations(call, wanted.name or "")
        return _failed(wanted.name, wanted.topic_id, code, told)
    return _known(call, topic)


def _topic_operations(call: Call, name: str) -> int:
    if not call.request.include_topic_authorized_operations:
        return NOT_ASKED
    return operations(call, ResourceType.TOPIC, name)


def _may_create(call: Call, name: str) -> bool:
    return call.allows(
        Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True
    ) or call.allows(Operation.CREATE, ResourceType.TOPIC, name)


def _is_auto_created(call: Call) -> bool:
    asked = call.version < _AUTO_CREATE_FLAG_SINCE or call.request.allow_auto_topic_creation
    return bool(asked) and call.node.config.get_bool("auto.create.topics.enable")


def _auto_create(call: Call, name: str) -> Task[tuple[Topic | None, ErrorCode]]:
    node = call.node
    try:
        yield from topic_creation.create_automatically(node, name, -1, -1)
    except KafkaError as refusal:
        if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            return None, refusal.code
    else:
        # It takes permits like any other creation, and is never refused: clients do not know that by this request.
        count = node.config.get_int("num.partitions")
        call.take_permits(count)
        audit.changed(call, "create", "Topic", name, partitions=count)
    # Another client may be creating the same topic right now: then its leader is not there yet.
    return node.topics.by_name.get(name), ErrorCode.LEADER_NOT_AVAILABLE


def _known(call: Call, topic: Topic) -> MetadataResponseTopic:
    node, partitions = call.node, []
    for index, partition in enumerate(topic.partitions):
        error_code, leader, offline = node.cluster.leadership(topic, index)
        partitions.append(
            MetadataResponsePartition(
                error_code=error_code,
                partition_index=index,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync),
                offline_replicas=offline,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=_topic_operations(call, topic.name),
    )


def _failed(
    name: str | None, topic_id: bytes, code: ErrorCode, told: int = NOT_ASKED
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id if name is None else _NO_ID,
        topic_authorized_operations=told,
    )
