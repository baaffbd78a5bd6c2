"""DescribeCluster: the cluster's id, its controller and its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.authorized import NOT_ASKED, cluster_operations
from barnabas.broker.cluster_view import NOBODY
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.node import Node

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(call: Call) -> DescribeClusterResponse:
    """Answer for brokers; there are no controllers apart from them to ask for (KIP-919)."""
    request: DescribeClusterRequest = call.request
    kind = request.endpoint_type
    if kind == _CONTROLLERS:
        return refuse(
            request,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "This endpoint is a broker's; endpoint type 2 asks for a controller's.",
        )
    if kind != _BROKERS:
        return refuse(
            request,
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {kind}; there are 1 (brokers) and 2 (controllers).",
        )
    node = call.node
    fenced = _fenced(node) if request.include_fenced_brokers else NOBODY
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker_id, host=host, port=port, rack=rack, is_fenced=broker_id == fenced
            )
            for broker_id, host, port, rack in node.cluster.addresses(call.link)
        ],
        cluster_authorized_operations=cluster_operations(call) if asked else NOT_ASKED,
    )


def _fenced(node: Node) -> int:
    """Name this broker if it has no contact with ZooKeeper: it serves what it leads, and cannot be told anything new (KIP-1073)."""
    return NOBODY if node.is_lone or node.members.is_in_touch else node.broker_id


def refuse(
    _request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    """Refuse the request."""
    return DescribeClusterResponse(error_code=code, error_message=message)
