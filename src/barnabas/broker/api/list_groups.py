"""ListGroups: every group, or those in some states or of some types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.group.shard import ListRequest
from barnabas.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.model.errors import ErrorCode


def handle(call: Call) -> Task[ListGroupsResponse]:
    """Ask every shard."""
    asked: ListGroupsRequest = call.request
    request = ListRequest(asked.states_filter, asked.types_filter)
    coordinators = call.node.coordinators
    groups: list[ListedGroup] = []
    for hosted in coordinators.all_loaded():
        listed = yield coordinators.asking(
            hosted, lambda shard, ticket, _now_ms, _wall_ms: shard.list_groups(ticket, request)
        )
        groups += [
            ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type,
                group_state=one.group_state,
                group_type=one.group_type,
            )
            for one in listed
        ]
    return ListGroupsResponse(groups=groups)


def refuse(
    _request: ListGroupsRequest, code: ErrorCode, _message: str | None
) -> ListGroupsResponse:
    """Refuse."""
    return ListGroupsResponse(error_code=code)
