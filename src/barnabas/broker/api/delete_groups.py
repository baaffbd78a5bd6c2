"""DeleteGroups: groups without members go, and their offsets with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.broker.pieces import Pieces
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[Response]:
    """Delete each group named; one that is named twice is told once."""
    pieces = Pieces(call, finishes=True)
    codes: dict[str, ErrorCode] = {}
    for group_id in dict.fromkeys(call.request.groups_names):
        codes[group_id] = yield from _delete(call, pieces, group_id)
        if pieces.is_full:
            yield pieces.pause
    return (
        yield from pieces.respond(
            lambda: DeleteGroupsResponse(
                results=[_result(group_id, code, None) for group_id, code in codes.items()]
            )
        )
    )


def refuse(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """Refuse every group."""
    return DeleteGroupsResponse(
        results=[_result(one, code, message) for one in dict.fromkeys(request.groups_names)]
    )


def _delete(call: Call, pieces: Pieces, group_id: str) -> Task[ErrorCode]:
    coordinators = call.node.coordinators
    pieces.count(1)
    try:
        hosted = coordinators.find(group_id)
        pieces.count(hosted.shard.offsets.count_of(group_id))
        code: ErrorCode = yield coordinators.asking(
            hosted, lambda shard, ticket, _now_ms, _wall_ms: shard.delete(ticket, group_id)
        )
    except KafkaError as problem:
        return problem.code
    if not code:
        audit.changed(call, "delete", "Group", group_id)
    return code


def _result(group_id: str, code: ErrorCode, message: str | None) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=message)
