"""The partitions that this broker hosts: each a log with the rules of its partition.

Joins `storage.log` (bytes) with `core.partition` (rules) and tells those who wait for bytes. Decides
nothing about requests. A replica whose disk failed stays in the table and answers KAFKA_STORAGE_ERROR; with it, all
others of its directory.

Invariants: what was staged for a replica is written before its role, epoch, settings, hosting or log end (other than by an append) change:
those change in `lead`, `follow`, `lay_down`, `leave`, `lose`, `configure`, `cut`, `start_over` and `finish_cut`, and nowhere else. A change of
role, epoch or hosting ends the tenure (see `tenure.py`).
"""

from __future__ import annotations

import logging
from errno import EIO
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.broker.commitment import Commitment
from barnabas.broker.disk_failures import PassingErrors, is_of_directory, is_passing
from barnabas.broker.edge import call_all
from barnabas.broker.metrics import TopicMetrics
from barnabas.broker.tenure import Tenure
from barnabas.core.epochs import EpochEntry, LeaderEpochs
from barnabas.core.waiting import Waiting
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.storage.segment import DamagedBatch
from barnabas.wire.batch import LOG_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from barnabas.broker.metrics import Metrics
    from barnabas.broker.repeats import Staging
    from barnabas.broker.tasks import Done
    from barnabas.core.changes import Onlooker
    from barnabas.core.partition import PartitionState
    from barnabas.model.cluster import Topic
    from barnabas.model.config.log_config import LogConfig
    from barnabas.ports import Background, Clock, World
    from barnabas.storage.directory import LogDirectory
    from barnabas.storage.drop import DropJob
    from barnabas.storage.log import Log
    from barnabas.storage.truncation import StartOverJob, TruncationJob
    from barnabas.wire.batch import BatchError, BatchHeader
    from barnabas.wire.compression import CompressionError
    from barnabas.wire.control_batch import EndMarker

    #: Told of a replica and the base offset of a segment in it.
    OnDamage = Callable[["Replica", int], None]
    #: Told of a replica that an error of its disk takes offline.
    OnFailure = Callable[["Replica", OSError], None]
    #: A topic's own settings in, those in force out.
    Resolve = Callable[[Mapping[str, str]], LogConfig]
    #: Told of replicas that are offline from now on.
    OnLost = Callable[[list["Replica"]], None]

log = logging.getLogger(__name__)


def stable_key(topic: str, index: int) -> tuple[str, int, str]:
    """Name what readers of committed records wait for."""
    return topic, index, "stable"


def commit_key(onlooker: Onlooker) -> tuple[Onlooker, str]:
    """Name what a follower waits for that is to learn at once what is committed."""
    return onlooker, "committed"


class Replica:
    """One hosted partition."""

    __slots__ = (
        "_background", "_clock", "_cutting", "_flush_running", "_flush_waiters", "_on_damage", "_on_failure", "_passing_errors", "_stable_key", "_staging",
        "_told_stable_offset", "_undecided_bytes", "_waiting", "commitment", "config", "directory", "key", "log", "metrics", "offline", "state",
        "tenure", "topic",
    )  # fmt: skip

    def __init__(
        self, topic: Topic, index: int, log_: Log, state: PartitionState, directory: LogDirectory
    ) -> None:
        """Host a partition whose log is open."""
        self.topic = topic
        self.key = TopicPartition(topic.name, index)
        self.log = log_
        self.state = state
        self.directory = directory
        self.config: LogConfig = log_.config
        self.offline = False
        self._flush_running = False
        self._flush_waiters: list[Done] = []
        self._waiting: Waiting[Any] | None = None
        self._background: Background | None = None
        self._clock: Clock | None = None
        self._on_failure: OnFailure | None = None
        self._on_damage: OnDamage | None = None
        self._passing_errors: PassingErrors | None = None
        self._staging: Staging | None = None
        #: Over as soon as role, epoch or hosting change; then there is another one.
        self.tenure = Tenure(topic.id, state.leader_epoch, is_leader=state.is_leader)
        self.metrics = TopicMetrics()
        self._stable_key = stable_key(*self.key)
        self._cutting = False
        #: What waits for the high watermark.
        self.commitment = Commitment()
        self._told_stable_offset = self.last_stable_offset
        #: Bytes that came since everything was decided: at most so many become readable by a marker.
        self._undecided_bytes = 0

    def attach(  # noqa: PLR0913  (what the node is to it, each by its name)
        self,
        waiting: Waiting[Any],
        staging: Staging,
        world: World,
        metrics: TopicMetrics,
        on_failure: OnFailure,
        on_damage: OnDamage,
        passing_errors: PassingErrors,
    ) -> None:
        """Join the node: whom to tell of new bytes, where requests are staged and fsync runs, what counts, whom to tell of a disk's errors."""
        self._staging = staging
        self._on_failure = on_failure
        self._on_damage = on_damage
        self._passing_errors = passing_errors
        self._waiting = waiting
        self._background = world.background
        self._clock = world.clock
        self.metrics = metrics

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The history of leader epochs with ours in it, also while no record was written in it yet."""
        epochs, epoch = self.log.epochs, self.state.leader_epoch
        if epochs.latest == epoch:
            return epochs
        return LeaderEpochs([*epochs.entries, EpochEntry(epoch, self.log.log_end_offset)])

    # Changes of role, hosting, settings and end

    def lead(
        self,
        *,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        in_sync: Sequence[int],
        now_ms: int,
    ) -> bool:
        """Lead from here on, or go on leading in a new epoch; False if that is no news, or the log was lost.

        OSError, and nothing changed, if the epoch cannot be written down.
        """
        self._write_staged()
        if self.offline:
            return False
        state, log_ = self.state, self.log
        if leader_epoch > state.leader_epoch:
            log_.assign_epoch(leader_epoch)
        is_news = state.become_leader(
            replicas=replicas, in_sync=in_sync, leader_epoch=leader_epoch,
            partition_epoch=partition_epoch, log_end_offset=log_.log_end_offset, now_ms=now_ms,
        )  # fmt: skip
        if is_news:
            self._on_new_role()
        return is_news

    def follow(
        self,
        *,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        in_sync: Sequence[int],
    ) -> bool:
        """Follow `leader`, NO_LEADER if there is none; False if that is no news."""
        self._write_staged()
        is_news = self.state.become_follower(
            leader=leader, leader_epoch=leader_epoch, partition_epoch=partition_epoch,
            replicas=replicas, in_sync=in_sync,
        )  # fmt: skip
        if is_news:
            self._on_new_role()
        return is_news

    def lay_down(self) -> None:
        """Lead no longer, as others may: the session with the store is over, or may be."""
        self._write_staged()
        self.state.lay_down()
        self._on_new_role()

    def leave(self) -> None:
        """Be hosted no more: whoever still holds it finds nothing to write to, and who waits for the high watermark hears of it. The caller closes its lanes."""
        self._write_staged()
        self.offline = True
        self._renew_tenure()
        self.commitment.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.wake_readers()

    def lose(self) -> None:
        """Serve nobody any more, until the next start: those who wait hear of it, and what is staged is refused when it is to be written."""
        self.offline = True
        self._renew_tenure()
        self.commitment.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
        self.wake_readers()

    def configure(self, config: LogConfig) -> None:
        """Put settings in force."""
        self._write_staged()
        self.config = config
        self.state.min_in_sync = config.min_insync_replicas
        self.log.configure(config)

    @property
    def is_cutting(self) -> bool:
        """Tell whether its log is being cut, or about to be: nothing is appended, flushed or dropped, and its role waits for the end."""
        return self._cutting

    def begin_cut(self) -> None:
        """Be about to be cut. The caller holds the log's claim, nothing else works on its files, and `end_cut` follows."""
        assert not self._cutting, "one cut at a time: it has the claim"
        self._cutting = True

    def end_cut(self) -> None:
        """Go on, whatever became of the cut: who waits for a flush has waited for this."""
        assert self._cutting
        self._cutting = False
        if self._flush_waiters and not self._flush_running:
            self._start_flush()

    def cut(self, offset: int, now_ms: int) -> TruncationJob | None:
        """Let the log end at or before `offset`, as a follower's; see `Log.plan_truncation`."""
        assert self._cutting
        self._write_staged()
        job = self.log.plan_truncation(offset, now_ms)
        self._on_cut()
        return job

    def start_over(self, offset: int, now_ms: int) -> StartOverJob:
        """Drop everything, as a follower, and begin at `offset`; see `Log.plan_start_over`."""
        assert self._cutting
        self._write_staged()
        return self.log.plan_start_over(offset, now_ms)

    def finish_cut(self, job: TruncationJob) -> list[str]:
        """Take appends again once the files have followed; return those put aside. An error breaks the log, and is raised."""
        self._write_staged()
        paths = self.log.on_truncated(job)
        self.state.on_log_start(self.log.log_start_offset)
        self._on_cut()
        return paths

    def plan_drop(self) -> DropJob | None:
        """Take segments before the log's start out of it, see `Log.plan_drop`; None while it is being cut: they go the next time."""
        return None if self._cutting else self.log.plan_drop()

    def _write_staged(self) -> None:
        """Write what was judged by what is about to change."""
        if self._staging is not None:
            self._staging.write()

    def _on_new_role(self) -> None:
        """Close the lanes, whose answers may be others from now on; end the tenure unless only the in-sync set is new."""
        state, tenure = self.state, self.tenure
        if (state.leader_epoch, state.is_leader) != (tenure.leader_epoch, tenure.is_leader):
            self._renew_tenure()
        if self._staging is not None:
            self._staging.close_lanes([self])

    def _renew_tenure(self) -> None:
        """End the tenure and begin another; one of a replica that serves nobody is over from the start."""
        state = self.state
        self.tenure.is_over = True
        self.tenure = Tenure(
            self.topic.id, state.leader_epoch, is_leader=state.is_leader, is_over=self.offline
        )

    def _on_cut(self) -> None:
        """Let the rules know where the log ends now."""
        end_offset = self.log.log_end_offset
        self.commitment.on_truncated(end_offset)
        self.state.on_truncated(end_offset)
        self._told_stable_offset = self.last_stable_offset
        self._undecided_bytes = 0
        self.wake_readers()

    # Appending

    def append(self, batch: memoryview, header: BatchHeader, now_ms: int) -> int | None:
        """Append a checked batch as leader; its base offset, None if the disk failed."""
        log_, state = self.log, self.state
        try:
            base_offset, _last, flush_due = log_.append(batch, header, state.leader_epoch, now_ms)
        except OSError as problem:
            self.on_disk_error(problem, "append")
            return None
        self._on_appended(header.batch_length + LOG_OVERHEAD)
        if flush_due:
            self.flush_in_background()
        return base_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset that readers of committed records must not see: never one that was deleted."""
        log_ = self.log
        first_unstable = log_.producers.transactions.first_unstable(self.state.high_watermark)
        return max(first_unstable, log_.log_start_offset)

    def append_marker(
        self, marker: EndMarker, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> ErrorCode:
        """End a producer's transaction on this partition; a marker that comes too late is refused."""
        log_, state = self.log, self.state
        code = log_.producers.check_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, transaction_version
        )
        if code:
            return code
        assert self._clock is not None
        size_before = log_.size_bytes
        try:
            _base, _last, flush_due = log_.append_marker(
                marker, producer_id, producer_epoch, state.leader_epoch, self._clock.now_ms()
            )
        except OSError as problem:
            self.on_disk_error(problem, "append")
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._on_appended(log_.size_bytes - size_before)
        if flush_due:
            self.flush_in_background()
        return ErrorCode.NONE

    def _on_appended(self, size_bytes: int) -> None:
        """Tell the rules, and those who wait, that the log grew."""
        state, end_offset = self.state, self.log.log_end_offset
        if not state.followers:
            if state.on_end_offset(end_offset):
                self._on_readable(size_bytes)
            return
        assert self._waiting is not None
        self.commitment.on_appended(end_offset, size_bytes)
        for onlooker in self._waiting.changes.on_change(self.key):
            self._waiting.on_bytes(onlooker, size_bytes)
        if state.on_end_offset(end_offset):
            self.on_high_watermark()

    def on_high_watermark(self) -> None:
        """Let go what waited for the high watermark, which has moved."""
        assert self._waiting is not None
        self._on_readable(self.commitment.take_readable(self.state.high_watermark))
        # Followers learn of it with their next answer. As in Kafka one that waits for bytes is not answered for it (KAFKA-9731).
        for onlooker in self._waiting.changes.on_change(self.key):
            self._waiting.on_change(commit_key(onlooker))
        self.settle()

    def settle(self) -> None:
        """Answer producers whose records are committed, or will not be: after every change of the state."""
        self.commitment.settle(self.state, self.config.min_insync_replicas)

    def append_as_follower(
        self, records: memoryview | None, high_watermark: int, log_start_offset: int
    ) -> ErrorCode:
        """Take over what the leader sent: its records as they are, its high watermark, where its log starts.

        BatchError if they are not what they must be; then nothing was appended.
        """
        log_, state = self.log, self.state
        assert self._clock is not None
        try:
            if records:
                size_before, now_ms = log_.size_bytes, self._clock.now_ms()
                flush_due = log_.append_as_follower(records, now_ms)
                self.commitment.on_appended(log_.log_end_offset, log_.size_bytes - size_before)
                self.metrics.replication_bytes_in += log_.size_bytes - size_before
                if flush_due:
                    self.flush_in_background()
            moved = state.on_leader_high_watermark(high_watermark, log_.log_end_offset)
            if log_start_offset > log_.log_start_offset:
                log_.move_log_start(min(log_start_offset, log_.log_end_offset))
                moved = state.on_log_start(log_.log_start_offset) or moved
        except OSError as problem:
            self.on_disk_error(problem, "append")
            return ErrorCode.KAFKA_STORAGE_ERROR
        if moved:
            self._on_readable(self.commitment.take_readable(state.high_watermark))
        return ErrorCode.NONE

    def _on_readable(self, size_bytes: int) -> None:
        """Tell those who wait for bytes, and those who wait for committed ones once they are."""
        assert self._waiting is not None
        self._waiting.on_bytes(self.key, size_bytes)
        self._undecided_bytes += size_bytes
        stable_offset = self.last_stable_offset
        if stable_offset != self._told_stable_offset:
            self._told_stable_offset = stable_offset
            self._waiting.on_bytes(self._stable_key, self._undecided_bytes)
            if stable_offset == self.state.high_watermark:
                self._undecided_bytes = 0

    def wake_readers(self) -> None:
        """Let everybody who waits for bytes look again: what they wait on has changed."""
        assert self._waiting is not None
        for key in (self.key, self._stable_key, *self._waiting.changes.on_change(self.key)):
            self._waiting.on_change(key)

    def append_run(
        self, run: list[tuple[memoryview, BatchHeader]], now_ms: int
    ) -> list[int | None]:
        """Append checked batches one after another, if possible with one write; each one's base offset, None if the disk failed."""
        if len(run) == 1:
            batch, header = run[0]
            return [self.append(batch, header, now_ms)]
        log_, state = self.log, self.state
        try:
            base_offset = log_.append_run(run, state.leader_epoch)
        except OSError as problem:
            self.on_disk_error(problem, "append")
            return [None] * len(run)
        if base_offset is None:
            return self._append_in_turn(run, now_ms)
        self._on_appended(sum(len(batch) for batch, _ in run))
        offsets: list[int | None] = []
        for _, header in run:
            offsets.append(base_offset)
            base_offset += header.last_offset_delta + 1
        return offsets

    def _append_in_turn(
        self, run: list[tuple[memoryview, BatchHeader]], now_ms: int
    ) -> list[int | None]:
        """Append batch after batch. What follows one that failed fails too: it may be the next of the same producer."""
        offsets: list[int | None] = []
        for batch, header in run:
            base_offset = self.append(batch, header, now_ms)
            if base_offset is None:
                return offsets + [None] * (len(run) - len(offsets))
            offsets.append(base_offset)
        return offsets

    def on_disk_error(self, problem: OSError, doing: str) -> None:
        """Take offline what the error speaks of: see `disk_failures`."""
        problem.__traceback__ = None  # it is kept, and must not keep what was to be written
        if self.offline:
            return
        if is_passing(problem) and not self.log.is_broken:
            assert self._clock is not None
            assert self._passing_errors is not None
            now_ms = self._clock.monotonic_ms()
            self._passing_errors.tell(self.directory, self.key, doing, problem, now_ms)
            return
        log.critical("%s: offline, cannot %s: %s", self.key, doing, problem)
        assert self._on_failure is not None
        self._on_failure(self, problem)

    def on_damage(self, problem: BatchError | CompressionError) -> ErrorCode:
        """Have what cannot be read repaired; what to answer meanwhile: clients try again after it."""
        log.error("%s is damaged: %s", self.key, problem)
        if not isinstance(problem, DamagedBatch):
            return ErrorCode.CORRUPT_MESSAGE
        assert self._on_damage is not None
        self._on_damage(self, problem.base_offset)
        return ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def is_flushing(self) -> bool:
        """Tell whether a sync is under way."""
        return self._flush_running

    def flush(self, done: Done) -> None:
        """Bring everything appended so far to the medium, then call `done`. One fsync at a time, and none while the log is being cut."""
        self._flush_waiters.append(done)
        if not self._flush_running:
            self._start_flush()

    def flush_in_background(self) -> None:
        """Flush without anybody waiting: a closed segment, or by time."""
        if not self._flush_running:
            self._start_flush()

    def _start_flush(self, *, is_later: bool = False) -> None:
        assert self._background is not None
        if self._cutting:
            return  # `end_cut` begins it
        waiters, self._flush_waiters = self._flush_waiters, []
        assert self._clock is not None
        now_ms = self._clock.now_ms()
        log_ = self.log  # by the time it is flushed the replica may have moved to another
        try:
            job = log_.plan_flush(now_ms, everything=bool(waiters))
        except OSError as problem:
            self._end_flush(waiters, problem)
            return
        if job is None and is_later:
            self._end_flush(waiters, None)  # the flush before has brought everything
            return
        self._flush_running = True

        def flushed(_result: Any, error: BaseException | None) -> None:  # noqa: ANN401
            self._flush_running = False
            try:
                if job is not None:
                    if error is not None and job.error is None:
                        # Whatever kept it from its end: what it was to sync may not be on the medium.
                        job.error = OSError(EIO, f"a flush failed: {error!r}")
                    log_.on_flushed(job)
            except OSError as problem:
                error = problem
            self._end_flush(waiters, error)

        self._background.run(_nothing if job is None else job.run, flushed)

    def _end_flush(self, waiters: list[Done], error: BaseException | None) -> None:
        if isinstance(error, OSError):
            self.on_disk_error(error, "flush")
        try:
            call_all([partial(waiter, None, error) for waiter in waiters])
        finally:
            if self._flush_waiters and not self._flush_running:
                self._start_flush(is_later=True)


def _tell_nobody(_lost: list[Replica]) -> None:
    """Nobody else could serve them."""


def _nothing() -> None:
    """Flush nothing: the answer still comes later, as callers expect."""


class Replicas:
    """All of them, by topic name and partition number."""

    __slots__ = (
        "_by_topic",
        "_metrics",
        "_on_damage",
        "_passing_errors",
        "_resolve",
        "_staging",
        "_world",
        "on_lost",
        "waiting",
    )

    def __init__(
        self,
        world: World,
        metrics: Metrics,
        staging: Staging,
        on_damage: OnDamage,
        resolve: Resolve,
    ) -> None:
        """Start with none; `on_damage` is told of a segment that somebody could not read, `resolve` knows the settings in force."""
        self._resolve = resolve
        self._staging = staging
        self._on_damage = on_damage
        self._world = world
        self._metrics = metrics
        self._by_topic: dict[str, dict[int, Replica]] = {}
        self._passing_errors = PassingErrors()
        self.waiting: Waiting[Any] = Waiting()
        #: A lone broker tells nobody.
        self.on_lost: OnLost = _tell_nobody

    def __iter__(self) -> Iterator[Replica]:
        """Every hosted replica, in order of creation."""
        for partitions in self._by_topic.values():
            yield from partitions.values()

    def __len__(self) -> int:
        """How many are hosted."""
        return sum(len(partitions) for partitions in self._by_topic.values())

    def get(self, topic: str, index: int) -> Replica | None:
        """Find one."""
        partitions = self._by_topic.get(topic)
        return None if partitions is None else partitions.get(index)

    def of_topic(self, topic: str) -> list[Replica]:
        """All of a topic's that are hosted here."""
        return list(self._by_topic.get(topic, {}).values())

    def add(self, replica: Replica) -> None:
        """Host one more."""
        topic = replica.key.topic
        metrics = self._metrics.by_topic[topic]
        replica.attach(
            self.waiting, self._staging, self._world, metrics, self._on_failed, self._on_damage, self._passing_errors,
        )  # fmt: skip
        config = self._resolve(replica.topic.overrides)
        if replica.config is not config:
            replica.configure(config)  # they changed while the log was being opened
        if not replica.directory.is_online:
            replica.lose()  # it failed while the log was being opened
        partitions = self._by_topic.setdefault(topic, {})
        assert replica.key.partition not in partitions, f"{replica.key} is hosted already"
        partitions[replica.key.partition] = replica

    def take_offline(self, directory: LogDirectory, problem: OSError) -> None:
        """Give a directory up until the next start: nobody reads or writes there any more."""
        if not directory.is_online:
            return
        directory.failure = problem
        lost = [replica for replica in self if replica.directory is directory]
        for replica in lost:
            replica.lose()
        log.critical(
            "log directory %s is offline until the next start, with %d partitions: %s",
            directory.path, len(lost), problem,
        )  # fmt: skip
        self.on_lost(lost)

    def _on_failed(self, replica: Replica, problem: OSError) -> None:
        if is_of_directory(problem):
            self.take_offline(replica.directory, problem)
        else:
            replica.lose()
            self.on_lost([replica])

    def drop(self, key: TopicPartition) -> None:
        """Stop hosting one; those who wait on it are woken and find it gone."""
        partitions = self._by_topic[key.topic]
        replica = partitions.pop(key.partition)
        if not partitions:
            del self._by_topic[key.topic]
        replica.leave()
        self._staging.close_lanes([replica])

    def drop_topic(self, topic: str) -> list[Replica]:
        """Stop hosting a topic; those who wait on it are woken and find it gone."""
        dropped = list(self._by_topic.pop(topic, {}).values())
        self._metrics.by_topic.pop(topic, None)
        for replica in dropped:
            replica.leave()
        self._staging.close_lanes(dropped)
        return dropped
