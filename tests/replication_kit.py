"""Replicas of one partition without files: records in a list, the rules of `core` between them.

A record is (leader epoch, serial number): unique, so that two logs agree where they hold equal records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.divergence import EpochEnd, find_divergence, plan_truncation
from barnabas.core.epochs import LeaderEpochs
from barnabas.core.partition import PartitionState

LAG_MS = 100


@dataclass
class Answer:
    """What a leader says to a fetch: records from `offset` on, or where the logs part."""

    leader_epoch: int
    offset: int
    records: list = field(default_factory=list)
    high_watermark: int = -1
    diverging: EpochEnd | None = None


class Member:
    """One replica."""

    def __init__(self, broker_id, min_in_sync=1):
        self.broker_id = broker_id
        self.records = []
        self.epochs = LeaderEpochs()
        self.min_in_sync = min_in_sync
        self.restart(0)

    def restart(self, high_watermark):
        """Come back with the log and an old high watermark, knowing no leader."""
        self.state = PartitionState.undecided(self.broker_id, high_watermark)
        self.state.min_in_sync = self.min_in_sync
        self.state.lag_max_ms = LAG_MS

    @property
    def end(self):
        return len(self.records)

    # As leader

    def lead(self, replicas, in_sync, leader_epoch, partition_epoch, now_ms=0):
        if self.state.become_leader(
            replicas=replicas, in_sync=in_sync, leader_epoch=leader_epoch,
            partition_epoch=partition_epoch, log_end_offset=self.end, now_ms=now_ms,
        ):  # fmt: skip
            self.epochs.assign(leader_epoch, self.end)
            self.state.on_end_offset(self.end)

    def write(self, serial):
        self.records.append((self.state.leader_epoch, serial))
        self.state.on_end_offset(self.end)

    def serve(self, broker_id, leader_epoch, last_epoch, offset, now_ms=0, limit=100):
        """Answer a follower's fetch; None if it is refused."""
        if self.state.decide_follower(broker_id, leader_epoch):
            return None
        diverging = find_divergence(self.epochs, self.end, last_epoch, offset)
        if diverging is not None:
            return Answer(leader_epoch, offset, diverging=diverging)
        assert offset <= self.end, "without unclean elections nobody is ahead and agrees"
        self.state.on_follower_fetch(broker_id, offset, 0, now_ms)
        records = self.records[offset : offset + limit]
        return Answer(leader_epoch, offset, records, self.state.high_watermark)

    # As follower

    def follow(self, leader, replicas, in_sync, leader_epoch, partition_epoch):
        self.state.become_follower(
            leader=leader, leader_epoch=leader_epoch, partition_epoch=partition_epoch,
            replicas=replicas, in_sync=in_sync,
        )  # fmt: skip

    def question(self):
        return self.broker_id, self.state.leader_epoch, self.epochs.latest, self.end

    def take(self, answer):
        """Do what the answer to a fetch asks for, unless something has changed since."""
        state = self.state
        if state.is_leader or (answer.leader_epoch, answer.offset) != (
            state.leader_epoch,
            self.end,
        ):
            return
        if answer.diverging is not None:
            self.cut(plan_truncation(self.epochs, self.end, answer.diverging))
            return
        for record in answer.records:
            self.epochs.assign(record[0], self.end)
            self.records.append(record)
        state.on_leader_high_watermark(answer.high_watermark, self.end)

    def cut(self, offset):
        del self.records[offset:]
        self.epochs.truncate_from_end(offset)
        self.state.on_truncated(offset)

    def fetch_from(self, leader, now_ms=0):
        answer = leader.serve(*self.question(), now_ms=now_ms)
        if answer is not None:
            self.take(answer)
