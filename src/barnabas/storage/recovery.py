"""Opening a partition's folder: what is there, what of it is good, and what has to be built again.

| how the log was left | segments below the recovery point         | the others, and the active one          |
|----------------------|-------------------------------------------|-----------------------------------------|
| closed cleanly       | indexes are looked at, data is not        | same; the log's end is walked from the  |
|                      |                                           | last index entry                        |
| in any other way     | same                                      | every batch is checked; cut at the first|
|                      |                                           | bad one, later segments taken away      |

A missing or damaged index is built again by checking its segment (`segment_opening.py`). Must not know appends, reads or flushing.

Bad bytes where all was synced are damage: they go to quarantine and the good ones around them stay (`rescue.py`). Bad bytes
in what was not synced are what a crash leaves: behind them nothing can be vouched for, so the log ends there; what is cut off
goes to quarantine, too. Damage in the data of synced segments that shows in no index is found when it is first read.

Invariants of what is returned: at least one segment, in order of base offset; the last one's bytes are
whole batches up to `size`; epochs and producers cover exactly the records up to `log_end_offset`. Nothing
is removed but what `leftovers.py` says.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.core.epochs import LeaderEpochs
from barnabas.core.producer_state import ProducerStates
from barnabas.storage import checksums, quarantine
from barnabas.storage.epoch_history import read_epochs, write_epochs
from barnabas.storage.epoch_spans import NO_END
from barnabas.storage.leftovers import clear_leftovers
from barnabas.storage.names import (
    LEADER_EPOCHS,
    LOG,
    TXN_INDEX,
    file_name,
    offset_of,
    segment_bases,
)
from barnabas.storage.replay import replay, walk
from barnabas.storage.rescue import Lost
from barnabas.storage.scan import Scan
from barnabas.storage.segment import Segment, remove_files
from barnabas.storage.segment_opening import RecoveryReport, SegmentOpener
from barnabas.storage.snapshots import Snapshots
from barnabas.storage.transaction_index import read_index
from barnabas.wire.batch import BatchError, checksum_matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.model.config import LogConfig
    from barnabas.ports import Disk
    from barnabas.storage.log_left import LogLeft
    from barnabas.wire.batch import BatchHeader


@dataclass(slots=True)
class Loaded:
    """The parts of an open log."""

    segments: list[Segment]
    snapshots: Snapshots
    epochs: LeaderEpochs
    producers: ProducerStates
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    #: Offsets without records are no loss.
    may_have_gaps: bool
    report: RecoveryReport


def load(disk: Disk, directory: str, config: LogConfig, left: LogLeft, *, now_ms: int) -> Loaded:
    """Open the folder of one partition. OSError leaves files that open the same way again."""
    return _Loading(disk, directory, config, left, now_ms).run()


class _Loading:
    """One run of `load`, so that its steps need not pass ten things around."""

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, left: LogLeft, now_ms: int
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.left = left
        self.now_ms = now_ms
        self.may_have_gaps = config.compact or left.was_compacted
        self.report = RecoveryReport()
        self.segments: list[Segment] = []
        self.producers = ProducerStates()
        self._keep_lost_logs()
        found = disk.list(directory)
        self.names = clear_leftovers(disk, directory, found)
        self.report.names_changed = self.names != found
        self.recovery_point = NO_END if left.clean else left.recovery_point
        self.sums = checksums.read(disk, directory)
        self.snapshots = Snapshots(disk, directory, self.names, self.sums)
        if self.snapshots.latest >= 0 and not self.snapshots.is_latest_known:
            self.sums.clear()  # somebody else has written here since
            self.snapshots.sums.clear()
        self.saved_epochs = read_epochs(
            disk,
            directory,
            self.sums.get(LEADER_EPOCHS),
            end_offset=self.recovery_point,
            clean=left.clean,
        )
        self.epochs = LeaderEpochs(self.saved_epochs.entries or ())
        self.epochs_start = self.saved_epochs.known.start
        self.opener = SegmentOpener(
            disk, directory, config.index_interval_bytes, left, now_ms, self.may_have_gaps,
            self.names, self.sums, self.saved_epochs.known, self.report,
        )  # fmt: skip
        self.start_offset = left.start_offset(self.epochs_start)

    def run(self) -> Loaded:
        """Load, check, repair, in the order in which each step needs the one before."""
        bases = self._drop_before_start(segment_bases(self.names))
        sound = len(bases) if self.left.clean else self._count_sound(bases)
        for number, base in enumerate(bases[:sound], 1):
            following = bases[number] if number < len(bases) else None
            self._open_sound(base, following)
        if self.saved_epochs.entries is None:
            self._rebuild_epochs()
        if sound < len(bases):
            self._recover(bases[sound:])
        log_end_offset = self._find_log_end()
        if log_end_offset < self.left.known_end:
            log_end_offset = self._fill_end()
        if self.left.clean:
            self._load_producers(log_end_offset)
        if log_end_offset < self.start_offset:
            log_end_offset = self._start_anew()
        return self._finish(log_end_offset)

    def _finish(self, log_end_offset: int) -> Loaded:
        log_start_offset = max(self.start_offset, self.segments[0].base_offset)
        if self.left.is_start_known and self.start_offset < log_start_offset:
            self._tell_missing(self.start_offset, log_start_offset - 1)
        self.epochs.truncate_from_end(log_end_offset)
        self.epochs.truncate_from_start(log_start_offset)
        if self.epochs.entries != (self.saved_epochs.entries or []):
            write_epochs(self.disk, self.directory, self.epochs)
            self.report.names_changed = True
        for segment in self.segments:
            segment.epochs = self.saved_epochs.known
        self._sync_repairs()
        bases = [segment.base_offset for segment in self.segments]
        if self.snapshots.remove_strays(bases, log_start_offset, log_end_offset):
            self.report.names_changed = True
        if not self.left.clean and log_end_offset > log_start_offset:
            # So that a stop from here on need not walk through the segments again.
            self._write_snapshot(log_end_offset)
        return Loaded(
            segments=self.segments,
            snapshots=self.snapshots,
            epochs=self.epochs,
            producers=self.producers,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=min(self.recovery_point, log_end_offset),
            may_have_gaps=self.may_have_gaps,
            report=self.report,
        )

    def _sync_repairs(self) -> None:
        """Sync what was built again below the recovery point: the next start will take it as it is."""
        for segment, following in pairwise(self.segments):
            if segment.unsynced and following.base_offset <= self.recovery_point:
                segment.sync()

    # Segments

    def _drop_before_start(self, bases: Sequence[int]) -> list[int]:
        """Remove segments wholly before the log's start; the others.

        A crash came while they were dropped. It may have taken any of them, and the gap is no loss. If the leader epochs do not
        say that the start has moved, it may be the checkpoint that is wrong: then they are kept aside.
        """
        start_offset = self.start_offset
        dropped = [base for base, following in pairwise(bases) if following <= start_offset]
        is_doubted = self.epochs_start is not None and self.epochs_start < start_offset
        for base in dropped:
            if is_doubted:
                quarantine.take_segment(self.disk, self.directory, base)
                self.report.set_aside.append(base)
            remove_files(self.disk, self.directory, base)
            self.report.names_changed = True
        return list(bases[len(dropped) :])

    def _keep_lost_logs(self) -> None:
        """Let a log file that is gone be an empty one where its index of aborted transactions is there.

        That goes after the log when a segment is removed, and then it lies before the log's start. What it says of
        transactions that began in other segments still counts.
        """
        names = self.disk.list(self.directory)
        for base in [at for name in names if (at := offset_of(name, TXN_INDEX)) is not None]:
            is_gone = not any(name.startswith(file_name(base, LOG)) for name in names)
            if is_gone and self.left.log_start_offset <= base < self.left.known_end:
                self.disk.open(f"{self.directory}/{file_name(base, LOG)}", create=True)

    def _tell_missing(self, first_offset: int, last_offset: int) -> None:
        self.report.lost.append(Lost(first_offset, last_offset, 0, "the records are not there", ""))

    def _count_sound(self, bases: Sequence[int]) -> int:
        """Tell how many segments lie wholly below the recovery point."""
        sound = max(0, bisect_right(bases, self.left.recovery_point) - 1)
        if 0 < sound == len(bases) - 1 and not self._log_size(bases[sound]):
            # A roll that did not last may leave an empty file, and what was written since is before it.
            sound -= 1
        return sound

    def _log_size(self, base: int) -> int:
        return self.disk.open(f"{self.directory}/{file_name(base, LOG)}").size()

    def _open_sound(self, base: int, following: int | None) -> None:
        segment, is_index_right = self.opener.open_sound(base, following)
        if not is_index_right:
            self.report.rebuilt_indexes.append(base)
            self._rebuild_aborted(segment)
        self.segments.append(segment)

    def _fill_end(self) -> int:
        """Keep the offsets at the end whose records are known to have been there: they must not be given out again."""
        self.segments[-1] = self.opener.rescue(self.segments[-1].base_offset, None)
        return _walk_to_end(self.segments[-1])

    def _rebuild_aborted(self, segment: Segment) -> None:
        """Find the aborted transactions of a segment again, from the producers at its start on."""
        producers = ProducerStates()
        start = self.snapshots.load(producers, segment.base_offset) or 0
        for earlier in self.segments:
            walk(earlier, start, partial(replay, producers, into_index=False))
        segment.aborted.reset()
        segment.unsynced = True
        walk(segment, segment.base_offset, partial(replay, producers, into_index=True))

    def _recover(self, bases: Sequence[int]) -> None:
        """Check every batch from here on, and build indexes, producers and epochs from what is good."""
        if self.segments and bases[0] == self.recovery_point:
            # It may have been closed, its last time entry written, after the flush that moved the point here.
            self.segments[-1].unsynced = True
        sound = len(self.segments)
        while (damaged := self._find_end(bases)) is not None:
            # What was synced is damaged: with that taken out, once more.
            del self.segments[sound:]
            self.producers.clear()
            number = bases.index(damaged)
            self.opener.rescue(
                damaged, bases[number + 1] if number + 1 < len(bases) else None
            ).close()
            self.opener.names = self.disk.list(self.directory)

    def _find_end(self, bases: Sequence[int]) -> int | None:
        """Take over segments up to the first bad batch; where that had been synced, return the base offset of its segment."""
        # The file of epochs may be older than these batches; they tell themselves.
        self.epochs.truncate_from_end(bases[0])
        self._load_producers(bases[0])
        expected = None
        for number, base in enumerate(bases):
            if expected is not None and base != expected and self._is_gap(base, expected):
                self.report.cut_reason = f"offset {expected} is missing before segment {base}"
                self._take_away(bases[number:])
                return None
            if number:
                self._write_snapshot(base)
            segment, _ = self.opener.open_files(base)
            self.segments.append(segment)
            aborted = read_index(self.disk, f"{self.directory}/{file_name(base, TXN_INDEX)}")
            segment.aborted.reset()
            scan = Scan(segment, self.config.index_interval_bytes)
            scan.run(partial(self._replay, segment, into_index=True))
            if scan.problem and scan.next_offset < self.left.known_end:
                segment.aborted.replace(aborted)  # it tells of markers that are damaged
                return base
            self._cut(segment, scan)
            expected = scan.next_offset
            if scan.problem:
                self._take_away(bases[number + 1 :])
                return None
        return None

    def _is_gap(self, base: int, expected: int) -> bool:
        """Tell whether records between two segments were lost; compaction may have taken them, too."""
        return base < expected or not self.may_have_gaps

    def _cut(self, segment: Segment, scan: Scan) -> None:
        """Let a segment end before its first bad batch."""
        if scan.problem:
            quarantine.save_end(self.disk, segment, scan.valid_bytes)
            self.report.cut_reason = (
                f"{scan.problem} at byte {scan.valid_bytes} of {segment.log.path}"
            )
        scan.finish()
        self.report.scanned_bytes += scan.valid_bytes
        self.report.cut_bytes += scan.cut_bytes

    def _take_away(self, bases: Sequence[int]) -> None:
        """Put segments after a cut into quarantine, the last first, so that a crash leaves no gap."""
        for base in reversed(bases):
            quarantine.take_segment(self.disk, self.directory, base)
        self._remove(bases)

    def _remove(self, bases: Sequence[int]) -> None:
        """Remove segments, the last first, so that a crash leaves no gap."""
        for base in reversed(bases):
            remove_files(self.disk, self.directory, base)
        if bases:
            # At once: new records will get the same offsets, and these must not come back in their place.
            self.disk.sync_dir(self.directory)
        self.report.removed_segments.extend(bases)

    def _find_log_end(self) -> int:
        """Return the offset after the last record, taking the last segment's word for it if it is sound."""
        if not self.segments:
            base = self.start_offset
            segment = Segment.create(
                self.disk, self.directory, base, now_ms=self.now_ms, jitter_ms=0
            )
            self.segments.append(segment)
            self.report.names_changed = True
            return base
        last = self.segments[-1]
        if last.size == 0 and len(self.segments) > 1:
            end = self._end_of(-2)
            if end > last.base_offset:
                # Left by a roll that failed: the log went on in the segment before.
                self.segments.pop()
                self._remove([last.base_offset])
                return end
        return self._end_of(-1)

    def _end_of(self, number: int) -> int:
        try:
            return _walk_to_end(self.segments[number])
        except BatchError:
            self.segments[number] = self.opener.rebuild(self.segments[number], None)
            return _walk_to_end(self.segments[number])

    def _start_anew(self) -> int:
        """Put all segments aside: the log's start was moved past everything that is here."""
        self._take_away([segment.base_offset for segment in self.segments])
        self.segments.clear()
        self.epochs.clear()
        self.producers.clear()
        return self._find_log_end()

    # Epochs and producers

    def _write_snapshot(self, offset: int) -> None:
        self.snapshots.write(self.producers, offset)
        self.report.names_changed = True

    def _rebuild_epochs(self) -> None:
        """Take the history from the batches that will not be checked anyway."""
        for segment in self.segments:
            try:
                for _, header in segment.headers(0, segment.size):
                    self._replay_epoch(header)
            except BatchError:
                continue  # damage below the recovery point shows when it is read; the rest still counts

    def _load_producers(self, end_offset: int) -> None:
        """Bring producers up to `end_offset` from the newest snapshot before it and the batches since."""
        had_snapshots = self.snapshots.latest >= 0 or bool(self.snapshots.sums)
        start = self.snapshots.load(self.producers, end_offset)
        if start is None:
            if self.left.clean and not had_snapshots:
                return  # a log closed cleanly without one had no producers
            start = (
                0  # also before the log's start: transactions that are open may have begun there
            )
        ends = [segment.base_offset for segment in self.segments[1:]]
        for segment, segment_end in zip(self.segments, [*ends, end_offset], strict=False):
            if segment_end > start:
                walk(segment, start, partial(self._replay, into_index=False))

    def _replay_epoch(self, header: BatchHeader) -> None:
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _replay(
        self, segment: Segment, position: int, header: BatchHeader, *, into_index: bool
    ) -> None:
        self._replay_epoch(header)
        replay(self.producers, segment, position, header, into_index=into_index)


def _walk_to_end(segment: Segment) -> int:
    """Return the offset after the last record, checking the batches from the last index entry on, which must be right."""
    last = segment.offset_index.last
    position, indexed_offset = (last[1], segment.base_offset + last[0]) if last else (0, None)
    end = segment.base_offset
    for at, header in segment.headers(position, segment.size):
        if at == position and indexed_offset not in (None, header.last_offset):
            raise BatchError("the offset index does not fit the log")
        if not checksum_matches(memoryview(segment.log.read(at, header.size)), header):
            raise BatchError("a batch with a wrong checksum")
        end = header.next_offset
    return end
