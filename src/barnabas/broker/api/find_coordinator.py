"""FindCoordinator: who keeps a group or a transactional id. Makes the topic for them when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.pieces import Pieces
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.shard_host import ShardHost
    from barnabas.broker.tasks import Task

_GROUP: Final = 0
_TRANSACTION: Final = 1
_MANY_SINCE: Final = 4
#: Characters whose hash takes as long as the rest of the work for a key.
_HASHED_IN_A_STEP: Final = 100


def handle(call: Call) -> Task[Response]:
    """Find the coordinator of each key."""
    request: FindCoordinatorRequest = call.request
    if call.version < _MANY_SINCE:
        one = yield from _find(call, request.key)
        return _one_response(one)
    pieces = Pieces(call)
    found = []
    for key in request.coordinator_keys:
        coordinator = yield from _find(call, key)
        found.append(coordinator)
        pieces.count(1 + len(key) // _HASHED_IN_A_STEP)
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: FindCoordinatorResponse(coordinators=found)))


def _one_response(one: Coordinator) -> FindCoordinatorResponse:
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
    node = call.node
    hosts: dict[int, ShardHost[Any]] = {
        _GROUP: node.coordinators,
        _TRANSACTION: node.transactions,
    }
    host = hosts.get(call.request.key_type)
    if host is None:
        problem = f"no coordinator is of type {call.request.key_type}"
        return _none(key, ErrorCode.INVALID_REQUEST, problem)
    topic = yield from host.create_topic()
    address = None
    if topic is not None:
        partition = host.partition_for(key)
        if partition < len(topic.partitions):  # else it was not told of that one yet
            leader = node.cluster.leadership(topic, partition).leader
            address = node.cluster.address_of(leader, call.link)
    if address is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _none(key, code, code.message)
    return Coordinator(key=key, node_id=address.broker_id, host=address.host, port=address.port)


def _none(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )
