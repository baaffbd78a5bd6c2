"""DeleteAcls: take the access rules away that filters mean, and tell which those were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.broker.acl_wire import filter_of
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.model.acl import AclBinding


def handle(call: Call) -> Task[DeleteAclsResponse]:
    """Take them from the store; they are out of force when this is answered."""
    store = call.node.acl_store
    if store is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    filters = [
        filter_of(one, one.resource_type_filter, one.pattern_type_filter, call.version)
        for one in call.request.filters
    ]
    deleted = yield from store.delete(filters)
    results = []
    for met in deleted:
        for binding, problem in met.items():
            if problem is None:
                audit.changed(
                    call, "delete", "Acl", str(binding.resource), entry=str(binding.entry)
                )
        matching = [_matching(binding, problem) for binding, problem in met.items()]
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return DeleteAclsResponse(filter_results=results)


def _matching(binding: AclBinding, problem: KafkaError | None) -> DeleteAclsMatchingAcl:
    resource, entry = binding
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if problem is None else problem.code,
        error_message=None if problem is None else problem.message,
        resource_type=resource.kind,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def refuse(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    """Refuse every filter."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])
            for _ in request.filters
        ]
    )
