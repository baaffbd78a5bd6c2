"""Opening a partition's folder: what is there, what of it is good, and what has to be built again.

| how the log was left | segments below the recovery point         | the others, and the active one          |
|----------------------|-------------------------------------------|-----------------------------------------|
| closed cleanly       | indexes are looked at, data is not        | same; the log's end is walked from the  |
|                      |                                           | last index entry                        |
| in any other way     | same                                      | every batch is checked; cut at the first|
|                      |                                           | bad one, later segments taken away      |

A missing or damaged index is built again by checking its segment. Must not know appends, reads or flushing.

Bad bytes where all was synced are damage: they go to quarantine and the good ones around them stay (`rescue.py`). Bad bytes
in what was not synced are what a crash leaves: behind them nothing can be vouched for, so the log ends there; what is cut off
goes to quarantine, too. Damage in the data of synced segments that shows in no index is found when it is first read.

Invariants of what is returned: at least one segment, in order of base offset; the last one's bytes are
whole batches up to `size`; epochs and producers cover exactly the records up to `log_end_offset`. Nothing
is removed but what `leftovers.py` says.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from barnabas.core.epochs import LeaderEpochs
from barnabas.core.producer_state import ProducerStates
from barnabas.storage import checksums, epoch_file, quarantine
from barnabas.storage.checksums import sum_of
from barnabas.storage.epoch_spans import NO_EPOCHS, EpochSpans
from barnabas.storage.index_fit import load_indexes
from barnabas.storage.leftovers import clear_leftovers
from barnabas.storage.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
    segment_bases,
)
from barnabas.storage.replay import replay
from barnabas.storage.rescue import Lost, Place, rescue
from barnabas.storage.scan import Scan
from barnabas.storage.segment import Segment, remove_files
from barnabas.storage.snapshots import Snapshots
from barnabas.storage.swap import SwapJob
from barnabas.storage.transaction_index import TransactionIndex, decode_index
from barnabas.wire.batch import BatchError, checksum_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.core.epochs import EpochEntry
    from barnabas.model.config import LogConfig
    from barnabas.ports import Disk
    from barnabas.storage.log_left import LogLeft
    from barnabas.storage.transaction_index import AbortedTransaction
    from barnabas.wire.batch import BatchHeader

    #: Called with a segment, the position of a batch in it, and its header.
    _Visit = Callable[[Segment, int, BatchHeader], None]

_NO_END: Final = 2**63 - 1


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log had to do, for the broker's own log."""

    scanned_bytes: int = 0
    #: Bytes taken off the end of damaged segments.
    cut_bytes: int = 0
    #: Where the first bad bytes were, and what was wrong; empty if nothing was.
    cut_reason: str = ""
    #: Base offsets of segments that lay after a cut.
    removed_segments: list[int] = field(default_factory=list)
    #: Damage in what had been synced.
    lost: list[Lost] = field(default_factory=list)
    #: Base offsets of segments before the log's start that are in quarantine: the leader epochs do not say that it moved.
    set_aside: list[int] = field(default_factory=list)
    #: Base offsets of segments whose indexes were built again.
    rebuilt_indexes: list[int] = field(default_factory=list)


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
    #: Files were created or removed, and a crash may still take that back.
    names_changed: bool
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
        self.names_changed = self.names != found
        self.recovery_point = _NO_END if left.clean else left.recovery_point
        self.sums = checksums.read(disk, directory)
        self.snapshots = Snapshots(disk, directory, self.names, self.sums)
        if self.snapshots.latest >= 0 and not self.snapshots.is_latest_known:
            self.sums.clear()  # somebody else has written here since
            self.snapshots.sums.clear()
        self.epochs, self.saved_epochs, self.known_epochs = self._load_epochs()
        self.epochs_start = self.known_epochs.start
        self.start_offset = left.start_offset(self.epochs_start)

    def run(self) -> Loaded:
        """Load, check, repair, in the order in which each step needs the one before."""
        bases = self._drop_before_start(segment_bases(self.names))
        sound = len(bases) if self.left.clean else self._count_sound(bases)
        for number, base in enumerate(bases[:sound], 1):
            following = bases[number] if number < len(bases) else None
            self.segments.append(self._open_sound(base, following))
        if self.saved_epochs is None:
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
        if self.epochs.entries != (self.saved_epochs or []):
            write_epochs(self.disk, self.directory, self.epochs)
            self.names_changed = True
        for segment in self.segments:
            segment.epochs = self.known_epochs
        self._sync_repairs()
        bases = [segment.base_offset for segment in self.segments]
        if self.snapshots.remove_strays(bases, log_start_offset, log_end_offset):
            self.names_changed = True
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
            names_changed=self.names_changed,
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
            self.names_changed = True
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

    def _open_files(self, base: int) -> tuple[Segment, bool]:
        """Open the files of a segment as they are; tell whether both indexes were there."""
        indexes_there = True
        files = []
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
            name = file_name(base, suffix)
            there = name in self.names
            indexes_there = indexes_there and there
            files.append(self.disk.open(f"{self.directory}/{name}", create=not there))
        aborted = TransactionIndex(self.disk, f"{self.directory}/{file_name(base, TXN_INDEX)}")
        segment = Segment(base, (files[0], files[1], files[2]), aborted, self.now_ms, 0)
        segment.size = segment.written_from = segment.log.size()
        segment.may_have_gaps = self.may_have_gaps
        self.names_changed = self.names_changed or not indexes_there
        return segment, indexes_there

    def _open_sound(self, base: int, following: int | None) -> Segment:
        """Open a segment whose data is taken as it is; its indexes must look right or are built again."""
        opened, indexes_there = self._open_files(base)
        segment = opened
        if not segment.size and following is not None and not self.may_have_gaps:
            return self._rescue(base, following)
        if not (indexes_there and load_indexes(segment)):
            segment = self._rebuild(segment, following)
        # One that was made again has its index of aborted transactions from the old one, and is no longer that.
        if segment is opened and not self._load_aborted(segment):
            self.report.rebuilt_indexes.append(base)
            self._rebuild_aborted(segment)
        return segment

    def _load_aborted(self, segment: Segment) -> bool:
        """Take over the index of aborted transactions; tell whether it is what was written."""
        name = file_name(segment.base_offset, TXN_INDEX)
        fits = name not in self.names or segment.aborted.load(segment.base_offset)
        known = self.sums.get(name)
        return fits and known in (None, segment.aborted.sum)

    def _rebuild(self, segment: Segment, following: int | None) -> Segment:
        """Build the indexes of a sound segment from its data; if that is damaged, make it again from what is good."""
        self.report.rebuilt_indexes.append(segment.base_offset)
        scan = Scan(segment, self.config.index_interval_bytes)
        scan.run(partial(_pass_by, segment))
        is_misplaced = following is not None and scan.next_offset > following
        if not scan.problem and not is_misplaced:
            scan.finish()
            self.report.scanned_bytes += scan.valid_bytes
            return segment
        return self._rescue(segment.base_offset, following)

    def _rescue(self, base: int, following: int | None) -> Segment:
        """Make a segment again from what is good of it, as far as it is known to have gone."""
        known_end = self.left.known_end if following is None else following
        end = following
        if end is None:
            end = known_end if self.left.clean and known_end > base else _NO_END
        place = Place(self.directory, base, end, known_end, self.known_epochs)
        cleaned, lost = rescue(
            self.disk, place,
            index_interval_bytes=self.config.index_interval_bytes, may_have_gaps=self.may_have_gaps,
        )  # fmt: skip
        job = SwapJob(self.disk, self.directory, cleaned, self.now_ms)
        job.run()
        if job.error is not None:
            raise job.error
        for path in job.deleted:
            self.disk.remove(path)
        self.names_changed = True
        self.report.lost += lost
        assert job.segment is not None
        job.segment.may_have_gaps = self.may_have_gaps
        return job.segment

    def _fill_end(self) -> int:
        """Keep the offsets at the end whose records are known to have been there: they must not be given out again."""
        self.segments[-1] = self._rescue(self.segments[-1].base_offset, None)
        return _walk_to_end(self.segments[-1])

    def _rebuild_aborted(self, segment: Segment) -> None:
        """Find the aborted transactions of a segment again, from the producers at its start on."""
        producers = ProducerStates()
        start = self.snapshots.load(producers, segment.base_offset)
        start = self.start_offset if start is None else start
        for earlier in self.segments:
            _walk(earlier, start, partial(replay, producers, into_index=False))
        segment.aborted.reset()
        segment.unsynced = True
        _walk(segment, segment.base_offset, partial(replay, producers, into_index=True))

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
            self._rescue(damaged, bases[number + 1] if number + 1 < len(bases) else None).close()
            self.names = self.disk.list(self.directory)

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
            segment, _ = self._open_files(base)
            self.segments.append(segment)
            aborted = self._read_aborted(base)
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

    def _read_aborted(self, base: int) -> list[AbortedTransaction]:
        try:
            path = f"{self.directory}/{file_name(base, TXN_INDEX)}"
            return decode_index(self.disk.read_file(path))
        except (FileNotFoundError, BatchError):
            return []

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
            self.names_changed = True
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
            self.segments[number] = self._rebuild(self.segments[number], None)
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
        self.names_changed = True

    def _load_epochs(self) -> tuple[LeaderEpochs, list[EpochEntry] | None, EpochSpans]:
        """Return the history, what its file says (None if there is no good one), and the history once more if that is sure."""
        try:
            content = self.disk.read_file(f"{self.directory}/{LEADER_EPOCHS}")
            epochs = LeaderEpochs(epoch_file.decode(content))
        except (FileNotFoundError, ValueError):
            return LeaderEpochs(), None, NO_EPOCHS
        entries, known = list(epochs.entries), self.sums.get(LEADER_EPOCHS)
        if known == sum_of(content):
            # After a crash the file may be older than what was written last.
            return epochs, entries, EpochSpans(entries, self.recovery_point)
        if known is not None and self.left.clean:
            return LeaderEpochs(), None, NO_EPOCHS
        return epochs, entries, NO_EPOCHS

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
            start = self.start_offset
        ends = [segment.base_offset for segment in self.segments[1:]]
        for segment, segment_end in zip(self.segments, [*ends, end_offset], strict=False):
            if segment_end > start:
                _walk(segment, start, partial(self._replay, into_index=False))

    def _replay_epoch(self, header: BatchHeader) -> None:
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _replay(
        self, segment: Segment, position: int, header: BatchHeader, *, into_index: bool
    ) -> None:
        self._replay_epoch(header)
        replay(self.producers, segment, position, header, into_index=into_index)


def _walk(segment: Segment, start: int, visit: _Visit) -> None:
    """Show the batches from the one with `start` on, without checking them."""
    try:
        position = segment.find_batch(start, segment.size)
        if position is not None:
            for at, header in segment.headers(position, segment.size):
                visit(segment, at, header)
    except BatchError:
        return  # damage below the recovery point shows when it is read; the rest still counts


def _pass_by(_segment: Segment, _position: int, _header: BatchHeader) -> None:
    """Take no notice of a batch."""


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


def write_epochs(disk: Disk, directory: str, epochs: LeaderEpochs) -> None:
    """Replace the leader-epoch file; the log's next flush brings it to the medium.

    Until then it is as safe as the batches it tells of: a scan after a crash reads the epochs from them.
    """
    path = f"{directory}/{LEADER_EPOCHS}"
    disk.write_file_atomically(path, epoch_file.encode(epochs.entries), sync=False)
