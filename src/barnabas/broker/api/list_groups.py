"""ListGroups: every group, or those in some states or of some types."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.pieces import PIECE, Pieces
from barnabas.core.group.shard import ListRequest
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.group.classic import requests as listing
    from barnabas.core.group.result import Result, Ticket
    from barnabas.core.group.shard import GroupShard
    from barnabas.model.errors import ErrorCode


def handle(call: Call) -> Task[Response]:
    """Ask every shard, for some of its groups at a time."""
    asked: ListGroupsRequest = call.request
    coordinators = call.node.coordinators
    pieces = Pieces(call)
    listed: list[listing.ListedGroup] = []
    sees_all = call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True)
    for hosted in coordinators.all_loaded():
        group_ids = list(hosted.shard.groups)
        # Also where there are none now: that they went may not be synced yet.
        for first in range(0, max(len(group_ids), 1), PIECE):
            if not hosted.is_loaded:
                break  # gone in a pause, and its groups with it
            some = group_ids[first : first + PIECE]
            request = ListRequest(some, asked.states_filter, asked.types_filter)
            found = yield coordinators.asking(hosted, partial(_list, request))
            listed += [one for one in found if sees_all or _may_see(call, one.group_id)]
            pieces.count(len(some))
            if pieces.is_full:
                yield pieces.pause
    return (yield from pieces.respond(lambda: _response(listed)))


def _may_see(call: Call, group_id: str) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id, quietly=True)


def _list(request: ListRequest, shard: GroupShard, ticket: Ticket, *_times: int) -> Result:
    return shard.list_groups(ticket, request)


def _response(listed: list[listing.ListedGroup]) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type,
                group_state=one.group_state,
                group_type=one.group_type,
            )
            for one in listed
        ]
    )


def refuse(
    _request: ListGroupsRequest, code: ErrorCode, _message: str | None
) -> ListGroupsResponse:
    """Refuse."""
    return ListGroupsResponse(error_code=code)
