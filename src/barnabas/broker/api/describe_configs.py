"""DescribeConfigs: the settings of topics, groups and of this broker, where each value comes from, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.config_changes import (
    ResourceType,
    check_broker_name,
    find_topic,
    unsupported_resource,
)
from barnabas.broker.pieces import Pieces
from barnabas.model.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_dynamic_default,
    describe_topic,
)
from barnabas.model.config.group_config import describe_group
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task

_KNOWN: Final = frozenset(ResourceType)


def handle(call: Call) -> Task[Response]:
    """Describe each resource; one that is refused does not keep the others from being told."""
    request: DescribeConfigsRequest = call.request
    for resource in request.resources:
        if resource.resource_type not in _KNOWN:
            raise unsupported_resource(resource.resource_type)
    pieces = Pieces(call)
    results = []
    for resource in request.resources:
        described = _describe(call.node, request, resource)
        results.append(described)
        pieces.count(1 + len(described.configs))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: DescribeConfigsResponse(results=results)))


def refuse(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    """Refuse every resource."""
    return DescribeConfigsResponse(
        results=[_failed(resource, code, message) for resource in request.resources]
    )


def _describe(
    node: Node, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        entries = _entries(node, resource)
    except KafkaError as refusal:
        return _failed(resource, refusal.code, refusal.message)
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_told(request, entry) for entry in entries],
    )


def _entries(node: Node, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    name = resource.resource_name
    keys = None if resource.configuration_keys is None else set(resource.configuration_keys)
    if resource.resource_type == ResourceType.TOPIC:
        return describe_topic(node.config, find_topic(node, name).overrides, keys)
    if resource.resource_type == ResourceType.BROKER:
        check_broker_name(node, name)
        return (
            describe_broker(node.config, keys)
            if name
            else describe_dynamic_default(node.config, keys)
        )
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A group needs an id.")
        own = node.coordinators.group_settings.texts(name)
        return describe_group(node.config, own or {}, keys)
    kind = ResourceType(resource.resource_type).name.lower().replace("_", " ")
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"A {kind} has no settings here; describe topics (2), brokers (4) or groups (32).",
    )


def _told(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _failed(
    resource: DescribeConfigsResource, code: ErrorCode, message: str | None
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
