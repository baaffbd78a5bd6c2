"""OffsetDelete: forget where a group stands in topics that none of its members reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.core.group.offset_requests import DeleteReply, DeleteRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call

_Codes = list[tuple[str, list[tuple[int, ErrorCode]]]]


def handle(call: Call) -> Any:  # noqa: ANN401
    """Delete what can be; partitions that are not there are refused one by one."""
    asked: OffsetDeleteRequest = call.request
    known = call.node.topics.by_name
    topics: list[tuple[str, list[int]]] = []
    refused: _Codes = []
    for one in asked.topics:
        indexes = [partition.partition_index for partition in one.partitions]
        topic = known.get(one.name)
        count = 0 if topic is None else len(topic.partitions)
        missing = [index for index in indexes if not 0 <= index < count]
        if missing:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append((one.name, [(index, code) for index in missing]))
        if len(missing) < len(indexes):
            topics.append((one.name, [index for index in indexes if 0 <= index < count]))
    if not topics:
        return _response(refused)
    if not asked.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
    request = DeleteRequest(asked.group_id, topics)

    def respond(_call: Call, reply: DeleteReply) -> OffsetDeleteResponse:
        if reply.error_code:
            return OffsetDeleteResponse(error_code=reply.error_code)
        return _response(refused + reply.topics)

    return call.node.coordinators.ask(
        call,
        asked.group_id,
        lambda shard, ticket, _now_ms, _wall_ms: shard.delete_offsets(ticket, request),
        respond,
    )


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
