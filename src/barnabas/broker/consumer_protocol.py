"""The bytes that consumers put into the classic protocol: which topics a member reads.

The broker is not a party to this protocol (it is embedded, from client to client) but needs to know what is subscribed, to
keep its offsets. Must not know: groups.
"""

from __future__ import annotations

import struct
from typing import Final

from barnabas.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.wire.primitives import WireError

_VERSION: Final = struct.Struct(">h")


def read_topics(metadata: bytes) -> tuple[str, ...] | None:
    """Read the topics of a subscription; None if these are no bytes of the consumer protocol."""
    subscription = read_subscription(metadata)
    return None if subscription is None else tuple(subscription.topics)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """Read a subscription of any version: a newer one starts as the newest known one does."""
    if len(metadata) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(metadata)
    if version < 0:
        return None
    known = min(version, ConsumerProtocolSubscription.MAX_VERSION)
    try:
        return ConsumerProtocolSubscription.decode_prefix(metadata, known, _VERSION.size)
    except WireError:
        return None
