"""What a client may do to something, as a bit field for those who ask. Without access rules: everything.

One bit per operation, numbered as in Kafka's AclOperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.acl import CLUSTER_NAME, OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.call import Call

NOT_ASKED: Final = -0x80000000


def operations(call: Call, kind: ResourceType, name: str) -> int:
    """Tell what the sender of a request may do to one thing."""
    return sum(1 << one for one in OPERATIONS[kind] if call.allows(one, kind, name, quietly=True))


def cluster_operations(call: Call) -> int:
    """Tell what the sender of a request may do to the cluster; nothing, if it may not know about the cluster."""
    if not call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
