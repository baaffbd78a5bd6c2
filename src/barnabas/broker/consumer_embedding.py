"""The embedded consumer protocol as the consumer group machine wants it: for groups that change their protocol.

Job: plain values from and to the bytes in JoinGroup and SyncGroup. Must not know: groups.
Invariant: an assignment is written in a version that the member it is for has spoken itself.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from barnabas.broker.consumer_protocol import read_subscription
from barnabas.core.group.consumer.context import EmbeddedAssignment, EmbeddedSubscription
from barnabas.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VERSION: Final = struct.Struct(">h")


class ConsumerEmbedding:
    """Reads and writes what classic consumers say to each other."""

    def read_subscription(self, metadata: bytes) -> EmbeddedSubscription | None:
        """Read a member's metadata; None when it cannot be read."""
        read = read_subscription(metadata)
        if read is None:
            return None
        owned = {one.topic: tuple(one.partitions) for one in read.owned_partitions}
        return EmbeddedSubscription(tuple(read.topics), owned, read.rack_id)

    def read_assignment(self, assignment: bytes) -> EmbeddedAssignment | None:
        """Read a member's assignment; None when it cannot be read."""
        if len(assignment) < _VERSION.size:
            return None
        (version,) = _VERSION.unpack_from(assignment)
        if version < 0:
            return None
        known = min(version, ConsumerProtocolAssignment.MAX_VERSION)
        try:
            read = ConsumerProtocolAssignment.decode_prefix(assignment, known, _VERSION.size)
        except WireError:
            return None
        partitions = {one.topic: tuple(one.partitions) for one in read.assigned_partitions}
        return EmbeddedAssignment(partitions, has_user_data=bool(read.user_data))

    def write_assignment(self, partitions: Mapping[str, Sequence[int]], metadata: bytes) -> bytes:
        """Write an assignment in the version of that metadata."""
        (version,) = _VERSION.unpack_from(metadata)
        known = min(version, ConsumerProtocolAssignment.MAX_VERSION)
        message = ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=topic, partitions=list(numbers))
                for topic, numbers in partitions.items()
            ]
        )
        return b"".join([_VERSION.pack(known), *message.encode(known)])
