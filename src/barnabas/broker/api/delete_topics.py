"""DeleteTopics: by name, or from version 6 by id; each topic on its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from barnabas.broker import audit, topic_deletion
from barnabas.broker.pieces import Pieces, slices
from barnabas.broker.tasks import side_by_side
from barnabas.model.cluster import Topic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task

#: How a request says which topic: one of the two.
Key = tuple[str | None, bytes]

_DISABLED_CODE_SINCE = 3
#: From this version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_QUOTA_SINCE: Final = 5
_NO_ID = bytes(16)


def handle(call: Call) -> Task[Response]:
    """Delete what can be deleted, and say of the rest why not."""
    if not call.node.config.get_bool("delete.topic.enable"):
        newer = call.version >= _DISABLED_CODE_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if newer else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "Topic deletion is disabled: delete.topic.enable is false.")
    call.node.check_controller()
    deadline_ms = call.deadline_ms
    pieces = Pieces(call, finishes=True)
    results: list[DeletableTopicResult] = []
    for some in slices(list(_decide(call.node, _keys(call.request)).items())):
        if results:
            yield pieces.pause
        tasks = [_delete(call, key, topic, deadline_ms) for key, topic in some]
        results.extend((yield side_by_side(tasks)))
    return (yield from pieces.respond(lambda: DeleteTopicsResponse(responses=results)))


def _delete(
    call: Call, key: Key, topic: Topic | KafkaError, deadline_ms: int
) -> Task[DeletableTopicResult]:
    try:
        if isinstance(topic, KafkaError):
            raise topic
        call.take_permits(len(topic.partitions), _STRICT_QUOTA_SINCE)
        yield from topic_deletion.delete(call.node, topic, deadline_ms)
    except KafkaError as refusal:
        return _failed(key, refusal.code, refusal.message)
    audit.changed(call, "delete", "Topic", topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def refuse(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """Refuse every topic."""
    return DeleteTopicsResponse(responses=[_failed(key, code, message) for key in _keys(request)])


def _keys(request: DeleteTopicsRequest) -> list[Key]:
    names: list[Key] = [(name, _NO_ID) for name in request.topic_names]
    return names + [(state.name, state.topic_id) for state in request.topics]


def _decide(node: Node, keys: list[Key]) -> dict[Key, Topic | KafkaError]:
    """Find the topic of each key, or the reason why it is not deleted. A key given twice is refused once."""
    times_given = Counter(keys)
    found = {key: _find(node, *key) for key in times_given}
    times_meant = Counter(topic.id for topic in found.values() if isinstance(topic, Topic))
    for key, topic in found.items():
        if isinstance(topic, KafkaError) and topic.code == ErrorCode.INVALID_REQUEST:
            continue
        if times_given[key] > 1:
            what = "id" if key[0] is None else "name"
            found[key] = KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        elif isinstance(topic, Topic) and times_meant[topic.id] > 1:
            found[key] = KafkaError(
                ErrorCode.INVALID_REQUEST,
                "The provided topic name maps to an ID that was already supplied.",
            )
    return found


def _find(node: Node, name: str | None, topic_id: bytes) -> Topic | KafkaError:
    if name is None and topic_id == _NO_ID:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is None:
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id.")
        return node.topics.by_id.get(topic_id, unknown)
    if topic_id != _NO_ID:
        return KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    return node.topics.by_name.get(name, unknown)


def _failed(key: Key, code: ErrorCode, message: str | None) -> DeletableTopicResult:
    name, topic_id = key
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=message
    )
