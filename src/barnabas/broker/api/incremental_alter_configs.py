"""IncrementalAlterConfigs: change some settings of a topic, broker or group and leave the others (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import config_changes
from barnabas.broker.config_changes import Plans
from barnabas.broker.pieces import Pieces
from barnabas.model.config.alter import ConfigChange, alter_broker, alter_topic
from barnabas.model.config.group_config import alter_group
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[Response]:
    """Change each resource on its own."""
    request: IncrementalAlterConfigsRequest = call.request
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
    return (yield from pieces.respond(lambda: IncrementalAlterConfigsResponse(responses=responses)))


def refuse(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """Refuse every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[_answer(resource, code, message) for resource in request.resources]
    )


def _plans(node: Node, resource: AlterConfigsResource) -> Plans:
    changes = [
        ConfigChange(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    return Plans(
        lambda overrides: alter_topic(node.config, overrides, changes),
        lambda config, cluster_wide: alter_broker(config, changes, cluster_wide=cluster_wide),
        lambda overrides: alter_group(node.config, overrides, changes),
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
