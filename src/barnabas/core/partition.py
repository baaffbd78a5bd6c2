"""The rules of one partition: who leads, who is in sync, and how far readers may see.

| role   | takes appends | high watermark follows                       |
|--------|---------------|----------------------------------------------|
| leader | yes           | the smallest end offset of the in-sync set   |

A node that hosts the only replica is always its leader; followers come with replication. Knows
nothing of files, requests or other partitions.

Invariants: log_start_offset <= high_watermark <= log_end_offset; the high watermark never falls
within a leader epoch.
"""

from __future__ import annotations

from barnabas.model.errors import ErrorCode


class PartitionState:
    """What the leader of one partition decides by."""

    __slots__ = (
        "broker_id",
        "end_offsets",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "replicas",
    )

    def __init__(
        self, broker_id: int, replicas: tuple[int, ...], leader_epoch: int, high_watermark: int
    ) -> None:
        """Start as leader with every replica in sync and no position known but our own."""
        assert broker_id in replicas, "a partition is hosted by its replicas"
        self.broker_id = broker_id
        self.replicas = replicas
        self.in_sync = replicas
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.end_offsets = dict.fromkeys(replicas, high_watermark)

    def decide_append(self, acks: int, min_in_sync: int) -> ErrorCode:
        """Tell whether a write with these acks is taken now."""
        if acks == -1 and len(self.in_sync) < min_in_sync and self.is_under(min_in_sync):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def is_under(self, min_in_sync: int) -> bool:
        """Tell whether fewer are in sync than must be. More than there are replicas cannot be, and as in Kafka need not be."""
        return len(self.in_sync) < min(min_in_sync, len(self.replicas))

    def is_at(self, min_in_sync: int) -> bool:
        """Tell whether just as many are in sync as must be."""
        return len(self.in_sync) == min(min_in_sync, len(self.replicas))

    def decide_epoch(self, client_epoch: int) -> ErrorCode:
        """Compare a client's idea of the leader epoch with ours; -1 means it has none (KIP-320)."""
        if client_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if client_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def on_end_offset(self, broker_id: int, end_offset: int) -> bool:
        """Note how far a replica's log goes; True if that moved the high watermark."""
        self.end_offsets[broker_id] = end_offset
        if len(self.in_sync) == 1:
            committed = self.end_offsets[self.in_sync[0]]
        else:
            committed = min(self.end_offsets[replica] for replica in self.in_sync)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True
