"""Replication held back, so that moving replicas does not take a network from clients (KIP-73).

Job: say whether a replica that catches up must wait, on the side that sends and on the side that pulls. Only replicas that are named in
`leader.replication.throttled.replicas` and `follower.replication.throttled.replicas`, only while they are not in sync, and only
above the broker's `*.replication.throttled.rate`. Delays, never an error: who waits asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.byte_rate import ByteRate
from barnabas.model.config.types import LONG_MAX

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
_ALL: Final = "*"


class ReplicationThrottle:
    """One side of it: what this broker sends as leader, or what it pulls as follower."""

    def __init__(self, node: Node, side: str) -> None:
        """Have counted nothing."""
        self._node = node
        self._rate_setting = f"{side}.replication.throttled.rate"
        self._side = side
        config = node.config
        self._rate = ByteRate(
            config.get_int("replication.quota.window.num"),
            config.get_int("replication.quota.window.size.seconds") * 1000,
        )

    @property
    def is_exceeded(self) -> bool:
        """Tell whether those that are concerned must wait now."""
        limit = self._node.config.get_int(self._rate_setting)
        if limit == LONG_MAX:
            return False
        return self._rate.per_second(self._node.world.clock.monotonic_ms()) >= limit

    def holds(self, replica: Replica, follower: int) -> bool:
        """Tell whether what `follower` lacks of a partition must wait now."""
        return self.is_exceeded and self.concerns(replica, follower)

    def count(self, replica: Replica, follower: int, size_bytes: int) -> None:
        """Count bytes that went, if they are of those that may be held."""
        limit = self._node.config.get_int(self._rate_setting)
        if limit != LONG_MAX and size_bytes and self.concerns(replica, follower):
            self._rate.add(size_bytes, self._node.world.clock.monotonic_ms())

    def concerns(self, replica: Replica, follower: int) -> bool:
        """Tell whether a replica is one of those that may be held: named, and not in sync."""
        return follower not in replica.state.in_sync and self._is_named(replica)

    def _is_named(self, replica: Replica) -> bool:
        """Tell whether this broker's replica is among `PARTITION:BROKER,...`, or all are."""
        config = replica.config
        named = (
            config.leader_replication_throttled_replicas
            if self._side == LEADER
            else config.follower_replication_throttled_replicas
        )
        return _ALL in named or f"{replica.key.partition}:{self._node.broker_id}" in named
