"""Whether a partition's folder is what it should be: every file in it, held against the others.

Job: find what is wrong and say it as findings that a person can act on. Must not know other partitions, nor what is to be done.

A finding is damage, or only a note: what any crash leaves and the next start puts right by itself (a torn end, indexes above
the recovery point, half-done deletions). Nothing is changed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.storage import checksums, epoch_file, partition_metadata, producer_snapshot
from barnabas.storage.checksums import sum_of
from barnabas.storage.epoch_spans import NO_END, NO_EPOCHS, EpochSpans
from barnabas.storage.index_check import ZEROS
from barnabas.storage.names import (
    CLEANED,
    DELETED,
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    SWAP,
    file_name,
    offset_of,
    segment_bases,
)
from barnabas.storage.segment_check import Place, SegmentReport, check_segment
from barnabas.storage.transaction_walk import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.core.epochs import EpochEntry
    from barnabas.model.ids import TopicId
    from barnabas.ports import Disk
    from barnabas.storage.segment_check import Hole

DAMAGE: Final = "damage"
NOTE: Final = "note"
#: So many gaps without a single bad byte come from compaction.
_MANY_GAPS: Final = 3


class Finding(NamedTuple):
    """Something that is not as it should be."""

    severity: str
    path: str
    reason: str
    #: What it is about, where that can be told; the last one below the first if the end is not known.
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(slots=True, frozen=True)
class FolderLeft:
    """What is known of a folder from outside of it."""

    #: The broker that wrote it stopped in order.
    clean: bool = False
    recovery_point: int = 0
    #: Both the recovery point and the high watermark were here or further: there were records up to here.
    known_end: int = 0
    compacted: bool = False
    #: A file says which logs are compacted; else what is in the log must tell.
    is_compacted_known: bool = False
    #: Where it was written down that the log starts; None if nowhere.
    log_start_offset: int | None = None


@dataclass(slots=True)
class PartitionReport:
    """What a partition's folder is."""

    directory: str
    segments: list[SegmentReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    topic_id: TopicId | None = None
    #: The leader epochs as the batches have them; and whether the file says something else.
    epochs: list[EpochEntry] = field(default_factory=list)
    epochs_differ: bool = False
    #: Names of snapshots that cannot be used.
    bad_snapshots: list[str] = field(default_factory=list)
    bad_metadata: bool = False

    @property
    def log_start_offset(self) -> int:
        """Where the first segment begins."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def log_end_offset(self) -> int:
        """The offset after the last good record."""
        return self.segments[-1].end_offset if self.segments else 0

    @property
    def repaired_end_offset(self) -> int:
        """Where the log ends once its holes are filled: a hole whose end is known counts."""
        last = self.segments[-1] if self.segments else None
        ends = [hole.last_offset + 1 for hole in last.holes] if last else []
        return max(self.log_end_offset, *ends) if ends else self.log_end_offset

    @property
    def cuts_end(self) -> bool:
        """Tell whether a repair would take something off the end."""
        holes = self.segments[-1].holes if self.segments else []
        return any(hole.last_offset < hole.first_offset for hole in holes)

    @property
    def record_count(self) -> int:
        """Records in good batches."""
        return sum(segment.record_count for segment in self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes in log files."""
        return sum(segment.size_bytes for segment in self.segments)


def verify_partition(
    disk: Disk, directory: str, left: FolderLeft, progress: Callable[[int], None]
) -> PartitionReport:
    """Look at all of a folder; `progress` gets the bytes of log files as they are passed."""
    return _Verification(disk, directory, left).run(progress)


def verify_segment(
    disk: Disk, directory: str, base: int, left: FolderLeft, progress: Callable[[int], None]
) -> PartitionReport:
    """Look at one segment of a folder, and at nothing else."""
    return _Verification(disk, directory, left).run_segment(base, progress)


def _read_known_epochs(disk: Disk, directory: str, left: FolderLeft) -> EpochSpans:
    """Return the leader epochs of a folder where its checksums vouch for them; after a crash the file may be older than the log's end."""
    try:
        content = disk.read_file(f"{directory}/{LEADER_EPOCHS}")
    except FileNotFoundError:
        return NO_EPOCHS
    if checksums.read(disk, directory).get(LEADER_EPOCHS) != sum_of(content):
        return NO_EPOCHS
    return EpochSpans(epoch_file.decode(content), NO_END if left.clean else left.known_end)


class _Verification:
    def __init__(self, disk: Disk, directory: str, left: FolderLeft) -> None:
        self._disk = disk
        self._directory = directory
        self._left = left
        self._names = disk.list(directory)
        self._report = PartitionReport(directory)
        self._epochs_start: int | None = None
        self._known_epochs = _read_known_epochs(disk, directory, left)

    def run(self, progress: Callable[[int], None]) -> PartitionReport:
        self._check_segments(segment_bases(self._names), progress)
        self._tell_segments()
        self._check_epochs()
        self._check_start()
        self._check_snapshots()
        self._check_metadata()
        self._check_leftovers()
        return self._report

    def run_segment(self, base: int, progress: Callable[[int], None]) -> PartitionReport:
        self._check_segments([base], progress)
        self._tell_segments()
        return self._report

    def _add(self, severity: str, name: str, reason: str, *offsets: int) -> None:
        path = f"{self._directory}/{name}"
        self._report.findings.append(Finding(severity, path, reason, *offsets))

    # Segments

    def _check_segments(self, wanted: Sequence[int], progress: Callable[[int], None]) -> None:
        transactions = Transactions()
        swaps = any(name.endswith(SWAP) for name in self._names)
        for base, end in pairwise([*segment_bases(self._names), None]):
            if base is None or base not in wanted:
                continue
            compacted = self._left.compacted or swaps
            place = Place(
                self._directory, base, end, compacted, self._left.known_end, self._known_epochs
            )
            try:
                report = check_segment(self._disk, place, transactions, progress)
            except FileNotFoundError:
                self._add(NOTE, file_name(base, LOG), "it went away: a broker is running here")
                continue
            self._report.segments.append(report)

    def _tell_segments(self) -> None:
        last_base = segment_bases(self._names)[-1:]
        is_compacted = not self._left.is_compacted_known and self._looks_compacted()
        for report in self._report.segments:
            if is_compacted:
                # What compaction took is no hole.
                report.holes = [hole for hole in report.holes if hole.size]
            is_last = [report.base_offset] == last_base
            for hole in report.holes:
                self._tell_hole(report.base_offset, hole, is_last=is_last)
            for wrong in report.wrong_epochs:
                reason = f"a batch of leader epoch {wrong.found}, not {wrong.epoch} (at byte {wrong.position})"
                offsets = (wrong.base_offset, wrong.base_offset)
                self._add(DAMAGE, file_name(report.base_offset, LOG), reason, *offsets)
            self._tell_indexes(report, is_last=is_last)

    def _looks_compacted(self) -> bool:
        """Tell whether compaction has been here: batches that lack records, or more gaps than damage makes."""
        segments = self._report.segments
        gaps = [hole for segment in segments for hole in segment.holes if not hole.size]
        return len(gaps) >= _MANY_GAPS or any(segment.is_sparse for segment in segments)

    def _check_start(self) -> None:
        """Look whether segments are missing before the first one."""
        report, expected = self._report, self._left.log_start_offset
        if expected is None and self._left.clean and not report.epochs_differ:
            expected = self._epochs_start
        if report.segments and expected is not None and expected < report.log_start_offset:
            report.epochs_differ = True
            last = report.log_start_offset - 1
            self._add(DAMAGE, file_name(expected, LOG), "records are missing", expected, last)

    def _tell_hole(self, base: int, hole: Hole, *, is_last: bool) -> None:
        is_end = is_last and hole.last_offset < hole.first_offset
        expected = is_end and hole.is_torn and not self._left.clean
        where = f"{hole.size} bytes from byte {hole.position}" if hole.size else "no bytes"
        reason = f"{hole.reason} ({where})"
        if expected:
            reason += "; the next start cuts it off"
        severity = NOTE if expected else DAMAGE
        self._add(severity, file_name(base, LOG), reason, hole.first_offset, hole.last_offset)

    def _tell_indexes(self, report: SegmentReport, *, is_last: bool) -> None:
        unsynced = is_last or report.end_offset > self._left.recovery_point
        for suffix, problem in report.index_problems.items():
            expected = unsynced and not self._left.clean
            if expected and problem == ZEROS:
                continue  # Kafka makes its indexes larger than they are, and trims them when it closes them
            reason = f"{problem}; the next start builds it again" if expected else problem
            severity = NOTE if expected else DAMAGE
            self._add(severity, file_name(report.base_offset, suffix), reason)

    # The other files

    def _check_epochs(self) -> None:
        for segment in self._report.segments:
            for entry in segment.epochs:
                if entry.epoch > (self._report.epochs[-1].epoch if self._report.epochs else -1):
                    self._report.epochs.append(entry)
        problem = self._epoch_problem()
        if problem:
            self._report.epochs_differ = True
            self._add(DAMAGE if self._left.clean else NOTE, LEADER_EPOCHS, problem)

    def _epoch_problem(self) -> str:
        try:
            content = self._disk.read_file(f"{self._directory}/{LEADER_EPOCHS}")
            entries = epoch_file.decode(content)
        except FileNotFoundError:
            return "it is missing" if self._report.epochs else ""
        except ValueError as problem:
            return str(problem)
        starts = [entry.start_offset for entry in entries]
        self._epochs_start = starts[0] if starts else None
        if starts != sorted(set(starts)) or [e.epoch for e in entries] != sorted(
            {entry.epoch for entry in entries}
        ):
            return "epochs and offsets do not rise"
        for epoch, offset in self._report.epochs:
            at = bisect_right(starts, offset) - 1
            if at >= 0 and entries[at].epoch != epoch:
                return f"offset {offset} is of epoch {epoch}, not {entries[at].epoch}"
        if self._report.epochs and not entries:
            return "it is empty, the log is not"
        return ""

    def _check_snapshots(self) -> None:
        for name in self._names:
            offset = offset_of(name, SNAPSHOT)
            if offset is None:
                continue
            try:
                producer_snapshot.decode(self._disk.read_file(f"{self._directory}/{name}"))
            except ValueError as problem:
                self._report.bad_snapshots.append(name)
                self._add(DAMAGE if self._left.clean else NOTE, name, str(problem))
                continue
            end = self._report.repaired_end_offset
            if offset > end:
                self._report.bad_snapshots.append(name)
                self._add(NOTE, name, f"it is behind the log's end at {end}")

    def _check_metadata(self) -> None:
        name = partition_metadata.FILE_NAME
        try:
            content = self._disk.read_file(f"{self._directory}/{name}")
            self._report.topic_id = partition_metadata.decode(content)
        except FileNotFoundError:
            self._add(NOTE, name, "it is missing; the next start writes it")
        except ValueError as problem:
            self._report.bad_metadata = True
            self._add(DAMAGE, name, str(problem))

    def _check_leftovers(self) -> None:
        for name in self._names:
            if name.endswith((DELETED, CLEANED, SWAP)):
                self._add(NOTE, name, "left by work that was cut short; the next start finishes it")
        if not self._report.segments:
            self._add(NOTE, "", "there is no segment; the next start makes one")
