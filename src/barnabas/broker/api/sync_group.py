"""SyncGroup: get one's share of the partitions; the leader of a classic group brings everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.core.group.classic.requests import SyncReply, SyncRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call


_PROTOCOL_SINCE = 5


def handle(call: Call) -> Any:  # noqa: ANN401
    """Wait for the leader's assignment."""
    asked: SyncGroupRequest = call.request
    if call.version >= _PROTOCOL_SINCE and (
        asked.protocol_type is None or asked.protocol_name is None
    ):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "both protocol type and name are needed"
        )
    if not asked.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    request = SyncRequest(
        asked.group_id,
        asked.generation_id,
        asked.member_id,
        asked.group_instance_id,
        asked.protocol_type,
        asked.protocol_name,
        tuple((one.member_id, bytes(one.assignment)) for one in asked.assignments),
    )
    return call.node.coordinators.ask(
        call,
        asked.group_id,
        lambda shard, ticket, now_ms, wall_ms: shard.sync(ticket, request, now_ms, wall_ms),
        _respond,
    )


def _respond(_call: Call, reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error_code,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def refuse(_request: SyncGroupRequest, code: ErrorCode, _message: str | None) -> SyncGroupResponse:
    """Refuse."""
    return SyncGroupResponse(error_code=code, assignment=b"")
