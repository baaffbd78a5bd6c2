"""CreateAcls: add access rules; one that is refused does not keep the others from being made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.broker.acl_wire import word
from barnabas.model.acl import (
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> Task[CreateAclsResponse]:
    """Write them to the store; they are in force when this is answered."""
    store = call.node.acl_store
    if store is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    bindings = [_binding(asked) for asked in call.request.creations]
    problems = yield from store.create(bindings)
    results = []
    for (resource, entry), problem in zip(bindings, problems, strict=True):
        if problem is None:
            audit.changed(call, "create", "Acl", str(resource), entry=str(entry))
            results.append(AclCreationResult(error_message=None))
        else:
            results.append(_failed(problem.code, problem.message))
    return CreateAclsResponse(results=results)


def _binding(asked: AclCreation) -> AclBinding:
    resource = ResourcePattern(
        word(ResourceType, asked.resource_type),
        asked.resource_name,
        word(PatternType, asked.resource_pattern_type),
    )
    entry = AclEntry(
        asked.principal,
        asked.host,
        word(Operation, asked.operation),
        word(Permission, asked.permission_type),
    )
    return AclBinding(resource, entry)


def refuse(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    """Refuse every rule."""
    return CreateAclsResponse(results=[_failed(code, message) for _ in request.creations])


def _failed(code: ErrorCode, message: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=message)
