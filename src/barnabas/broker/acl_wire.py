"""Access rules and filters as the three ACL requests carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.acl import AclFilter, Operation, PatternType, Permission, ResourceType, Word
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.wire.messages.delete_acls import DeleteAclsFilter
    from barnabas.wire.messages.describe_acls import DescribeAclsRequest

#: Versions before this one know no patterns, and mean names.
_PATTERNS_SINCE: Final = 1


def word(words: type[Word], number: int) -> Word:
    """Read a word's number; one that is not known is UNKNOWN."""
    try:
        return words(number)
    except ValueError:
        return words(0)


def filter_of(
    asked: DescribeAclsRequest | DeleteAclsFilter, kind: int, pattern: int, version: int
) -> AclFilter:
    """Read a filter; KafkaError if it has words in it that are not known."""
    wanted = AclFilter(
        word(ResourceType, kind),
        asked.resource_name_filter,
        word(PatternType, pattern) if version >= _PATTERNS_SINCE else PatternType.LITERAL,
        asked.principal_filter,
        asked.host_filter,
        word(Operation, asked.operation),
        word(Permission, asked.permission_type),
    )
    if 0 in (wanted.kind, wanted.pattern, wanted.operation, wanted.permission):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the filter has unknown elements: {wanted}")
    return wanted
