"""OffsetDelete: forget where a group stands in topics that none of its members reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.broker.pieces import Pieces, slices
from barnabas.core.group.offset_requests import DeleteReply, DeleteRequest
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task

#: Partitions of a topic.
_Indexes = list[tuple[str, list[int]]]
_Codes = list[tuple[str, list[tuple[int, ErrorCode]]]]


def handle(call: Call) -> Task[Response]:
    """Delete what can be; partitions that are not there are refused one by one. Of very many some go at a time."""
    pieces = Pieces(call, finishes=True)
    refused: _Codes = []
    deleted: _Codes = []
    known: _Indexes = []
    for one in call.request.topics:
        for some in slices(one.partitions):
            _look_up(call, one.name, [p.partition_index for p in some], known, refused)
            pieces.count(1 + len(some))
            if pieces.is_full:
                deleted += yield from _delete(call, known)
                known = []
                yield pieces.pause
    deleted += yield from _delete(call, known)
    return (yield from pieces.respond(lambda: _response(refused + deleted)))


def _look_up(call: Call, name: str, indexes: list[int], known: _Indexes, refused: _Codes) -> None:
    if not call.allows(Operation.READ, ResourceType.TOPIC, name):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused.append((name, [(index, denied) for index in indexes]))
        return
    topic = call.node.topics.by_name.get(name)
    count = 0 if topic is None else len(topic.partitions)
    missing = [index for index in indexes if not 0 <= index < count]
    if missing:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused.append((name, [(index, code) for index in missing]))
    if len(missing) < len(indexes):
        known.append((name, [index for index in indexes if 0 <= index < count]))


def _delete(call: Call, known: _Indexes) -> Task[_Codes]:
    """Have the group forget these; KafkaError if it is not to forget anything."""
    group_id = call.request.group_id
    if not known:
        return []
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    request = DeleteRequest(group_id, known)
    coordinators = call.node.coordinators
    reply: DeleteReply = yield coordinators.asking(
        coordinators.find(group_id),
        lambda shard, ticket, _now_ms, _wall_ms: shard.delete_offsets(ticket, request),
    )
    if reply.error_code:
        raise KafkaError(reply.error_code, "")
    for name, codes in reply.topics:
        partitions = [index for index, code in codes if not code]
        audit.changed(call, "delete-offsets", "Group", group_id, topic=name, partitions=partitions)
    return reply.topics


def _response(codes: _Codes) -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for name, partitions in codes:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetDeleteResponseTopic(name=name, partitions=[])
        topic.partitions += [
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ]
    return OffsetDeleteResponse(topics=list(topics.values()))


def refuse(
    _request: OffsetDeleteRequest, code: ErrorCode, _message: str | None
) -> OffsetDeleteResponse:
    """Refuse the request as a whole."""
    return OffsetDeleteResponse(error_code=code)
