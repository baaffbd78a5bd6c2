"""ConsumerGroupDescribe: the members of consumer groups, what they own and shall own (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorized import NOT_ASKED, operations
from barnabas.broker.pieces import Pieces
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError, shortened
from barnabas.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.group.consumer.requests import (
        DescribedConsumer,
        DescribedConsumerGroup,
        DescribedTopicPartitions,
    )


def handle(call: Call) -> Task[Response]:
    """Describe each group named."""
    request: ConsumerGroupDescribeRequest = call.request
    if not call.node.coordinators.serves("consumer"):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the consumer protocol is switched off")
    pieces = Pieces(call)
    groups = []
    for group_id in request.group_ids:
        described = yield from _describe(call, group_id)
        groups.append(described)
        pieces.count(1 + len(described.members))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: ConsumerGroupDescribeResponse(groups=groups)))


def refuse(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    """Refuse every group."""
    return ConsumerGroupDescribeResponse(
        groups=[_failed(group_id, code, message) for group_id in request.group_ids]
    )


def _operations(call: Call, group_id: str) -> int:
    if not call.request.include_authorized_operations:
        return NOT_ASKED
    return operations(call, ResourceType.GROUP, group_id)


def _describe(call: Call, group_id: str) -> Task[DescribedGroup]:
    if not group_id:
        return _failed(group_id, ErrorCode.INVALID_GROUP_ID, None)
    coordinators = call.node.coordinators
    try:
        hosted = coordinators.find(group_id)
        found: DescribedConsumerGroup = yield coordinators.asking(
            hosted,
            lambda shard, ticket, _now_ms, _wall_ms: shard.consumer_describe(ticket, group_id),
        )
    except KafkaError as problem:
        return _failed(group_id, problem.code, problem.message or None)
    if not _may_see_topics(call, found):
        return _failed(
            group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
    return DescribedGroup(
        error_code=found.error_code,
        error_message=_short(found.error_message),
        group_id=found.group_id,
        group_state=found.group_state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor_name,
        members=[_member(one) for one in found.members],
        authorized_operations=NOT_ASKED if found.error_code else _operations(call, group_id),
    )


def _may_see_topics(call: Call, found: DescribedConsumerGroup) -> bool:
    """Tell whether a client may know of everything that members read: else it is told of none of them, as in Kafka."""
    if call.node.gate is None:
        return True
    names = [
        topic.topic_name
        for member in found.members
        for topics in (member.assignment, member.target_assignment)
        for topic in topics
    ]
    return all(
        call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in dict.fromkeys(names)
    )


def _member(one: DescribedConsumer) -> Member:
    return Member(
        member_id=one.member_id,
        instance_id=one.instance_id,
        rack_id=one.rack_id,
        member_epoch=one.member_epoch,
        client_id=one.client_id,
        client_host=one.client_host,
        subscribed_topic_names=list(one.subscribed_topic_names),
        subscribed_topic_regex=one.subscribed_topic_regex,
        assignment=_assignment(one.assignment),
        target_assignment=_assignment(one.target_assignment),
        member_type=one.member_type,
    )


def _assignment(topics: tuple[DescribedTopicPartitions, ...]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=one.topic_id, topic_name=one.topic_name, partitions=list(one.partitions)
            )
            for one in topics
        ]
    )


def _failed(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=_short(message),
        group_id=group_id,
        authorized_operations=NOT_ASKED,
    )


def _short(message: str | None) -> str | None:
    return None if message is None else shortened(message)
