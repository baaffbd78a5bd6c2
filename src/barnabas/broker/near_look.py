"""What a consumer's fetch finds where it may be sent to a nearer replica (KIP-392).

Job: of the replicas in the consumer's rack that are in sync and have what it asks for, name the one that is furthest; the consumer
then asks there. A leader in the same rack serves by itself, and so does one without such a replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.fetch_look import Look, Reading
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.core.fetch_session import Wanted

#: The one selector that Kafka brings, by the end of its name.
RACK_AWARE: Final = "RackAwareReplicaSelector"


def is_rack_aware(node: Node) -> bool:
    """Tell whether consumers are sent to the replica that is nearest."""
    return not node.is_lone and str(node.config.get("replica.selector.class")).endswith(RACK_AWARE)


class NearLook(Look):
    """One look for a consumer that says where it is."""

    __slots__ = ("rack",)

    rack: str

    def _read(self, wanted: Wanted) -> Reading:
        replica = self._find(wanted)
        if isinstance(replica, ErrorCode) or not replica.state.is_leader:
            return super()._read(wanted)
        if replica.state.decide_read(wanted.current_leader_epoch, leader_only=True):
            return super()._read(wanted)  # answers with the error: such a reader is not redirected
        nearest = _find_nearest(self._node, replica, self.rack, wanted.fetch_offset)
        if nearest is None:
            return super()._read(wanted)
        log, state = replica.log, replica.state
        reading = Reading(
            wanted, 0, state.high_watermark, replica.last_stable_offset, log.log_start_offset
        )
        reading.preferred = nearest
        self.is_urgent = True
        return reading


def _find_nearest(node: Node, replica: Replica, rack: str, offset: int) -> int | None:
    if node.rack == rack:
        return None
    followers = replica.state.followers
    candidates = [
        (followers[broker_id].end_offset, -broker_id)
        for broker_id in replica.state.in_sync
        if broker_id in followers
        and (broker := node.cluster.brokers.get(broker_id)) is not None
        and broker.rack == rack
        and followers[broker_id].log_start_offset <= offset <= followers[broker_id].end_offset
    ]
    return -max(candidates)[1] if candidates else None
