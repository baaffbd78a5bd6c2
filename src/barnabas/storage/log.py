"""The log of one partition: append at the end, read from any offset, drop from the start.

Job: keep segments, indexes, epochs, producers and recovery point in step over the Disk port. Must not know
replication, requests, time (it comes as `now_ms`) or which bytes are worth appending: the caller has checked
the batch. This file is how records go and get safe; they are read in `log_reader.py`, segments begin in `rolling_log.py`, records come in in
`log_writer.py`. Opening is in `recovery.py`, flushing in `flush.py`, looking inside segments in `segment.py`.

Invariants: log_start_offset <= log_end_offset; recovery_point <= log_end_offset; the last segment takes the
appends; after an OSError everything in memory is as before the call and so is what the files count for, or,
where that cannot be had, the log is broken: then every later call raises BrokenLogError, and opening it again
finds all that was acknowledged.

Background threads may read (see `log_reader.py`) and call a flush job's `run`, while the loop does everything else.

preallocate is accepted and does nothing: it is for file systems that are slow to grow a file, and a log that
is longer than its records would have to be scanned after every stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.storage import checksums
from barnabas.storage.checksums import NO_SUMS
from barnabas.storage.drop import DropJob
from barnabas.storage.epoch_history import write_epochs
from barnabas.storage.flush import FlushJob, FlushPoint
from barnabas.storage.log_left import LogLeft
from barnabas.storage.log_reader import base_offset_of
from barnabas.storage.log_writer import LogWriter
from barnabas.storage.names import LEADER_EPOCHS, SEGMENT_FILES, file_name
from barnabas.storage.recovery import load
from barnabas.storage.swap import SwapJob
from barnabas.storage.truncation import StartOverJob, TruncationJob, cut_segment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.model.config import LogConfig
    from barnabas.ports import Disk, File, Rng
    from barnabas.storage.checksums import Sum
    from barnabas.storage.cleaned_segment import CleanedSegment
    from barnabas.storage.recovery import Loaded
    from barnabas.storage.segment import Segment
    from barnabas.storage.segment_opening import RecoveryReport


class Log(LogWriter):
    """See the module."""

    __slots__ = (
        "_folder_is_new",
        "_last_flush_ms",
        "_names_synced",
        "_swapping",
        "recovery",
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
        super().__init__(disk, directory, config, loaded, rng)
        self.recovery: RecoveryReport = loaded.report
        #: How many of the changes in the folder are on the medium.
        self._names_synced = 0
        self._folder_is_new = loaded.recovery_point == 0
        #: Base offsets of segments that a new one is about to replace: until then they stay.
        self._swapping: tuple[int, ...] = ()
        self._last_flush_ms = now_ms

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
        other_sums: Mapping[str, Sum] = NO_SUMS,
    ) -> Log:
        """Open the log in an existing folder, or start an empty one there at `log_start_offset`.

        From `recovery_point` on all is what the checkpoints say, see `LogLeft`. Blocks; see `recovery` for what it does after
        a crash and `Log.recovery` for what it had to do. `other_sums` is of files in the folder that are not the log's own.
        """
        left = LogLeft(
            recovery_point, log_start_offset, clean, was_compacted, high_watermark, is_start_known
        )
        loaded = load(disk, directory, config, left, now_ms=now_ms)
        log = cls(disk, directory, config, loaded, now_ms=now_ms, rng=rng)
        log._other_sums = other_sums
        if not clean or loaded.report.rebuilt_indexes:
            log._write_checksums()
        return log

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
        self._check_settled()
        assert offset <= self.log_end_offset
        self.log_start_offset = max(self.log_start_offset, offset)

    def plan_drop(self) -> DropJob | None:
        """Take segments wholly before the log's start out of it; the job that puts their files aside, None if there are none.

        None while the log is being cut, too: they go the next time. The active one stays. The new start must be on disk before the job runs, on a background thread: after a crash,
        some of the files may be there and others not.
        """
        self._check_usable()
        if self._truncating is not None:
            return None
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
            self._go_on_with(rest)
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
        on a background thread and hand it to `on_truncated`; until then nothing else may change, see `rolling_log.py`. DamagedBatch, and nothing changed,
        where no batch is. The caller has the log's claim.
        """
        self._check_settled()
        assert not self._swapping
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
        self._go_on_with(kept)
        bounds = (self.log_start_offset, end_offset)
        return self._begin_truncation(
            TruncationJob(self._disk, self.directory, aside, kept, self._snapshots, bounds)
        )

    def plan_start_over(self, offset: int, now_ms: int) -> StartOverJob:
        """Drop everything and begin at `offset`; the job that does, see `plan_truncation`. Readers see the old log until `on_truncated`.

        The high watermark on disk must not be above the old log's start. With the next checkpoint goes the new one.
        """
        self._check_settled()
        assert not self._swapping
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
        self._go_on_with((job.segment,))
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
        self._check_settled()
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
        self._go_on_with(sorted([*kept, job.segment], key=base_offset_of))
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
        self._check_settled()
        if self._flushing:
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
            self._check_settled()
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
        self._check_settled()
        assert not self._swapping
        assert [segment.base_offset for segment in segments] == self.base_offsets
        self._go_on_with(segments)
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
