"""LeaveGroup: members of a classic group go, so that the others need not wait for their time-outs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.core.group.classic.requests import LeaveReply, LeaveRequest, LeavingMember
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call

_MANY_SINCE: Final = 3


def handle(call: Call) -> Any:  # noqa: ANN401
    """Let them go; one answer per member."""
    asked: LeaveGroupRequest = call.request
    if not asked.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    if call.version < _MANY_SINCE:
        members: tuple[LeavingMember, ...] = (LeavingMember(asked.member_id),)
    else:
        members = tuple(
            LeavingMember(one.member_id, one.group_instance_id) for one in asked.members
        )
    request = LeaveRequest(asked.group_id, members)
    return call.node.coordinators.ask(
        call,
        asked.group_id,
        lambda shard, ticket, now_ms, wall_ms: shard.leave(ticket, request, now_ms, wall_ms),
        _respond,
    )


def _respond(call: Call, reply: LeaveReply) -> LeaveGroupResponse:
    code = reply.error_code
    if call.version < _MANY_SINCE:
        # One member, one code.
        if not code and reply.members:
            code = reply.members[0].error_code
        return LeaveGroupResponse(error_code=code)
    return LeaveGroupResponse(
        error_code=code,
        members=[
            MemberResponse(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=one.error_code,
            )
            for one in reply.members
        ],
    )


def refuse(
    _request: LeaveGroupRequest, code: ErrorCode, _message: str | None
) -> LeaveGroupResponse:
    """Refuse."""
    return LeaveGroupResponse(error_code=code)
