"""The rules of one partition: who leads, who is in sync, and how far readers may see.

| role     | takes appends | high watermark follows                                                 |
|----------|---------------|------------------------------------------------------------------------|
| leader   | yes           | the smallest end offset of those in sync, or about to be               |
| follower | from its leader only | what its leader says, up to its own end                         |

A node that hosts the only replica is always its leader. Members of a cluster begin `undecided` and are told by the controller
(`become_leader`, `become_follower`). A leader whose session with the store is over, or may be, is `laid down`: it serves nobody
until it is told to lead, in its epoch or a later one, or to follow. Knows nothing of files, requests or other partitions; times are of the clock that never jumps.

Who is in sync is written in the coordination store before it counts: `plan_in_sync` says what it should be,
`on_in_sync_sent` that the write is under way, `on_in_sync_written` that it is there. While one is under way, who is in
either set counts for the high watermark: whichever of them becomes the truth, a leader elected from it has all that was
called committed. A write whose outcome is not known, or that met another's, stays under way until the store was read
again or the controller has spoken. So there is one change at a time.

Invariants: log_start_offset <= high_watermark <= log_end_offset; the high watermark never falls within a leader epoch, and on a
follower only by a truncation below it, which only an unclean election brings; leader and partition epoch never fall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.follower_progress import NEVER_MS, FollowerProgress
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
#: Kafka's default of replica.lag.time.max.ms.
LAG_MAX_MS: Final = 30_000


class PartitionState:
    """What one replica of a partition decides by.

    Callers keep `min_in_sync` (min.insync.replicas) and `lag_max_ms` (replica.lag.time.max.ms) at the settings in force.
    """

    __slots__ = (
        "_now_ms",
        "broker_id",
        "end_offset",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "in_sync",
        "is_laid_down",
        "is_leader",
        "lag_max_ms",
        "leader",
        "leader_epoch",
        "leading_since_epoch",
        "min_in_sync",
        "partition_epoch",
        "pending_in_sync",
        "replicas",
    )

    def __init__(
        self, broker_id: int, replicas: tuple[int, ...], leader_epoch: int, high_watermark: int
    ) -> None:
        """Start as leader with every replica in sync, all below the high watermark there, and no position known."""
        assert broker_id in replicas, "a partition is hosted by its replicas"
        self.broker_id = broker_id
        self.replicas = replicas
        self.in_sync = replicas
        #: What the store is being asked to hold; None while nothing is under way.
        self.pending_in_sync: tuple[int, ...] | None = None
        self.leader = broker_id
        self.is_leader = True
        #: It led until the session was over or in doubt. Another broker may lead by now: no order has said so yet.
        self.is_laid_down = False
        self.leader_epoch = self.leading_since_epoch = leader_epoch
        #: Version of what the store holds on this partition.
        self.partition_epoch = 0
        self.high_watermark = high_watermark
        #: Our own log's end, while we lead.
        self.end_offset = high_watermark
        #: Where our leader epoch begins: records below it are of others.
        self.epoch_start_offset = high_watermark
        self.followers = {one: FollowerProgress() for one in replicas if one != broker_id}
        self.min_in_sync = 1
        self.lag_max_ms = LAG_MAX_MS
        self._now_ms = NEVER_MS

    @classmethod
    def undecided(cls, broker_id: int, high_watermark: int) -> PartitionState:
        """Host a replica of which the controller has not said yet who leads it."""
        state = cls(broker_id, (broker_id,), NO_EPOCH, high_watermark)
        state.leader, state.is_leader, state.in_sync = NO_LEADER, False, ()
        state.partition_epoch = NO_EPOCH
        return state

    @property
    def is_undecided(self) -> bool:
        """Tell whether no order has given this replica a role yet."""
        return self.leader_epoch == NO_EPOCH

    @property
    def serves_nobody(self) -> bool:
        """Tell whether no reader is served, not even one that may read from followers.

        A log that a crash has cut would call offsets out of range that are not; one that is laid down may lack what others have by now.
        """
        return self.is_laid_down or self.leader_epoch == NO_EPOCH

    # What the controller says

    def become_leader(
        self,
        *,
        replicas: Sequence[int],
        in_sync: Sequence[int],
        leader_epoch: int,
        partition_epoch: int,
        log_end_offset: int,
        now_ms: int,
    ) -> bool:
        """Lead from here on, or go on leading in a new epoch; False, and nothing changed, if that is no news.

        The high watermark stays: that of the leader before was not lower, but nobody said so yet. Positions of followers are
        unknown until they fetch, unless they have been following this leader already. `on_end_offset` with our own end may
        move the high watermark now.
        """
        if not self._is_news(leader_epoch, partition_epoch):
            return False
        assert self.broker_id in in_sync, "who leads is in sync"
        assert log_end_offset >= self.high_watermark
        is_new_epoch = leader_epoch > self.leader_epoch
        is_new_role = not self.is_leader
        known = {} if is_new_role else self.followers
        if is_new_role:
            self.leading_since_epoch = leader_epoch
        self._take(self.broker_id, leader_epoch, partition_epoch, replicas, in_sync)
        self.end_offset, self._now_ms = log_end_offset, now_ms
        self.followers = {
            one: known.get(one) or FollowerProgress()
            for one in self.replicas
            if one != self.broker_id
        }
        if is_new_epoch:
            self.epoch_start_offset = log_end_offset
        if is_new_epoch or is_new_role:
            for broker_id, follower in self.followers.items():
                follower.on_epoch(log_end_offset, now_ms, in_sync=broker_id in self.in_sync)
        return True

    def become_follower(
        self,
        *,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        in_sync: Sequence[int],
    ) -> bool:
        """Follow `leader`, NO_LEADER if there is none; False, and nothing changed, if that is no news."""
        if not self._is_news(leader_epoch, partition_epoch):
            return False
        assert leader != self.broker_id
        self._take(leader, leader_epoch, partition_epoch, replicas, in_sync)
        self.followers = {}
        self.epoch_start_offset = 0
        return True

    def lay_down(self) -> None:
        """Stop leading: another broker may lead by now. An order with the same leadership gives it back; one with an older version does not."""
        assert self.is_leader
        self.is_leader, self.is_laid_down = False, True
        self.pending_in_sync = None
        self.followers = {}

    def _is_news(self, leader_epoch: int, partition_epoch: int) -> bool:
        if leader_epoch != self.leader_epoch:
            return leader_epoch > self.leader_epoch
        if partition_epoch != self.partition_epoch:
            return partition_epoch > self.partition_epoch
        return self.is_laid_down

    def _take(
        self,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        in_sync: Sequence[int],
    ) -> None:
        self.leader, self.is_leader = leader, leader == self.broker_id
        self.is_laid_down = False
        self.leader_epoch, self.partition_epoch = leader_epoch, partition_epoch
        self.replicas, self.in_sync = tuple(replicas), tuple(in_sync)
        self.pending_in_sync = None

    # What clients and followers may do

    def decide_append(self, acks: int, min_in_sync: int) -> ErrorCode:
        """Tell whether a write with these acks is taken now."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == -1 and len(self.in_sync) < min_in_sync and self.is_under(min_in_sync):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def decide_acknowledged(
        self, end_offset: int, leader_epoch: int, min_in_sync: int
    ) -> ErrorCode | None:
        """Tell whether a write that was appended in `leader_epoch` and ends before `end_offset` is committed; None if not yet.

        It is, and still an error, if fewer have it than must. A leader that was another's follower in between
        cannot tell: its record may have been cut off.
        """
        if not self.is_leader or leader_epoch < self.leading_since_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < end_offset:
            return None
        if self._count_maximal() < min(min_in_sync, len(self.replicas)):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
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

    def decide_read(self, client_epoch: int, *, leader_only: bool) -> ErrorCode:
        """Tell whether records or offsets may be read here, up to the high watermark; `leader_only` not from a follower (KIP-392).

        As in Kafka epochs are compared first: who has another idea of who leads learns that, whatever it asked.
        """
        if self.serves_nobody:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if client_epoch not in (-1, self.leader_epoch):
            return self.decide_epoch(client_epoch)
        return (
            ErrorCode.NOT_LEADER_OR_FOLLOWER
            if leader_only and not self.is_leader
            else ErrorCode.NONE
        )

    def decide_latest(self) -> ErrorCode:
        """Tell whether the high watermark may be told as the latest offset (KIP-207).

        A new leader's lags behind the one that clients saw from the leader before, until its followers have
        fetched; an offset that goes back would make them read again.
        """
        if self.high_watermark < self.epoch_start_offset:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return ErrorCode.NONE

    def decide_follower(self, broker_id: int, follower_epoch: int) -> ErrorCode:
        """Tell whether a broker may fetch as a follower: in this epoch and no other, or its position would be of another log."""
        code = self.decide_read(follower_epoch, leader_only=True)
        if code is ErrorCode.NONE and broker_id not in self.followers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code

    # Leading

    def on_end_offset(self, end_offset: int) -> bool:
        """Note where our own log ends, as its leader; True if that moved the high watermark."""
        self.end_offset = end_offset
        if self.followers:
            return self._advance()
        if end_offset <= self.high_watermark or not self.is_leader:
            return False
        self.high_watermark = end_offset
        return True

    def on_follower_fetch(
        self, broker_id: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> bool:
        """Note how far a follower has come, which `decide_follower` let in; True if that moved the high watermark.

        Its offset is within our log: one that has diverged, or is out of range, tells nothing.
        """
        self._now_ms = now_ms
        self.followers[broker_id].on_fetch(fetch_offset, log_start_offset, self.end_offset, now_ms)
        return self._advance()

    def low_watermark(self, log_start_offset: int, live: Container[int]) -> int:
        """Return the smallest log start of ours and all live followers', -1 while one has not said: for DeleteRecords."""
        followers = self.followers.items()
        starts = [one.log_start_offset for broker_id, one in followers if broker_id in live]
        return min([log_start_offset, *starts])

    def _advance(self) -> bool:
        """Move the high watermark to where everybody is who may have to lead with it.

        Not while fewer are in sync than must be, since Kafka 3.7 (KIP-966): what is called committed then could be on
        one replica alone.
        """
        if self.is_under(self.min_in_sync):
            return False
        committed = self.end_offset
        for broker_id, follower in self.followers.items():
            if follower.end_offset < committed and self._is_waited_for(broker_id, follower):
                committed = follower.end_offset
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def _is_waited_for(self, broker_id: int, follower: FollowerProgress) -> bool:
        """Tell whether the high watermark must not pass a follower.

        Also one that keeps up and is not in sync yet: if it ran ahead of such a one, under a steady load it never got in.
        """
        pending = self.pending_in_sync
        return (
            broker_id in self.in_sync
            or (pending is not None and broker_id in pending)
            or follower.is_caught_up(self.end_offset, self._now_ms, self.lag_max_ms)
        )

    def _count_maximal(self) -> int:
        """Count those who are in sync, or will be once the change under way is written."""
        joining = (one for one in self.pending_in_sync or () if one not in self.in_sync)
        return len(self.in_sync) + sum(1 for _ in joining)

    # Who is in sync

    def plan_in_sync(self, now_ms: int, live: Container[int]) -> tuple[int, ...] | None:
        """Return who should be in sync from now on, to be written to the store; None if nothing is to be done.

        `live` are the brokers that may come in. Ask after a fetch of one that is not in sync, and every half `lag_max_ms`.
        Stricter than Kafka: who has all that is committed and yet does not keep up stays out, as it would soon be out again.
        """
        self._now_ms = now_ms
        if not self.is_leader or self.pending_in_sync is not None:
            return None
        staying = [one for one in self.in_sync if self._keeps_up(one)]
        joining = [one for one in self.followers if one in live and self._may_join(one)]
        planned = (*staying, *joining)
        return None if planned == self.in_sync else planned

    def _keeps_up(self, broker_id: int) -> bool:
        if broker_id == self.broker_id:
            return True
        follower = self.followers.get(broker_id)
        return follower is not None and follower.is_caught_up(
            self.end_offset, self._now_ms, self.lag_max_ms
        )

    def _may_join(self, broker_id: int) -> bool:
        """Tell whether one who is not in sync keeps up, and has all that is committed, also what a leader before called so."""
        committed = max(self.high_watermark, self.epoch_start_offset)
        return (
            broker_id not in self.in_sync
            and self.followers[broker_id].end_offset >= committed
            and self._keeps_up(broker_id)
        )

    def on_in_sync_sent(self, in_sync: tuple[int, ...]) -> None:
        """Note that the store is being asked to hold this, if it is still at `partition_epoch`."""
        assert self.is_leader
        assert self.pending_in_sync is None, "one change at a time"
        self.pending_in_sync = in_sync

    def on_in_sync_written(self, in_sync: Sequence[int], partition_epoch: int) -> bool:
        """Note what the store holds for our leader epoch, by our write or by reading again; True if the high watermark moved.

        Nothing if we know of something newer.
        """
        if not self.is_leader or partition_epoch <= self.partition_epoch:
            return False
        self.in_sync, self.partition_epoch = tuple(in_sync), partition_epoch
        self.pending_in_sync = None
        return self._advance()

    def on_in_sync_unchanged(self) -> bool:
        """Note that the write did not come about and never will: the store was read, and is as before.

        True if the high watermark moved. A write that met another's version is no such case: what that one wrote counts.
        """
        self.pending_in_sync = None
        return self.is_leader and self._advance()

    # Following

    def on_leader_high_watermark(self, high_watermark: int, log_end_offset: int) -> bool:
        """Take over what the leader says, as far as our log goes; True if ours moved.

        Lower ones pass by: a new leader's may lag, but what was committed stays so.
        """
        assert not self.is_leader
        committed = min(high_watermark, log_end_offset)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def on_truncated(self, log_end_offset: int) -> None:
        """Note that our log was cut to follow a leader; below the high watermark only after an unclean election."""
        assert not self.is_leader
        self.high_watermark = min(self.high_watermark, log_end_offset)

    def on_log_start(self, log_start_offset: int) -> bool:
        """Note that records were deleted up to here, as the leader did; True if the high watermark moved."""
        if log_start_offset <= self.high_watermark:
            return False
        self.high_watermark = log_start_offset
        return True
