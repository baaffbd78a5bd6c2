"""FindCoordinator: who keeps a group. Makes the offsets topic when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_MANY_SINCE: Final = 4


def handle(call: Call) -> Task[FindCoordinatorResponse]:
    """Find the coordinator of each key."""
    request: FindCoordinatorRequest = call.request
    many = call.version >= _MANY_SINCE
    keys = request.coordinator_keys if many else [request.key]
    found = []
    for key in keys:
        coordinator = yield from _find(call, key)
        found.append(coordinator)
    if many:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def refuse(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    """Refuse every key."""
    return FindCoordinatorResponse(
        error_code=code,
        error_message=message,
        node_id=-1,
        host="",
        port=-1,
        coordinators=[_none(key, code, message) for key in request.coordinator_keys],
    )


def _find(call: Call, key: str) -> Task[Coordinator]:
    node, key_type = call.node, call.request.key_type
    if key_type == _TRANSACTION:
        return _none(
            key,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "transactions are not served yet",
        )
    if key_type != _GROUP:
        return _none(key, ErrorCode.INVALID_REQUEST, f"no coordinator is of type {key_type}")
    topic = yield from node.coordinators.create_topic()
    if topic is None or node.coordinators.replica_for(key) is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _none(key, code, code.message)
    host, port = node.address_for(call.link)
    return Coordinator(key=key, node_id=node.broker_id, host=host, port=port)


def _none(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )
