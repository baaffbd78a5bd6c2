"""The bytes that consumers put into the classic protocol: subscriptions and assignments.

The broker is not a party to this protocol (it is embedded, from client to client) but needs to know which topics are
read, to keep their offsets, and speaks it for classic members of a consumer group. Must not know: groups.

Invariants: bytes that are none of this protocol give None, whatever they are, and cost no more than their length.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.core.group.consumer_context import EmbeddedAssignment, EmbeddedSubscription
from barnabas.wire.messages import consumer_protocol_assignment as assignments
from barnabas.wire.messages import consumer_protocol_subscription as subscriptions
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.wire.primitives import Message

    M = TypeVar("M", bound=Message)

_VERSION: Final = struct.Struct(">h")


def read_topics(metadata: bytes) -> tuple[str, ...] | None:
    """Read the topics of a subscription."""
    found = _read(subscriptions.ConsumerProtocolSubscription, metadata)
    return None if found is None else tuple(found.topics)


class ConsumerProtocol:
    """Reads and writes for `core.group`."""

    def read_subscription(self, metadata: bytes) -> EmbeddedSubscription | None:
        """Read what a member says in JoinGroup."""
        found = _read(subscriptions.ConsumerProtocolSubscription, metadata)
        if found is None:
            return None
        owned = {one.topic: tuple(one.partitions) for one in found.owned_partitions}
        return EmbeddedSubscription(tuple(found.topics), owned, found.rack_id)

    def read_assignment(self, assignment: bytes) -> EmbeddedAssignment | None:
        """Read what a leader gave a member in SyncGroup."""
        found = _read(assignments.ConsumerProtocolAssignment, assignment)
        if found is None:
            return None
        given = {one.topic: tuple(one.partitions) for one in found.assigned_partitions}
        return EmbeddedAssignment(given, bool(found.user_data))

    def write_assignment(self, partitions: Mapping[str, Sequence[int]], metadata: bytes) -> bytes:
        """Write an assignment in the version of that subscription."""
        known = assignments.ConsumerProtocolAssignment.MAX_VERSION
        version = min(max(_version(metadata), 0), known)
        message = assignments.ConsumerProtocolAssignment(
            assigned_partitions=[
                assignments.TopicPartition(topic=topic, partitions=list(indexes))
                for topic, indexes in partitions.items()
            ],
            user_data=None,
        )
        return b"".join((_VERSION.pack(version), *message.encode(version)))


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        return -1
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _read(message: type[M], data: bytes) -> M | None:
    """Read bytes of any version: a newer one starts as the newest known one does."""
    version = _version(data)
    if version < 0:
        return None
    try:
        return message.decode_prefix(data, min(version, message.MAX_VERSION), _VERSION.size)
    except WireError:
        return None
