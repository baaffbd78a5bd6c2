"""DeleteTopics: by name, or from version 6 by id; each topic on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import topic_deletion
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

_DISABLED_CODE_SINCE = 3
_NO_ID = bytes(16)


def handle(call: Call) -> Task[DeleteTopicsResponse]:
    """Delete what can be deleted, and say of the rest why not."""
    if not call.node.config.get_bool("delete.topic.enable"):
        newer = call.version >= _DISABLED_CODE_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if newer else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "Topic deletion is disabled: delete.topic.enable is false.")
    wanted = _wanted(call.request)
    topics = [_find(call.node, one) for one in wanted]
    results = []
    done: set[tuple[str | None, bytes]] = set()
    for one, topic in zip(wanted, topics, strict=True):
        key = (one.name, one.topic_id)
        if key in done:
            continue  # named twice: told once
        done.add(key)
        try:
            _check(one, topic, wanted, topics)
            assert not isinstance(topic, KafkaError)
            yield from topic_deletion.delete(call.node, topic)
        except KafkaError as refusal:
            results.append(_failed(one, refusal.code, refusal.message))
        else:
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
    return DeleteTopicsResponse(responses=results)


def refuse(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """Refuse every topic."""
    return DeleteTopicsResponse(
        responses=[_failed(one, code, message) for one in _wanted(request)]
    )


def _wanted(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return [DeleteTopicState(name=name) for name in request.topic_names] + request.topics


def _find(node: Node, wanted: DeleteTopicState) -> Topic | KafkaError:
    if wanted.name is None:
        if wanted.topic_id == _NO_ID:
            return KafkaError(
                ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
            )
        by_id = node.topics.by_id.get(wanted.topic_id)
        return by_id or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id.")
    if wanted.topic_id != _NO_ID:
        return KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    by_name = node.topics.by_name.get(wanted.name)
    return by_name or KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{wanted.name}'."
    )


def _check(
    one: DeleteTopicState,
    topic: Topic | KafkaError,
    wanted: list[DeleteTopicState],
    topics: list[Topic | KafkaError],
) -> None:
    if one.name is not None and one.topic_id != _NO_ID and isinstance(topic, KafkaError):
        raise topic
    same = [other for other in wanted if (other.name, other.topic_id) == (one.name, one.topic_id)]
    if len(same) > 1 and (one.name is not None or one.topic_id != _NO_ID):
        what = "id" if one.name is None else "name"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
    if isinstance(topic, KafkaError):
        raise topic
    if sum(other is topic for other in topics) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )


def _failed(
    wanted: DeleteTopicState, code: ErrorCode, message: str | None
) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name, topic_id=wanted.topic_id, error_code=code, error_message=message
    )
