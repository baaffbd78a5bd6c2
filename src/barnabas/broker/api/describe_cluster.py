"""DescribeCluster: the cluster's id, its controller and its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.authorized import NOT_ASKED, cluster_operations
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call

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
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker_id, host=host, port=port, rack=rack)
            for broker_id, host, port, rack in node.cluster.addresses(call.link)
        ],
        cluster_authorized_operations=cluster_operations(call) if asked else NOT_ASKED,
    )


def refuse(
    _request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    """Refuse the request."""
    return DescribeClusterResponse(error_code=code, error_message=message)
