"""DescribeGroups: the members of classic groups and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.authorized import NOT_ASKED, operations
from barnabas.broker.pieces import Pieces
from barnabas.model.acl import ResourceType
from barnabas.model.errors import ErrorCode, KafkaError, shortened
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.group.classic import requests as classic_requests

#: Up to then a group that is not there was a dead one, without an error.
_NOT_FOUND_SINCE: Final = 6


def handle(call: Call) -> Task[Response]:
    """Describe each group named."""
    request: DescribeGroupsRequest = call.request
    pieces = Pieces(call)
    groups = []
    for group_id in request.groups:
        described = yield from _describe(call, group_id)
        groups.append(described)
        pieces.count(1 + len(described.members))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: DescribeGroupsResponse(groups=groups)))


def refuse(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsResponse:
    """Refuse every group."""
    return DescribeGroupsResponse(groups=[_failed(one, code, message) for one in request.groups])


def _operations(call: Call, group_id: str) -> int:
    if not call.request.include_authorized_operations:
        return NOT_ASKED
    return operations(call, ResourceType.GROUP, group_id)


def _describe(call: Call, group_id: str) -> Task[DescribedGroup]:
    coordinators = call.node.coordinators
    try:
        hosted = coordinators.find(group_id)
        found: classic_requests.DescribedGroup = yield coordinators.asking(
            hosted, lambda shard, ticket, _now_ms, _wall_ms: shard.describe(ticket, group_id)
        )
    except KafkaError as problem:
        return _failed(group_id, problem.code, problem.message or None)
    not_found = found.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    told = not (not_found and call.version < _NOT_FOUND_SINCE)
    return DescribedGroup(
        error_code=found.error_code if told else ErrorCode.NONE,
        error_message=_short(found.error_message) if told else None,
        group_id=found.group_id,
        group_state=found.group_state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_data,
        members=[
            DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in found.members
        ],
        authorized_operations=NOT_ASKED
        if told and found.error_code
        else _operations(call, group_id),
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
