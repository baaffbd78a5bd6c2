"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group, and learn what to own (KIP-848)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group.consumer.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError, shortened
from barnabas.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call

_OWN_MEMBER_ID_SINCE: Final = 1


def handle(call: Call) -> Any:  # noqa: ANN401
    """Hand it to the group; answered at once."""
    asked: ConsumerGroupHeartbeatRequest = call.request
    coordinators = call.node.coordinators
    if not coordinators.serves("consumer"):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the consumer protocol is switched off")
    owned = asked.topic_partitions
    request = ConsumerHeartbeatRequest(
        asked.group_id,
        asked.member_id,
        asked.member_epoch,
        asked.instance_id,
        asked.rack_id,
        asked.rebalance_timeout_ms,
        asked.subscribed_topic_names,
        asked.subscribed_topic_regex,
        asked.server_assignor,
        None if owned is None else {bytes(one.topic_id): one.partitions for one in owned},
        call.client_id or "",
        f"/{call.link.peer_host}",
        requires_member_id=call.version >= _OWN_MEMBER_ID_SINCE,
        may_describe=None if call.node.gate is None else partial(_may_describe, call),
    )
    return coordinators.ask(
        call,
        asked.group_id,
        lambda shard, ticket, now_ms, wall_ms: shard.consumer_heartbeat(
            ticket, request, now_ms, wall_ms
        ),
        _respond,
    )


def _may_describe(call: Call, topic: str) -> bool:
    """Tell whether a pattern may find a topic for who sent it."""
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True)


def _respond(_call: Call, reply: ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    given = reply.assignment
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error_code,
        error_message=None if reply.error_message is None else shortened(reply.error_message),
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None
        if given is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in given.items()
            ]
        ),
    )


def refuse(
    _request: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatResponse:
    """Refuse."""
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=shortened(message or code.message)
    )
