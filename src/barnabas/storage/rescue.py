"""Making a segment again without its damage, while the log is in use or being opened.

Job: copy the good batches of a damaged segment into a new one, save the bad bytes in the partition's quarantine, and put an
empty batch in the place of the offsets that are gone: so every offset keeps its meaning and readers go on behind it. A batch that
names a wrong leader epoch is good otherwise, and gets the right one. Must not know who found the damage, nor who puts the new segment in place (`swap.py`).

For data that had been synced, and so was promised to last. What a crash leaves of data that had not been is cut off at the
first bad batch instead (`recovery.py`). The same for directories that nobody serves is `repair.py`.

Invariant: the bad bytes are on the medium in quarantine before the new segment is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.epochs import EpochEntry
from barnabas.storage.checked import is_wrong_epoch
from barnabas.storage.cleaned_segment import CleanedSegment, CleanedWriter
from barnabas.storage.epoch_spans import NO_EPOCHS, EpochSpans
from barnabas.storage.filler import fill
from barnabas.storage.names import LOG, TXN_INDEX, file_name
from barnabas.storage.rebuild import save_copy
from barnabas.storage.transaction_index import decode_index
from barnabas.storage.transaction_walk import Transactions
from barnabas.storage.walk import Damaged, LogWalk
from barnabas.wire.batch import NO_TIMESTAMP, BatchError, headers, stamp

if TYPE_CHECKING:
    from barnabas.ports import Disk
    from barnabas.storage.transaction_index import AbortedTransaction
    from barnabas.wire.batch import BatchHeader

_BUFFER_BYTES: Final = 1024 * 1024

#: Batches from elsewhere, by the first and last offset of what is damaged here.
Spares = Mapping[tuple[int, int], bytes]
NO_SPARES: Final[Spares] = {}


class Lost(NamedTuple):
    """Offsets whose records are gone, and where the bytes are that were in their place; none if there were none."""

    first_offset: int
    #: Below the first where only bytes behind the last record are bad.
    last_offset: int
    size_bytes: int
    reason: str
    path: str

    def __str__(self) -> str:
        """Say it for the broker's log."""
        kept = f"; {self.size_bytes} bytes are kept as {self.path}" if self.path else ""
        if self.last_offset < self.first_offset:
            return f"bytes behind offset {self.first_offset - 1} are damaged ({self.reason}){kept}"
        return f"offsets {self.first_offset} to {self.last_offset} are lost ({self.reason}){kept}"


class Place(NamedTuple):
    """A segment within its log."""

    directory: str
    base_offset: int
    #: The following segment's base offset, or one that no record has.
    end_offset: int
    #: Up to where the offsets are known to have been given out.
    known_end_offset: int
    #: The log's leader epochs, if anything vouches for them.
    epochs: EpochSpans = NO_EPOCHS


def rescue(
    disk: Disk,
    place: Place,
    *,
    index_interval_bytes: int,
    may_have_gaps: bool,
    spares: Spares = NO_SPARES,
) -> tuple[CleanedSegment, list[Lost]]:
    """Write the new segment; it, and what it lacks. Blocks. `may_have_gaps`: missing offsets alone are no loss."""
    work = _Rescue(disk, place, index_interval_bytes, spares, may_have_gaps=may_have_gaps)
    return work.run()


class _Rescue:
    def __init__(
        self,
        disk: Disk,
        place: Place,
        index_interval_bytes: int,
        spares: Spares,
        *,
        may_have_gaps: bool,
    ) -> None:
        self._spares = spares
        self._disk = disk
        self._place = place
        self._may_have_gaps = may_have_gaps
        self._file = disk.open(f"{place.directory}/{file_name(place.base_offset, LOG)}")
        self._writer = CleanedWriter(
            disk,
            place.directory,
            place.base_offset,
            index_interval_bytes=index_interval_bytes,
            buffer_bytes=_BUFFER_BYTES,
            throttle=_no_throttle,
        )
        self._next_offset = place.base_offset
        #: That of the last good batch.
        self._epoch = 0
        self._damage: Damaged | None = None
        self._lost: list[Lost] = []
        self._transactions = Transactions()
        self._aborted = self._read_aborted()

    def run(self) -> tuple[CleanedSegment, list[Lost]]:
        place = self._place
        walk = LogWalk(
            self._file,
            first_offset=place.base_offset,
            end_offset=place.end_offset,
            may_have_gaps=self._may_have_gaps,
            deep=False,
        )
        for piece in walk.pieces():
            if isinstance(piece, Damaged):
                self._damage = piece
                continue
            header, batch = piece.header, walk.read(piece)
            self._fill(header.base_offset)
            epoch, _ = place.epochs.at(header.base_offset)
            if is_wrong_epoch(header.partition_leader_epoch, epoch):
                batch = memoryview(bytearray(batch))
                stamp(batch, header.base_offset, epoch)
            self._append(header, batch)
            self._next_offset = header.next_offset
            self._epoch = max(0, header.partition_leader_epoch)
        self._fill(max(self._next_offset, place.known_end_offset))
        entries = [self._aborted[offset] for offset in sorted(self._aborted)]
        return self._writer.finish(entries, (place.base_offset,)), self._lost

    def _append(self, header: BatchHeader, batch: memoryview) -> None:
        self._writer.append(batch, header.last_offset, header.max_timestamp)
        aborted = self._transactions.on_batch(header, batch)
        if aborted is not None:
            self._aborted.setdefault(aborted.last_offset, aborted)

    def _fill(self, end_offset: int) -> None:
        """Account for what lies between the last good batch and this offset."""
        first, last, damage = self._next_offset, end_offset - 1, self._damage
        if damage is None and (first > last or self._may_have_gaps):
            return
        spare = self._spares.get((first, last))
        if spare is not None:
            self._damage = None
            for position, header in headers(memoryview(spare)):
                self._append(header, memoryview(spare)[position : position + header.size])
            return
        reason, size, path = "the records are not there", 0, ""
        if damage is not None:
            self._damage = None
            reason, size = damage.reason, damage.size
            path = self._save(damage)
        self._lost.append(Lost(first, last, size, reason, path))
        markers = self._transactions.lost_markers(self._aborted.values(), first, last)
        epochs = self._place.epochs or EpochSpans((EpochEntry(self._epoch, 0),))
        for last_offset, batch in fill(first, last, epochs, markers):
            self._writer.append(batch, last_offset, NO_TIMESTAMP)

    def _save(self, damage: Damaged) -> str:
        place = self._place
        end = damage.position + damage.size
        name = f"{file_name(place.base_offset, LOG)}.{damage.position}-{end}"
        return save_copy(
            self._disk, place.directory, name, self._file, (damage.position, damage.size)
        )

    def _read_aborted(self) -> dict[int, AbortedTransaction]:
        """Return what the index says, by the offsets of the markers; if it says nothing, the batches do."""
        place = self._place
        try:
            path = f"{place.directory}/{file_name(place.base_offset, TXN_INDEX)}"
            found = decode_index(self._disk.read_file(path))
        except (FileNotFoundError, BatchError):
            return {}
        return {one.last_offset: one for one in found}


def _no_throttle(_size_bytes: int) -> None:
    """Do not wait: readers do."""
