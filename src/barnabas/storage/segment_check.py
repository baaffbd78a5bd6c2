"""Everything that can be said of one segment by looking at it: its batches, its holes, its indexes.

Job: one walk over the log file that feeds every check. Must not know other segments but for the bounds given, nor what is
to be done about what it finds.

Invariant: nothing is changed; memory is bounded by the transactions that are open at once and the damage that is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.epochs import EpochEntry
from barnabas.storage.checked import is_wrong_epoch
from barnabas.storage.epoch_spans import NO_EPOCHS
from barnabas.storage.index_check import OffsetIndexCheck, TimeIndexCheck
from barnabas.storage.names import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from barnabas.storage.transaction_index import AbortedTransaction, decode_index
from barnabas.storage.walk import Damaged, LogWalk, Whole
from barnabas.wire.batch import BatchError
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.ports import Disk, File
    from barnabas.storage.epoch_spans import EpochSpans
    from barnabas.storage.filler import LostMarker
    from barnabas.storage.transaction_walk import Transactions
    from barnabas.wire.batch import BatchHeader


class Hole(NamedTuple):
    """Offsets that cannot be read, and the bytes in their place: none where they are simply not there."""

    position: int
    size: int
    first_offset: int
    #: The last one; below the first where nobody can tell, at the end of a log.
    last_offset: int
    reason: str
    is_torn: bool = False
    #: Of aborted transactions, in order: where readers must find an end.
    markers: tuple[LostMarker, ...] = ()


class WrongEpoch(NamedTuple):
    """A good batch that names another leader epoch than its log knows: no checksum covers that field."""

    position: int
    base_offset: int
    found: int
    epoch: int


@dataclass(slots=True)
class SegmentReport:
    """What one segment is."""

    base_offset: int
    size_bytes: int
    batch_count: int = 0
    record_count: int = 0
    #: The offset after the last good record.
    end_offset: int = 0
    holes: list[Hole] = field(default_factory=list)
    #: Ending of an index file -> what is wrong with it.
    index_problems: dict[str, str] = field(default_factory=dict)
    #: Some batch lacks records, as compaction leaves them; one without any may also stand for what is lost.
    is_sparse: bool = False
    #: Where each leader epoch is first met.
    epochs: list[EpochEntry] = field(default_factory=list)
    wrong_epochs: list[WrongEpoch] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Place:
    """Where a segment stands in its log."""

    directory: str
    base_offset: int
    #: The base offset of the next one; None for the last.
    end_offset: int | None
    #: Compaction leaves gaps: they are no holes.
    compacted: bool
    #: The log is known to have reached this offset.
    known_end: int = 0
    #: The log's leader epochs, if anything vouches for them.
    epochs: EpochSpans = NO_EPOCHS


#: Relative offsets have four bytes in the indexes.
MAX_OFFSETS: Final = 2**31


def check_segment(
    disk: Disk, place: Place, transactions: Transactions, progress: Callable[[int], None]
) -> SegmentReport:
    """Look at a segment from end to end; `progress` gets the bytes as they are passed."""
    return _Check(disk, place, transactions).run(progress)


class _Check:
    def __init__(self, disk: Disk, place: Place, transactions: Transactions) -> None:
        self._disk = disk
        self._place = place
        self._transactions = transactions
        base = place.base_offset
        self._log = disk.open(self._path(LOG))
        self._report = SegmentReport(base, self._log.size(), end_offset=base)
        offsets, times = self._open(OFFSET_INDEX), self._open(TIME_INDEX)
        self._offsets = OffsetIndexCheck(offsets, base) if offsets else None
        self._times = TimeIndexCheck(times, base) if times else None
        end = place.end_offset if place.end_offset is not None else base + MAX_OFFSETS
        self._walk = LogWalk(
            self._log, first_offset=base, end_offset=end, may_have_gaps=place.compacted
        )
        self._bad: Damaged | None = None
        self._abort_markers: dict[tuple[int, int], None] = {}
        self._indexed, self._index_problem = self._read_aborted()

    def run(self, progress: Callable[[int], None]) -> SegmentReport:
        for piece in self._walk.pieces():
            if isinstance(piece, Whole):
                self._on_batch(piece)
            else:
                self._on_damage(piece)
            progress(piece.size)
        self._finish()
        return self._report

    def _path(self, suffix: str) -> str:
        return f"{self._place.directory}/{file_name(self._place.base_offset, suffix)}"

    def _open(self, suffix: str) -> File | None:
        try:
            return self._disk.open(self._path(suffix))
        except FileNotFoundError:
            self._report.index_problems[suffix] = "it is missing"
            return None

    # The log

    def _on_batch(self, piece: Whole) -> None:
        header, report = piece.header, self._report
        self._close_hole(piece.position, header.base_offset)
        report.batch_count += 1
        report.record_count += header.record_count
        if 0 < header.record_count <= header.last_offset_delta:
            report.is_sparse = True
        report.end_offset = header.next_offset
        self._note_epoch(piece.position, header)
        if self._offsets is not None:
            self._offsets.on_batch(piece.position, header)
        if self._times is not None:
            self._times.on_batch(header)
        self._follow_transaction(piece)

    def _note_epoch(self, position: int, header: BatchHeader) -> None:
        found, offset, epochs = (
            header.partition_leader_epoch,
            header.base_offset,
            self._report.epochs,
        )
        expected, _ = self._place.epochs.at(offset)
        if is_wrong_epoch(found, expected):
            self._report.wrong_epochs.append(WrongEpoch(position, offset, found, expected))
        elif found > (epochs[-1].epoch if epochs else -1):
            epochs.append(EpochEntry(found, offset))

    def _on_damage(self, piece: Damaged) -> None:
        self._bad = piece
        if self._offsets is not None:
            self._offsets.on_hole(piece.position + piece.size)
        if self._times is not None:
            self._times.on_hole()

    def _follow_transaction(self, piece: Whole) -> None:
        header, batch = piece.header, memoryview(b"")
        if header.is_control:
            batch = self._walk.read(piece)
            marker = find_marker(batch)
            if marker is not None and not marker.commit:
                self._abort_markers[header.producer_id, header.base_offset] = None
        aborted = self._transactions.on_batch(header, batch)
        if aborted is not None:
            self._report.aborted.append(aborted)

    def _close_hole(self, position: int, next_offset: int) -> None:
        """Write down what is missing between the last good batch and this offset."""
        bad, self._bad = self._bad, None
        first, last = self._report.end_offset, next_offset - 1
        if bad is None and (last < first or self._place.compacted):
            return
        markers = self._lost_markers(first, last)
        if bad is not None:
            hole = Hole(bad.position, bad.size, first, last, bad.reason, bad.is_torn, markers)
        else:
            hole = Hole(position, 0, first, last, "records are missing", markers=markers)
        self._report.holes.append(hole)

    def _lost_markers(self, first_offset: int, last_offset: int) -> tuple[LostMarker, ...]:
        """Find which aborted transactions ended in a hole; the index goes on to tell of them."""
        lost = [one for one in self._indexed if first_offset <= one.last_offset <= last_offset]
        self._report.aborted += lost
        return tuple(self._transactions.lost_markers(lost, first_offset, last_offset))

    # The end

    def _finish(self) -> None:
        report, closed = self._report, self._place.end_offset is not None
        if self._place.end_offset is not None:
            self._close_hole(report.size_bytes, self._place.end_offset)
        elif self._bad is not None:
            known_end = min(self._place.known_end, self._place.base_offset + MAX_OFFSETS)
            self._close_hole(report.size_bytes, max(report.end_offset, known_end))
        if self._offsets is not None:
            self._offsets.finish()
            self._note_index(OFFSET_INDEX, self._offsets.problem)
        if self._times is not None:
            self._times.finish(closed=closed)
            self._note_index(TIME_INDEX, self._times.problem)
        self._note_index(TXN_INDEX, self._transaction_index_problem())
        self._log.close()

    def _note_index(self, suffix: str, problem: str) -> None:
        if problem:
            self._report.index_problems[suffix] = problem

    def _read_aborted(self) -> tuple[list[AbortedTransaction], str]:
        """Return what the index says, or what is wrong with it."""
        try:
            return decode_index(self._disk.read_file(self._path(TXN_INDEX))), ""
        except FileNotFoundError:
            return [], ""
        except BatchError as problem:
            return [], str(problem)

    def _transaction_index_problem(self) -> str:
        if self._index_problem:
            return self._index_problem
        entries = {(one.producer_id, one.last_offset): one for one in self._indexed}
        for one in self._report.aborted:
            found = entries.get((one.producer_id, one.last_offset))
            if found is None:
                return f"the transaction aborted at offset {one.last_offset} is not in it"
            if not self._agrees(found, one):
                return f"the transaction aborted at offset {one.last_offset} is another in it"
        ends = {
            *self._abort_markers,
            *((m.producer_id, m.offset) for h in self._report.holes for m in h.markers),
        }
        for one in self._indexed:
            if (one.producer_id, one.last_offset) not in ends:
                return f"no transaction was aborted at offset {one.last_offset}"
        return ""

    def _agrees(self, entry: AbortedTransaction, seen: AbortedTransaction) -> bool:
        """Tell whether an entry would make readers leave out what they must, and nothing else.

        Records of the transaction may be gone, to retention, compaction or damage, so that it seems to begin later.
        """
        if self._transactions.is_patchy or self._place.compacted:
            return True
        if entry.first_offset > seen.first_offset:
            return False
        begins_before = entry.first_offset < min(seen.first_offset, self._place.base_offset)
        is_first = begins_before or entry.first_offset == seen.first_offset
        return is_first and entry.last_stable_offset <= seen.last_stable_offset
