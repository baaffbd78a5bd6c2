"""AlterConfigs: replace all settings of a topic or a group, or all dynamic ones of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import config_changes
from barnabas.broker.config_changes import Plans
from barnabas.broker.pieces import Pieces
from barnabas.model.config.alter import replace_broker, replace_topic
from barnabas.model.config.group_config import replace_group
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[Response]:
    """Change each resource on its own."""
    request: AlterConfigsRequest = call.request
    twice = config_changes.duplicates(
        [(resource.resource_type, resource.resource_name) for resource in request.resources]
    )
    pieces = Pieces(call, finishes=True)
    responses = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        try:
            config_changes.check_once(kind, name, twice)
            plans = _plans(call.node, resource)
            yield from config_changes.change(
                call.node, kind, name, plans, validate_only=request.validate_only
            )
        except KafkaError as refusal:
            responses.append(_answer(resource, refusal.code, refusal.message))
        else:
            if not request.validate_only:
                config_changes.tell(call, kind, name, [one.name for one in resource.configs])
            responses.append(_answer(resource, ErrorCode.NONE, None))
        pieces.count(1 + len(resource.configs))
        if pieces.is_full:
            yield pieces.pause
    return (yield from pieces.respond(lambda: AlterConfigsResponse(responses=responses)))


def refuse(
    request: AlterConfigsRequest, code: ErrorCode, message: str | None
) -> AlterConfigsResponse:
    """Refuse every resource."""
    return AlterConfigsResponse(
        responses=[_answer(resource, code, message) for resource in request.resources]
    )


def _plans(node: Node, resource: AlterConfigsResource) -> Plans:
    texts = [(config.name, config.value) for config in resource.configs]
    return Plans(
        lambda _overrides: replace_topic(node.config, texts),
        lambda config, cluster_wide: replace_broker(config, texts, cluster_wide=cluster_wide),
        lambda _overrides: replace_group(node.config, texts),
    )


def _answer(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
