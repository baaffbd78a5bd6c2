"""Opening the files of one segment, and making again what of them is not good.

Job: a segment whose data was synced, from its files; its indexes and, if need be, its data made again. Must not know producers, the
other segments, nor what a crash leaves behind the recovery point (`recovery.py`).

Bad bytes are damage here: they go to quarantine and the good ones around them stay (`rescue.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.storage.epoch_spans import NO_END, EpochSpans
from barnabas.storage.index_fit import load_indexes
from barnabas.storage.names import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from barnabas.storage.rescue import Lost, Place, rescue
from barnabas.storage.scan import Scan
from barnabas.storage.segment import Segment
from barnabas.storage.swap import SwapJob
from barnabas.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.ports import Disk
    from barnabas.storage.checksums import Sum
    from barnabas.storage.log_left import LogLeft
    from barnabas.wire.batch import BatchHeader


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
    #: Files were created or removed, and a crash may still take that back.
    names_changed: bool = False


@dataclass(slots=True)
class SegmentOpener:
    """See the module."""

    disk: Disk
    directory: str
    index_interval_bytes: int
    left: LogLeft
    now_ms: int
    #: Offsets without records are no loss.
    may_have_gaps: bool
    #: What is in the folder.
    names: Sequence[str]
    #: What the small files are known to have been.
    sums: Mapping[str, Sum]
    #: The log's leader epochs, as far as anything vouches for them.
    known_epochs: EpochSpans
    report: RecoveryReport

    def open_files(self, base: int) -> tuple[Segment, bool]:
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
        self.report.names_changed |= not indexes_there
        return segment, indexes_there

    def open_sound(self, base: int, following: int | None) -> tuple[Segment, bool]:
        """Open a segment whose data is taken as it is; its indexes must look right or are built again.

        Tell whether its index of aborted transactions is right: it cannot be built from this segment alone.
        """
        opened, indexes_there = self.open_files(base)
        segment = opened
        if not segment.size and following is not None and not self.may_have_gaps:
            return self.rescue(base, following), True
        if not (indexes_there and load_indexes(segment)):
            segment = self.rebuild(segment, following)
        # One that was made again has its index of aborted transactions from the old one, and is no longer that.
        return segment, segment is not opened or self._load_aborted(segment)

    def _load_aborted(self, segment: Segment) -> bool:
        """Take over the index of aborted transactions; tell whether it is what was written."""
        name = file_name(segment.base_offset, TXN_INDEX)
        fits = name not in self.names or segment.aborted.load(segment.base_offset)
        known = self.sums.get(name)
        return fits and known in (None, segment.aborted.sum)

    def rebuild(self, segment: Segment, following: int | None) -> Segment:
        """Build the indexes of a sound segment from its data; if that is damaged, make it again from what is good."""
        self.report.rebuilt_indexes.append(segment.base_offset)
        scan = Scan(segment, self.index_interval_bytes)
        scan.run(_pass_by)
        is_misplaced = following is not None and scan.next_offset > following
        if not scan.problem and not is_misplaced:
            scan.finish()
            self.report.scanned_bytes += scan.valid_bytes
            return segment
        return self.rescue(segment.base_offset, following)

    def rescue(self, base: int, following: int | None) -> Segment:
        """Make a segment again from what is good of it, as far as it is known to have gone."""
        known_end = self.left.known_end if following is None else following
        end = following
        if end is None:
            end = known_end if self.left.clean and known_end > base else NO_END
        place = Place(self.directory, base, end, known_end, self.known_epochs)
        cleaned, lost = rescue(
            self.disk, place,
            index_interval_bytes=self.index_interval_bytes, may_have_gaps=self.may_have_gaps,
        )  # fmt: skip
        job = SwapJob(self.disk, self.directory, cleaned, self.now_ms)
        job.run()
        if job.error is not None:
            raise job.error
        for path in job.deleted:
            self.disk.remove(path)
        self.report.names_changed = True
        self.report.lost += lost
        assert job.segment is not None
        job.segment.may_have_gaps = self.may_have_gaps
        return job.segment


def _pass_by(_position: int, _header: BatchHeader) -> None:
    """Take no notice of a batch."""
