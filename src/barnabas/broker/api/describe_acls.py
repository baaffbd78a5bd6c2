"""DescribeAcls: the access rules that a filter means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.acl_wire import filter_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.model.acl import ResourcePattern


def handle(call: Call) -> DescribeAclsResponse:
    """List the rules by resource."""
    store = call.node.acl_store
    if store is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    request: DescribeAclsRequest = call.request
    wanted = filter_of(
        request, request.resource_type_filter, request.pattern_type_filter, call.version
    )
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for resource, entry in store.acls.find(wanted):
        told = resources.get(resource)
        if told is None:
            told = resources[resource] = DescribeAclsResource(
                resource_type=resource.kind,
                resource_name=resource.name,
                pattern_type=resource.pattern,
                acls=[],
            )
        told.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def refuse(
    _request: DescribeAclsRequest, code: ErrorCode, message: str | None
) -> DescribeAclsResponse:
    """Refuse the request."""
    return DescribeAclsResponse(error_code=code, error_message=message)
