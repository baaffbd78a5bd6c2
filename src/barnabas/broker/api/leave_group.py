"""LeaveGroup: members of a classic group go, so that the others need not wait for their time-outs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.pieces import Pieces, slices
from barnabas.core.group.classic.requests import (
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task

_MANY_SINCE: Final = 3


def handle(call: Call) -> Task[Response]:
    """Let them go; one answer per member. Of very many some go at a time."""
    asked: LeaveGroupRequest = call.request
    if not asked.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    if call.version < _MANY_SINCE:
        (one,) = yield from _leave(call, [MemberIdentity(member_id=asked.member_id)])
        return LeaveGroupResponse(error_code=one.error_code)
    pieces = Pieces(call, finishes=True)
    left: list[LeftMember] = []
    for some in slices(asked.members):
        left += yield from _leave(call, some)
        pieces.count(len(some))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: _response(left)))


def _leave(call: Call, some: list[MemberIdentity]) -> Task[tuple[LeftMember, ...]]:
    group_id = call.request.group_id
    members = tuple(LeavingMember(one.member_id, one.group_instance_id) for one in some)
    request = LeaveRequest(group_id, members)
    coordinators = call.node.coordinators
    reply: LeaveReply = yield coordinators.asking(
        coordinators.find(group_id),
        lambda shard, ticket, now_ms, wall_ms: shard.leave(ticket, request, now_ms, wall_ms),
    )
    if reply.error_code:
        raise KafkaError(reply.error_code, "")
    return reply.members


def _response(left: list[LeftMember]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=one.error_code,
            )
            for one in left
        ]
    )


def refuse(
    _request: LeaveGroupRequest, code: ErrorCode, _message: str | None
) -> LeaveGroupResponse:
    """Refuse."""
    return LeaveGroupResponse(error_code=code)
