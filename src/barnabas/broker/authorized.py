"""What a client may do, as bit fields for those who ask. Without access control: everything.

One bit per operation, numbered as in Kafka's AclOperation.
"""

from typing import Final

NOT_ASKED: Final = -0x80000000

_CREATE, _DELETE, _ALTER, _DESCRIBE = 5, 6, 7, 8
_READ, _WRITE = 3, 4
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

TOPIC_OPERATIONS: Final = sum(
    1 << bit
    for bit in (
        _READ,
        _WRITE,
        _CREATE,
        _DELETE,
        _ALTER,
        _DESCRIBE,
        _DESCRIBE_CONFIGS,
        _ALTER_CONFIGS,
    )
)
CLUSTER_OPERATIONS: Final = sum(
    1 << bit
    for bit in (
        _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE,
    )
)  # fmt: skip
GROUP_OPERATIONS: Final = sum(
    1 << bit for bit in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)
