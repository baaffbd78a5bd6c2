"""The log of one partition: append at the end, read from any offset, drop from the start.

Job: keep segments, indexes, epochs, producers and recovery point in step over the Disk port. Must not know
replication, requests, time (it comes as `now_ms`) or which bytes are worth appending: the caller has checked
the batch. Opening is in `recovery.py`, flushing in `flush.py`, reading in `log_reader.py`, looking inside segments in `segment.py`.

Invariants: log_start_offset <= log_end_offset; recovery_point <= log_end_offset; the last segment takes the
appends; after an OSError everything in memory is as before the call and so is what the files count for, or,
where that cannot be had, the log is broken: then every later call raises BrokenLogError, and opening it again
finds all that was acknowledged.

Background threads may read (see `log_reader.py`) and call a flush job's `run`, while the loop does everything else.

preallocate is accepted and does nothing: it is for file systems that are slow to grow a file, and a log that
is longer than its records would have to be scanned after every stop.
"""

from __future__ import annotations

from errno import EIO
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.epochs import UNDEFINED_EPOCH, LeaderEpochs
from barnabas.storage import checksums, epoch_file
from barnabas.storage.broken_log import BrokenLogError
from barnabas.storage.checksums import sum_of
from barnabas.storage.drop import DropJob
from barnabas.storage.flush import FlushJob, FlushPoint
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY
from barnabas.storage.leader_batches import LeaderBatch, whole_batches
from barnabas.storage.log_left import LogLeft
from barnabas.storage.log_reader import LogReader, base_offset_of
from barnabas.storage.names import LEADER_EPOCHS, SEGMENT_FILES, TXN_INDEX, file_name
from barnabas.storage.recovery import RecoveryReport, load, write_epochs
from barnabas.storage.replay import index_entry
from barnabas.storage.segment import MAX_RELATIVE_OFFSET, Segment, remove_files
from barnabas.storage.swap import SwapJob
from barnabas.storage.truncation import StartOverJob, TruncationJob, cut_segment
from barnabas.wire.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchError, stamp
from barnabas.wire.control_batch import build_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.core.producer_state import Duplicate, Verification
    from barnabas.model.config import LogConfig
    from barnabas.model.errors import ErrorCode
    from barnabas.ports import Disk, File, Rng
    from barnabas.storage.cleaned_segment import CleanedSegment
    from barnabas.storage.recovery import Loaded
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker

_NEVER: Final = 2**63 - 1
#: Below every timestamp, also NO_TIMESTAMP: makes the next append look closer.
_ALWAYS: Final = -2


#: What the constructor of a NamedTuple does, a function in Python that takes as long as the rest of an append.
_new: Final = tuple.__new__


class Appended(NamedTuple):
    """Where a batch went, and whether a flush is due now."""

    base_offset: int
    last_offset: int
    flush_due: bool


class Log(LogReader):
    """See the module."""

    __slots__ = (
        "_broken",
        "_closed_unflushed",
        "_disk",
        "_entries_left",
        "_flush_messages",
        "_flushing",
        "_folder_is_new",
        "_index_interval",
        "_last_flush_ms",
        "_may_have_gaps",
        "_names_changes",
        "_names_synced",
        "_rng",
        "_roll_bytes",
        "_roll_offset",
        "_roll_timestamp",
        "_snapshots",
        "_swapping",
        "_truncating",
        "config",
        "directory",
        "epochs",
        "producers",
        "recovery",
        "recovery_point",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        loaded: Loaded,
        *,
        now_ms: int,
        rng: Rng | None,
    ) -> None:
        """Take over what `recovery.load` found. Use `open`."""
        super().__init__(
            loaded.segments,
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
        )
        self._disk = disk
        self.directory = directory
        self.config = config
        self._rng = rng
        self._active.jitter_ms = self._draw_jitter()
        self._snapshots = loaded.snapshots
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.recovery_point = loaded.recovery_point
        self.recovery: RecoveryReport = loaded.report
        # Counts creations, renames and removals in the folder, and how many of them are on the medium.
        self._names_changes = int(loaded.names_changed)
        self._names_synced = 0
        self._folder_is_new = loaded.recovery_point == 0
        self._closed_unflushed = self._has_closed_unflushed()
        self._broken: OSError | None = None
        self._flushing: FlushJob | None = None
        #: Base offsets of segments that a new one is about to replace: until then they stay.
        self._swapping: tuple[int, ...] = ()
        self._truncating: TruncationJob | None = None
        self._last_flush_ms = now_ms
        self._may_have_gaps = loaded.may_have_gaps
        self.configure(config)

    @classmethod
    def open(  # noqa: PLR0913  (each is said by name)
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        rng: Rng | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool,
        was_compacted: bool = False,
        high_watermark: int | None = None,
        is_start_known: bool = False,
    ) -> Log:
        """Open the log in an existing folder, or start an empty one there at `log_start_offset`.

        From `recovery_point` on all is what the checkpoints say, see `LogLeft`. Blocks; see `recovery` for what it does after
        a crash and `Log.recovery` for what it had to do.
        """
        left = LogLeft(
            recovery_point, log_start_offset, clean, was_compacted, high_watermark, is_start_known
        )
        loaded = load(disk, directory, config, left, now_ms=now_ms)
        log = cls(disk, directory, config, loaded, now_ms=now_ms, rng=rng)
        if not clean or loaded.report.rebuilt_indexes:
            log._write_checksums()
        return log

    def configure(self, config: LogConfig) -> None:
        """Take new settings: they count from the next append."""
        self.config = config
        self._index_interval = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._may_have_gaps = self._may_have_gaps or config.compact
        for segment in self._segments:
            segment.may_have_gaps = self._may_have_gaps
        self._set_roll_limits()

    @property
    def may_have_gaps(self) -> bool:
        """Tell whether offsets without records are no loss: it is, or was, compacted."""
        return self._may_have_gaps

    # Appending

    def check_producer(
        self, header: BatchHeader, guard: Verification | None = None
    ) -> Duplicate | ErrorCode | None:
        """Tell whether a batch fits its producer's sequence: None, the first copy of it, or an error."""
        return self.producers.check(header, guard)

    def append_marker(
        self,
        marker: EndMarker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
    ) -> Appended:
        """End a producer's transaction here, as leader. The caller has checked the epochs. On OSError nothing changed."""
        batch, header = build_marker(marker, producer_id, producer_epoch, now_ms)
        # Before the index entry: that belongs into the segment with the marker.
        self._roll_if_due(header, self.log_end_offset + header.last_offset_delta, now_ms)
        completed = self.producers.completion(
            producer_id, self.log_end_offset, aborted=not marker.commit
        )
        if completed is None or marker.commit:
            return self.append(batch, header, leader_epoch, now_ms, marker)
        if not len(self._active.aborted):
            self._names_changes += 1
        self._active.aborted.add(index_entry(self.producers, completed))
        try:
            return self.append(batch, header, leader_epoch, now_ms, marker)
        except OSError as error:
            self._undo_aborted(error)
            raise

    def _undo_aborted(self, error: OSError) -> None:
        try:
            self._active.aborted.drop_last()
        except OSError:
            self._break(error)

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        marker: EndMarker | None = None,
    ) -> Appended:
        """Write one batch as leader, stamping offset and epoch in place.

        The caller has checked its bytes and sequence, and `header` is what stands in it; `marker` is what a control
        batch says. On OSError nothing was appended.
        """
        segment = self._active
        position = segment.size
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        end = position + header.batch_length + LOG_OVERHEAD
        if (
            end > self._roll_bytes
            or max_timestamp > self._roll_timestamp
            or last_offset > self._roll_offset
        ):
            self._roll_if_due(header, last_offset, now_ms)
            segment = self._active
            end += segment.size - position
            position = segment.size
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch)
        indexed = segment.since_index > self._index_interval
        if indexed:
            segment.spill_when_due()
        stamp(batch, base_offset, leader_epoch)
        try:
            segment.log.write(position, (batch,))
        except OSError as error:
            self._undo_write(segment, error)
            raise
        # From here on nothing fails. The end offset goes first: see the module.
        self.log_end_offset = last_offset + 1
        segment.size = end
        if max_timestamp > segment.largest[0]:
            segment.largest = (max_timestamp, last_offset)
        if indexed:
            segment.add_index_entries(last_offset, position)
            self._entries_left -= 1
            if self._entries_left <= 0:
                self._set_roll_limits()
        segment.since_index += end - position
        if position == 0:
            segment.first_timestamp = max_timestamp
            self._set_roll_limits()
        if header.producer_id >= 0:
            self.producers.update(header, base_offset, marker)
        flush_due = (
            last_offset + 1 - self.recovery_point >= self._flush_messages or self._closed_unflushed
        ) and not self._flushing
        return _new(Appended, (base_offset, last_offset, flush_due))

    def append_run(
        self, run: Sequence[tuple[memoryview, BatchHeader]], leader_epoch: int
    ) -> int | None:
        """Write several batches with one call, as `append` would one by one; the first one's base offset.

        None, and nothing changed, where one of them may have to do more than that: begin a segment or an epoch, or
        spill an index. On OSError none was appended.
        """
        segment = self._active
        position = segment.size
        base_offset = next_offset = self.log_end_offset
        end, latest = position, NO_TIMESTAMP
        for batch, header in run:
            stamp(batch, next_offset, leader_epoch)
            next_offset += header.last_offset_delta + 1
            end += len(batch)
            latest = max(latest, header.max_timestamp)
        if (
            position == 0
            or end > self._roll_bytes
            or latest > self._roll_timestamp
            or next_offset > self._roll_offset
            or leader_epoch != self.epochs.latest
            or len(run) >= self._entries_left
            or segment.is_spill_due
            or next_offset - self.recovery_point >= self._flush_messages
            or self._closed_unflushed
        ):
            return None
        try:
            segment.log.write(position, [batch for batch, _ in run])
        except OSError as error:
            self._undo_write(segment, error)
            raise
        # From here on nothing fails. The end offset goes first: see the module.
        self.log_end_offset = next_offset
        segment.size = end
        offset = base_offset
        for batch, header in run:
            indexed = segment.since_index > self._index_interval
            last_offset = offset + header.last_offset_delta
            if header.max_timestamp > segment.largest[0]:
                segment.largest = (header.max_timestamp, last_offset)
            if indexed:
                segment.add_index_entries(last_offset, position)
                self._entries_left -= 1
            segment.since_index += len(batch)
            if header.producer_id >= 0:
                self.producers.update(header, offset)
            position += len(batch)
            offset = last_offset + 1
        return base_offset

    # Appending as follower

    def append_as_follower(self, records: memoryview, now_ms: int) -> bool:
        """Write the batches of a leader as they are, up to the last whole one; tell whether a flush is due.

        BatchError, and nothing was appended, if one is damaged or does not go behind what is here. On OSError those written
        before it stay. A log without records may begin in the middle of a batch, whose first records the leader deleted: it
        begins with that batch then.
        """
        batches = whole_batches(records, self.log_end_offset)
        if not batches:
            return False
        if batches[0].header.base_offset < self.log_end_offset:
            self._begin_below(batches[0].header.base_offset, now_ms)
        run: list[LeaderBatch] = []
        for batch in batches:
            if run and not self._fits(batch, run):
                self._write_run(run)
                run = []
            if not run:
                self._prepare_run(batch.header, now_ms)
            run.append(batch)
        self._write_run(run)
        return self.flush_due(now_ms)

    def _begin_below(self, base_offset: int, now_ms: int) -> None:
        """Let a log without records begin at a lower offset."""
        if self.log_end_offset > self.log_start_offset or self.size_bytes:
            raise BatchError(f"offset {base_offset} comes after {self.log_end_offset - 1}")
        old = self._segments
        segment = self._create_segment(base_offset, now_ms)
        for one in old:
            one.dropped = True
            remove_files(self._disk, self.directory, one.base_offset)
        self._segments, self._active = (segment,), segment
        self.log_start_offset = self.log_end_offset = base_offset
        self.recovery_point = min(self.recovery_point, base_offset)
        self._hints.clear()
        self._set_roll_limits()

    def _fits(self, batch: LeaderBatch, run: Sequence[LeaderBatch]) -> bool:
        """Tell whether a batch may be written together with those before it, which nothing but indexes depends on."""
        segment, header = self._active, batch.header
        end = segment.size + sum(one.header.size for one in run) + header.size
        return (
            segment.size > 0
            and end <= self._roll_bytes
            and header.max_timestamp <= self._roll_timestamp
            and header.last_offset <= self._roll_offset
            and header.partition_leader_epoch in (self.epochs.latest, UNDEFINED_EPOCH)
            and len(run) < self._entries_left
            and not batch.is_abort  # its index entry needs the state after those before it
        )

    def _prepare_run(self, header: BatchHeader, now_ms: int) -> None:
        """Do what the next batch asks for before it is written: a new segment, a new epoch, room in the index."""
        segment, epoch = self._active, header.partition_leader_epoch
        if (
            segment.size + header.size > self._roll_bytes
            or header.max_timestamp > self._roll_timestamp
            or header.last_offset > self._roll_offset
        ):
            self._roll_if_due(header, header.last_offset, now_ms)
        if epoch not in (self.epochs.latest, UNDEFINED_EPOCH):
            self.assign_epoch(epoch, header.base_offset)
        if header.base_offset > self.log_end_offset and not self._may_have_gaps:
            self._allow_gaps()
        self._active.spill_when_due()

    def _write_run(self, run: Sequence[LeaderBatch]) -> None:
        """Write batches with one call. On OSError none was appended."""
        segment = self._active
        position = segment.size
        is_noted = self._note_aborted(run[0])
        try:
            segment.log.write(position, [one.content for one in run])
        except OSError as error:
            self._undo_write(segment, error)
            if is_noted:
                self._undo_aborted(error)
            raise
        # From here on nothing fails. The end offset goes first: see the module.
        self.log_end_offset = run[-1].header.next_offset
        segment.size = position + sum(one.header.size for one in run)
        for _, header, marker in run:
            indexed = segment.since_index > self._index_interval
            if header.max_timestamp > segment.largest[0]:
                segment.largest = (header.max_timestamp, header.last_offset)
            if indexed:
                segment.add_index_entries(header.last_offset, position)
                self._entries_left -= 1
            segment.since_index += header.size
            if position == 0:
                segment.first_timestamp = header.max_timestamp
            if header.producer_id >= 0:
                self.producers.update(header, header.base_offset, marker)
            position += header.size
        self._set_roll_limits()

    def _note_aborted(self, batch: LeaderBatch) -> bool:
        """Put the transaction that a batch aborts into the index, before the batch is written; tell whether there was one."""
        if not batch.is_abort:
            return False
        header = batch.header
        completed = self.producers.completion(header.producer_id, header.base_offset, aborted=True)
        if completed is None:
            return False
        if not len(self._active.aborted):
            self._names_changes += 1
        self._active.aborted.add(index_entry(self.producers, completed))
        return True

    def _allow_gaps(self) -> None:
        """Take offsets without records for no loss: the leader has none there either."""
        self._may_have_gaps = True
        for segment in self._segments:
            segment.may_have_gaps = True

    def assign_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        """Note that the leader epoch starts here, or at an offset behind, on disk too; on OSError it is as before."""
        self._check_usable()
        before = self.epochs.entries
        if not self.epochs.assign(
            epoch, self.log_end_offset if start_offset is None else start_offset
        ):
            return
        try:
            write_epochs(self._disk, self.directory, self.epochs)
        except OSError:
            self.epochs = LeaderEpochs(before)
            raise
        self._names_changes += 1

    def _undo_write(self, segment: Segment, error: OSError) -> None:
        try:
            segment.log.truncate(segment.size)
        except OSError:
            self._break(error)

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Close the active segment and go on in a new one; nothing if it is empty."""
        self._check_usable()
        if self._active.size:
            self._roll_at(self.log_end_offset, now_ms)

    def _roll_at(self, base_offset: int, now_ms: int) -> None:
        self._active.seal()
        segment = self._create_segment(base_offset, now_ms)
        self._segments = (*self._segments, segment)
        self._active = segment
        self._closed_unflushed = True
        self._set_roll_limits()

    def _create_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Make the files of the next segment, and what goes with it; on OSError there are none."""
        self._names_changes += 1
        try:
            segment = Segment.create(
                self._disk, self.directory, base_offset,
                now_ms=now_ms, jitter_ms=self._draw_jitter(),
            )  # fmt: skip
            self._write_snapshot()
            self._write_checksums()
        except OSError as error:
            self._undo_create(base_offset, error)
            raise
        segment.may_have_gaps = self._may_have_gaps
        return segment

    def _undo_create(self, base_offset: int, error: OSError) -> None:
        try:
            remove_files(self._disk, self.directory, base_offset)
        except OSError:
            self._break(error)

    def _roll_if_due(self, header: BatchHeader, last_offset: int, now_ms: int) -> None:
        """Apply Kafka's rules for closing a segment before a batch goes in."""
        self._check_usable()
        assert self._truncating is None, "nothing is appended while it is cut"
        segment, config = self._active, self.config
        if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            # So far ahead may a follower's next batch be where its leader compacted.
            self._roll_at(max(self.log_end_offset, last_offset - MAX_RELATIVE_OFFSET), now_ms)
        elif segment.size and (
            segment.size + header.size > config.segment_bytes
            or self._waited_ms(segment, header.max_timestamp, now_ms)
            > config.roll_ms - segment.jitter_ms
            or self._count_entries_left() <= 0
        ):
            self.roll(now_ms)
        else:
            self._set_roll_limits()

    def _waited_ms(self, segment: Segment, timestamp: int, now_ms: int) -> int:
        """Return how far the log has moved on since the segment's first batch, by the records' time."""
        try:
            first_timestamp = segment.read_first_timestamp()
        except BatchError:
            first_timestamp = segment.first_timestamp = NO_TIMESTAMP
        return timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms

    def _set_roll_limits(self) -> None:
        """Work out up to where an append need not ask whether to roll."""
        segment = self._active
        self._entries_left = self._count_entries_left()
        self._roll_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        if self._must_ask or (self._entries_left <= 0 and segment.size):
            self._roll_bytes = -1
        else:
            self._roll_bytes = self.config.segment_bytes
        first_timestamp = segment.first_timestamp
        if segment.size == 0:
            self._roll_timestamp = _NEVER
        elif first_timestamp is None or first_timestamp < 0:
            self._roll_timestamp = _ALWAYS
        else:
            self._roll_timestamp = first_timestamp + self.config.roll_ms - segment.jitter_ms

    @property
    def _must_ask(self) -> bool:
        """Tell whether no append may go in without asking, as none may go in at all."""
        return self._broken is not None or self._truncating is not None

    def _count_entries_left(self) -> int:
        """Return how many batches may get an index entry; one time entry is kept for the closing."""
        index_bytes, segment = self.config.segment_index_bytes, self._active
        offsets = index_bytes // OFFSET_ENTRY.size - len(segment.offset_index)
        times = index_bytes // TIME_ENTRY.size - 1 - len(segment.time_index)
        return min(offsets, times)

    def _draw_jitter(self) -> int:
        """Draw how much earlier than segment.ms a segment closes, so that not all close at once."""
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if bound <= 0 or self._rng is None:
            return 0
        return int.from_bytes(self._rng.random_bytes(8), "big") % bound

    def _write_snapshot(self) -> None:
        # Producers outlast their records: those may all have been deleted.
        is_needed = self.log_end_offset > self.log_start_offset or len(self.producers)
        if is_needed and self.log_end_offset > self._snapshots.latest:
            self._names_changes += 1
            self._snapshots.write(self.producers, self.log_end_offset)

    def _write_checksums(self) -> None:
        """Write down what the small files are; the next flush of names brings it to the medium."""
        sums = {
            file_name(segment.base_offset, TXN_INDEX): segment.aborted.sum
            for segment in self._segments
            if len(segment.aborted)
        }
        sums.update(self._snapshots.sums)
        if self.epochs.entries:
            sums[LEADER_EPOCHS] = sum_of(epoch_file.encode(self.epochs.entries))
        if sums:
            path = f"{self.directory}/{checksums.FILE_NAME}"
            self._disk.write_file_atomically(path, checksums.encode(sums), sync=False)
            self._names_changes += 1

    # Dropping from the start

    def advance_log_start(self, offset: int) -> list[str]:
        """Let the log start here and drop the segments wholly before it. Blocks.

        Return the files put aside, for removal after file.delete.delay.ms.
        """
        self.move_log_start(offset)
        job = self.plan_drop()
        return job.run() if job is not None else []

    def move_log_start(self, offset: int) -> None:
        """Let the log start here, in memory; the caller has checked that it is not above the high watermark."""
        self._check_usable()
        assert offset <= self.log_end_offset
        self.log_start_offset = max(self.log_start_offset, offset)

    def plan_drop(self) -> DropJob | None:
        """Take segments wholly before the log's start out of it; the job that puts their files aside, None if there are none.

        The active one stays. The new start must be on disk before the job runs, on a background thread: after a crash,
        some of the files may be there and others not.
        """
        self._check_usable()
        if self.epochs.truncate_from_start(self.log_start_offset):
            write_epochs(self._disk, self.directory, self.epochs)
            self._write_checksums()
            self._names_changes += 1
        paths: list[str] = []
        while (
            len(self._segments) > 1
            and self._segments[1].base_offset <= self.log_start_offset
            and self._segments[0].base_offset not in self._swapping
        ):
            segment, *rest = self._segments
            self._segments = tuple(rest)
            self._names_changes += 1
            segment.dropped = True
            paths += self._paths_of(segment.base_offset)
        return DropJob(self._disk, paths) if paths else None

    def _paths_of(self, base_offset: int) -> list[str]:
        """Name the files that go with a segment."""
        paths = [f"{self.directory}/{file_name(base_offset, suffix)}" for suffix in SEGMENT_FILES]
        snapshot = self._snapshots.forget(base_offset)
        return [*paths, snapshot] if snapshot else paths

    # Cutting off the end

    def truncate_to(self, offset: int, now_ms: int) -> list[str]:
        """Do what `plan_truncation` plans. Blocks. Return the files put aside, for removal after file.delete.delay.ms."""
        job = self.plan_truncation(offset, now_ms)
        if job is None:
            return []
        job.run()
        return self.on_truncated(job)

    def plan_truncation(self, offset: int, now_ms: int) -> TruncationJob | None:
        """Let the log end at or before `offset`, where a batch does; the job that lets the files follow, None if nothing is to go.

        Readers see the new end at once. Bring recovery point and high watermark, which must not be above it, to disk first: what they
        speak of would be missed at the next start, and what comes in place of the old records is not on the medium. Then run the job
        on a background thread and hand it to `on_truncated`; until then nothing may be appended. DamagedBatch, and nothing changed,
        where no batch is. The caller has the log's claim.
        """
        self._check_usable()
        assert not self._swapping
        assert self._truncating is None
        if offset < self._segments[0].base_offset:
            return self.plan_start_over(offset, now_ms)
        if offset >= self.log_end_offset:
            # An epoch of our own in which nothing was written may stand at the end: another's goes there now.
            self._save_epochs(changed=self.epochs.truncate_from_end(self.log_end_offset))
            return None
        number = self._segment_number(self._segments, offset)
        kept, gone = self._segments[: number + 1], self._segments[number + 1 :]
        end_offset = cut_segment(kept[-1], offset)
        # The size first: who reads both takes no bytes above the end.
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        aside = self._put_aside(gone, end_offset)
        self._segments, self._active = kept, kept[-1]
        bounds = (self.log_start_offset, end_offset)
        return self._begin_truncation(
            TruncationJob(self._disk, self.directory, aside, kept, self._snapshots, bounds)
        )

    def plan_start_over(self, offset: int, now_ms: int) -> StartOverJob:
        """Drop everything and begin at `offset`; the job that does, see `plan_truncation`. Readers see the old log until `on_truncated`.

        The high watermark on disk must not be above the old log's start. With the next checkpoint goes the new one.
        """
        self._check_usable()
        assert not self._swapping
        assert self._truncating is None
        self.recovery_point = min(self.recovery_point, self.log_start_offset, offset)
        aside = self._put_aside(self._segments, -1)
        job = StartOverJob(self._disk, self.directory, aside, self._snapshots, offset, now_ms)
        self._begin_truncation(job)
        return job

    def _put_aside(self, gone: Sequence[Segment], end_offset: int) -> list[list[str]]:
        """Name the files that go, of the last segment first; with it go snapshots above the new end."""
        aside = [self._snapshots.forget_above(end_offset)]
        for segment in reversed(gone):
            segment.dropped = True
            aside.append(self._paths_of(segment.base_offset))
        return aside

    def _begin_truncation(self, job: TruncationJob) -> TruncationJob:
        self._truncating = job
        # A flush under way says nothing about what comes in place of the old records.
        self._flushing = None
        self._hints.clear()
        self._set_roll_limits()
        return job

    def on_truncated(self, job: TruncationJob) -> list[str]:
        """Take appends again; return the files put aside, for removal after a while. An error breaks the log, and is raised."""
        assert job is self._truncating
        self._truncating = None
        if job.error is not None:
            self._break(job.error)
            raise job.error
        if isinstance(job, StartOverJob):
            self._take_new_start(job)
        self.producers = job.producers
        self._names_changes += 1
        self._closed_unflushed = self._has_closed_unflushed()
        self._set_roll_limits()
        self._save_epochs(changed=True)
        return job.deleted

    def _take_new_start(self, job: StartOverJob) -> None:
        assert job.segment is not None
        job.segment.may_have_gaps = self._may_have_gaps
        job.segment.jitter_ms = self._draw_jitter()
        self._segments, self._active = (job.segment,), job.segment
        offset = job.segment.base_offset
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self._hints.clear()
        self.epochs.clear()

    def _save_epochs(self, *, changed: bool) -> None:
        """Bring the file of epochs up to date; without that the log is broken."""
        if not changed:
            return
        try:
            write_epochs(self._disk, self.directory, self.epochs)
        except OSError as error:
            self._break(error)
            raise
        self._names_changes += 1

    # Replacing by compaction

    def plan_swap(self, cleaned: CleanedSegment, now_ms: int) -> SwapJob | None:
        """Make the job that puts a new segment in place; None if some of the old ones have been dropped since.

        Run it on a background thread and hand it to `on_swapped`. One at a time.
        """
        self._check_usable()
        assert not self._swapping
        closed = [segment.base_offset for segment in self.closed_segments]
        if not set(cleaned.sources) <= set(closed):
            return None
        self._swapping = cleaned.sources
        return SwapJob(self._disk, self.directory, cleaned, now_ms)

    def on_swapped(self, job: SwapJob) -> list[str]:
        """Read from the new segment from now on; return the files of the old ones, for removal after a while.

        An error before the new one counted changes nothing, a later one breaks the log; both are raised.
        """
        self._swapping = ()
        if job.error is not None:
            if job.committed:
                self._break(job.error)
            raise job.error
        assert job.segment is not None
        job.segment.may_have_gaps = self._may_have_gaps
        sources = job.cleaned.sources
        for segment in self._segments:
            segment.dropped = segment.dropped or segment.base_offset in sources
        kept = [segment for segment in self._segments if segment.base_offset not in sources]
        self._segments = tuple(sorted([*kept, job.segment], key=base_offset_of))
        snapshots = [self._snapshots.rename_for_delete(base) for base in sources[1:]]
        self._write_checksums()
        return job.deleted + [path for path in snapshots if path is not None]

    # Flushing

    @property
    def unflushed_records(self) -> int:
        """Offsets that a crash of the machine may take."""
        return self.log_end_offset - self.recovery_point

    def flush_due(self, now_ms: int) -> bool:
        """Tell whether flush.messages, flush.ms or a closed segment asks for a flush, and none is under way.

        A segment is flushed as soon as it is closed, as in Kafka.
        """
        is_free = not self._flushing and self._truncating is None
        return is_free and (self._closed_unflushed or self._all_due(now_ms))

    def _has_closed_unflushed(self) -> bool:
        return self._active.base_offset > self.recovery_point or any(
            segment.unsynced for segment in self._segments[:-1]
        )

    def _all_due(self, now_ms: int) -> bool:
        unflushed = self.unflushed_records
        return unflushed > 0 and (
            unflushed >= self._flush_messages
            or now_ms - self._last_flush_ms >= self.config.flush_ms
        )

    def plan_flush(self, now_ms: int, *, everything: bool = False) -> FlushJob | None:
        """Make the job that brings what is due to the medium, or all of it; None if nothing is.

        Run it on a background thread and hand it to `on_flushed`. One at a time: None until then.
        """
        self._check_usable()
        if self._flushing or self._truncating is not None:
            return None
        everything = everything or self._all_due(now_ms)
        end_offset = self.log_end_offset if everything else self._active.base_offset
        if everything:
            self._active.spill()
        segments = self._segments_to_sync(end_offset, everything=everything)
        names_due = self._names_synced < self._names_changes and (
            everything or self._closed_unflushed
        )
        if not segments and not names_due:
            self._closed_unflushed = False  # what was closed has been dropped since
            return None
        self._flushing = FlushJob(
            self._disk,
            self.directory if names_due else None,
            segments,
            self._side_files() if names_due else self._snapshots.unsynced,
            FlushPoint(end_offset, self._names_changes, self._folder_is_new, now_ms),
        )
        return self._flushing

    def _side_files(self) -> tuple[File, ...]:
        """Name the small files that go with a change of names: some come by a rename."""
        paths = [f"{self.directory}/{name}" for name in (LEADER_EPOCHS, checksums.FILE_NAME)]
        renamed = [self._disk.open(path) for path in paths if self._disk.exists(path)]
        return (*self._snapshots.unsynced, *renamed)

    def _segments_to_sync(self, end_offset: int, *, everything: bool) -> list[Segment]:
        """Name those with records to flush or other changes; the active one only if it is its turn."""
        segments = self._segments if everything else self._segments[:-1]
        first = self._segment_number(self._segments, self.recovery_point)
        unflushed = range(first, len(segments)) if end_offset > self.recovery_point else ()
        return [
            segment
            for number, segment in enumerate(segments)
            if segment.unsynced or (number in unflushed and segment.base_offset < end_offset)
        ]

    def on_flushed(self, job: FlushJob) -> None:
        """Move the recovery point. A sync that failed breaks the log for good, and is raised.

        The kernel may forget a failed write once it has told of it, so trying again would prove nothing.
        """
        if job is not self._flushing:
            if job.error is not None:
                raise job.error
            return  # it flushed what the log has left since: see `relocate`, `plan_truncation`
        self._flushing = None
        if job.error is not None:
            self._break(job.error)
            raise job.error
        point = job.point
        self.recovery_point = max(self.recovery_point, point.end_offset)
        if self._names_synced < point.names_changes:
            self._names_synced = point.names_changes
            self._folder_is_new = False
        self._last_flush_ms = point.planned_ms
        self._snapshots.on_synced(job.snapshots)
        self._closed_unflushed = self._has_closed_unflushed()

    # Closing

    def close(self, *, clean: bool) -> None:
        """Close the files. With `clean` first bring everything to the medium; blocks then.

        After a clean close `recovery_point` is `log_end_offset`, and opening needs no scan. Without it
        nothing is written: for a failed disk, or a folder that is about to go.
        """
        if clean:
            self._check_usable()
            self._active.seal()
            self._write_snapshot()
            if self.epochs.truncate_from_start(self.log_start_offset):
                write_epochs(self._disk, self.directory, self.epochs)
            self._write_checksums()
            if self.log_end_offset:  # what never held a record can be made again
                self._sync_rest()
        for segment in self._segments:
            segment.close()

    def _sync_rest(self) -> None:
        job = self.plan_flush(self._last_flush_ms, everything=True)
        if job is not None:
            job.run()
            self.on_flushed(job)

    def moved_to(self, directory: str) -> None:
        """Follow the folder to its new name: files opened before follow by themselves."""
        self.directory = self._snapshots.directory = directory

    def relocate(self, directory: str, segments: Sequence[Segment]) -> None:
        """Go on in another folder, whose files hold the same bytes: `segments` are this log's, opened there.

        Only closed segments are known to be on the medium there. A flush under way in the old folder is left to its end,
        and says nothing about the new one: until a flush of everything has ended, the old folder must stay.
        """
        self._check_usable()
        assert not self._swapping
        assert [segment.base_offset for segment in segments] == self.base_offsets
        self._segments = tuple(segments)
        self._active = self._segments[-1]
        self._hints.clear()
        self._snapshots.unsynced = ()
        self.moved_to(directory)
        self._flushing = None
        self.recovery_point = min(self.recovery_point, self._active.base_offset)
        self._active.unsynced = True
        self._names_changes += 1
        self._folder_is_new = True
        self._closed_unflushed = self._has_closed_unflushed()
        self._set_roll_limits()

    # Trouble

    @property
    def is_broken(self) -> bool:
        """Tell whether a failure left the files in doubt, so that nothing may be appended any more."""
        return self._broken is not None

    def _break(self, error: OSError) -> None:
        self._broken = error
        self._set_roll_limits()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise BrokenLogError(
                self._broken.errno or EIO,
                f"the log is broken since: {self._broken}",
                self.directory,
            )
