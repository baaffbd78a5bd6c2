"""A log that grows: segments, one after another, the files beside them, and what happens when a disk fails.

Job: begin a segment when it is time, keep epochs, snapshots and checksums in step with it, know up to where an append need not ask.
Must not know batches' contents (`log_writer.py`), nor how records go (`log.py`).

Invariants: the last segment takes the appends; after an OSError everything in memory is as before the call and so is what the
files count for, or, where that cannot be had, the log is broken: then every later call raises BrokenLogError, and opening it
again finds all that was acknowledged. Between the planning of a cut and `on_truncated` its files do not fit what is in memory: whatever
would write or sync files, change segments, epochs, producers or the start raises BeingCutError then, and a drop plans nothing.
"""

from __future__ import annotations

from errno import EBUSY, EIO
from typing import TYPE_CHECKING, Final

from barnabas.core.epochs import LeaderEpochs
from barnabas.storage import checksums, epoch_file
from barnabas.storage.broken_log import BeingCutError, BrokenLogError
from barnabas.storage.checksums import NO_SUMS, sum_of
from barnabas.storage.epoch_history import write_epochs
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY
from barnabas.storage.log_reader import LogReader
from barnabas.storage.names import LEADER_EPOCHS, TXN_INDEX, file_name
from barnabas.storage.segment import MAX_RELATIVE_OFFSET, Segment, remove_files
from barnabas.wire.batch import NO_TIMESTAMP, BatchError

if TYPE_CHECKING:
    from barnabas.model.config import LogConfig
    from barnabas.ports import Disk, Rng
    from barnabas.storage.flush import FlushJob
    from barnabas.storage.recovery import Loaded
    from barnabas.storage.truncation import TruncationJob
    from barnabas.wire.batch import BatchHeader

_NEVER: Final = 2**63 - 1
#: Below every timestamp, also NO_TIMESTAMP: makes the next append look closer.
_ALWAYS: Final = -2


class RollingLog(LogReader):
    """See the module."""

    __slots__ = (
        "_broken",
        "_closed_unflushed",
        "_disk",
        "_entries_left",
        "_flush_messages",
        "_flushing",
        "_index_interval",
        "_may_have_gaps",
        "_names_changes",
        "_other_sums",
        "_rng",
        "_roll_bytes",
        "_roll_offset",
        "_roll_timestamp",
        "_snapshots",
        "_truncating",
        "config",
        "directory",
        "epochs",
        "producers",
        "recovery_point",
    )

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, loaded: Loaded, rng: Rng | None
    ) -> None:
        """Take over what `recovery.load` found."""
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
        #: Counts creations, renames and removals in the folder.
        self._names_changes = int(loaded.report.names_changed)
        self._closed_unflushed = self._has_closed_unflushed()
        self._broken: OSError | None = None
        self._flushing: FlushJob | None = None
        self._truncating: TruncationJob | None = None
        self._may_have_gaps = loaded.may_have_gaps
        #: Of small files beside the log that are not its own.
        self._other_sums = NO_SUMS
        self.configure(config)

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

    def _allow_gaps(self) -> None:
        """Take offsets without records for no loss: the leader has none there either."""
        self._may_have_gaps = True
        for segment in self._segments:
            segment.may_have_gaps = True

    # Rolling

    def roll(self, now_ms: int) -> None:
        """Close the active segment and go on in a new one; nothing if it is empty."""
        self._check_settled()
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
        self._check_settled()
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
            sums.update(self._other_sums)
            path = f"{self.directory}/{checksums.FILE_NAME}"
            self._disk.write_file_atomically(path, checksums.encode(sums), sync=False)
            self._names_changes += 1

    def _has_closed_unflushed(self) -> bool:
        return self._active.base_offset > self.recovery_point or any(
            segment.unsynced for segment in self._segments[:-1]
        )

    # Leader epochs

    def assign_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        """Note that the leader epoch starts here, or at an offset behind, on disk too; on OSError it is as before."""
        self._check_settled()
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

    # Trouble

    @property
    def is_broken(self) -> bool:
        """Tell whether a failure left the files in doubt, so that nothing may be appended any more."""
        return self._broken is not None

    @property
    def is_being_cut(self) -> bool:
        """Tell whether a cut was planned whose files have not followed yet: see the module."""
        return self._truncating is not None

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

    def _check_settled(self) -> None:
        """Raise unless the files are what memory says: before anything but reading."""
        self._check_usable()
        if self._truncating is not None:
            raise BeingCutError(EBUSY, "the log is being cut", self.directory)
