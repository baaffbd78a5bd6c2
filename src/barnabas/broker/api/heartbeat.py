"""Heartbeat: a member of a classic group lives, and learns whether its group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.core.group.classic.requests import HeartbeatReply
from barnabas.core.group.classic.requests import HeartbeatRequest as Beat
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call


def handle(call: Call) -> Any:  # noqa: ANN401
    """Note it; answered at once."""
    asked: HeartbeatRequest = call.request
    if not asked.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    request = Beat(asked.group_id, asked.generation_id, asked.member_id, asked.group_instance_id)
    return call.node.coordinators.ask(
        call,
        asked.group_id,
        lambda shard, ticket, now_ms, wall_ms: shard.heartbeat(ticket, request, now_ms, wall_ms),
        _respond,
    )


def _respond(_call: Call, reply: HeartbeatReply) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=reply.error_code)


def refuse(_request: HeartbeatRequest, code: ErrorCode, _message: str | None) -> HeartbeatResponse:
    """Refuse; while the group is being loaded nothing can be said against its members, as in Kafka."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return HeartbeatResponse(error_code=code)
