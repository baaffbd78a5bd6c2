"""JoinGroup: become a member of a classic group, or stay one in a rebalance. Waits for the other members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group.classic.requests import JoinReply, JoinRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from barnabas.wire.primitives import MAX_STRING_BYTES

if TYPE_CHECKING:
    from barnabas.broker.call import Call

_REBALANCE_TIMEOUT_SINCE: Final = 1
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_PROTOCOL_NAME_NULLABLE_SINCE: Final = 7
_SKIP_ASSIGNMENT_SINCE: Final = 9
#: What a member id has behind the name of the client or instance: a dash and a UUID.
_SUFFIX_BYTES: Final = 37


def handle(call: Call) -> Any:  # noqa: ANN401
    """Join; the answer comes when the join phase ends."""
    asked: JoinGroupRequest = call.request
    if not asked.group_id:
        return _respond(call, JoinReply(ErrorCode.INVALID_GROUP_ID, member_id=asked.member_id))
    if not asked.member_id and not _can_be_named(asked.group_instance_id or call.client_id or ""):
        return _respond(call, JoinReply(ErrorCode.UNKNOWN_SERVER_ERROR))
    version = call.version
    request = JoinRequest(
        asked.group_id,
        asked.member_id,
        asked.group_instance_id,
        asked.protocol_type,
        tuple((one.name, bytes(one.metadata)) for one in asked.protocols),
        asked.session_timeout_ms,
        asked.rebalance_timeout_ms
        if version >= _REBALANCE_TIMEOUT_SINCE
        else asked.session_timeout_ms,
        call.client_id or "",
        f"/{call.link.peer_host}",
        requires_known_member_id=version >= _MEMBER_ID_REQUIRED_SINCE,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_SINCE,
    )
    try:
        return call.node.coordinators.ask(
            call,
            asked.group_id,
            lambda shard, ticket, now_ms, wall_ms: shard.join(ticket, request, now_ms, wall_ms),
            _respond,
        )
    except KafkaError as problem:
        return _respond(call, JoinReply(problem.code))


def _can_be_named(stem: str) -> bool:
    """Tell whether a member id made of this name fits into an answer; where it does not, Kafka's answer is the same."""
    return len(stem.encode()) + _SUFFIX_BYTES <= MAX_STRING_BYTES


def _respond(call: Call, reply: JoinReply) -> JoinGroupResponse:
    name = reply.protocol_name
    if name is None and call.version < _PROTOCOL_NAME_NULLABLE_SINCE:
        name = ""
    return JoinGroupResponse(
        error_code=reply.error_code,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                metadata=one.metadata,
            )
            for one in reply.members
        ],
    )


def refuse(request: JoinGroupRequest, code: ErrorCode, _message: str | None) -> JoinGroupResponse:
    """Refuse."""
    return JoinGroupResponse(
        error_code=code, generation_id=-1, protocol_name="", member_id=request.member_id
    )
