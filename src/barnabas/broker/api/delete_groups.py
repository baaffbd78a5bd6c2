"""DeleteGroups: groups without members go, and their offsets with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[DeleteGroupsResponse]:
    """Delete each group named; one that is named twice is told once."""
    results = []
    for group_id in dict.fromkeys(call.request.groups_names):
        code = yield from _delete(call, group_id)
        results.append(_result(group_id, code, None))
    return DeleteGroupsResponse(results=results)


def refuse(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """Refuse every group."""
    return DeleteGroupsResponse(
        results=[_result(one, code, message) for one in dict.fromkeys(request.groups_names)]
    )


def _delete(call: Call, group_id: str) -> Task[ErrorCode]:
    coordinators = call.node.coordinators
    try:
        hosted = coordinators.find(group_id)
        code: ErrorCode = yield coordinators.asking(
            hosted, lambda shard, ticket, _now_ms, _wall_ms: shard.delete(ticket, group_id)
        )
    except KafkaError as problem:
        return problem.code
    return code


def _result(group_id: str, code: ErrorCode, message: str | None) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=message)
