"""A segment that compaction makes: written beside the log, under names that do not count yet.

Job: take batches one by one, build the indexes with them, bring all of it to the medium. Must not know which batches
and why, nor what becomes of the segment.

Invariants: the files are those that appending the same batches would have made; they are synced, names included, when
`finish` returns. A transaction index is there only if it has entries, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.storage.names import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.ports import Disk
    from barnabas.storage.transaction_index import AbortedTransaction

#: Synced in steps of this size: one sync of a whole segment would hold up everybody else's writes.
SYNC_BYTES: Final = 16 * 1024 * 1024


class CleanedSegment(NamedTuple):
    """A new segment that is complete: what it is called, how large it is, and which ones it stands for."""

    base_offset: int
    size_bytes: int
    #: Base offsets, the first one its own.
    sources: tuple[int, ...]


class CleanedWriter:
    """See the module."""

    __slots__ = (
        "_buffer_bytes", "_directory", "_disk", "_interval", "_pieces", "_pieces_bytes", "_segment", "_throttle", "_unsynced_bytes",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        buffer_bytes: int,
        throttle: Callable[[int], None],
    ) -> None:
        """Make the files; what earlier attempts left in the folder is removed, whatever offset it was for."""
        self._disk = disk
        self._directory = directory
        self._interval = index_interval_bytes
        self._buffer_bytes = buffer_bytes
        self._throttle = throttle
        remove_cleaned(disk, directory)
        log, offsets, times = (
            disk.open(cleaned_path(directory, base_offset, suffix), create=True)
            for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)
        )
        aborted = TransactionIndex(disk, cleaned_path(directory, base_offset, TXN_INDEX))
        self._segment = Segment(base_offset, (log, offsets, times), aborted, 0, 0)
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._pieces_bytes = 0
        self._unsynced_bytes = 0

    def append(
        self, batch: bytes | bytearray | memoryview, last_offset: int, max_timestamp: int
    ) -> None:
        """Add a batch behind the others."""
        segment = self._segment
        if max_timestamp > segment.largest[0]:
            segment.largest = (max_timestamp, last_offset)
        if segment.since_index > self._interval:
            segment.spill_when_due()
            segment.add_index_entries(last_offset, segment.size)
        segment.since_index += len(batch)
        segment.size += len(batch)
        self._pieces.append(batch)
        self._pieces_bytes += len(batch)
        if self._pieces_bytes >= self._buffer_bytes:
            self._write()

    def _write(self) -> None:
        segment = self._segment
        segment.log.write(segment.size - self._pieces_bytes, (b"".join(self._pieces),))
        self._throttle(self._pieces_bytes)
        self._unsynced_bytes += self._pieces_bytes
        if self._unsynced_bytes >= SYNC_BYTES:
            segment.log.sync()
            self._unsynced_bytes = 0
        self._pieces.clear()
        self._pieces_bytes = 0

    def finish(
        self, aborted: Sequence[AbortedTransaction], sources: tuple[int, ...]
    ) -> CleanedSegment:
        """Write and sync what is left; `aborted` goes into the transaction index. Blocks."""
        segment = self._segment
        self._write()
        for entry in aborted:
            segment.aborted.add(entry)
        segment.seal()
        segment.sync()
        self._disk.sync_dir(self._directory)
        segment.close()
        return CleanedSegment(segment.base_offset, segment.size, sources)


def cleaned_path(directory: str, base_offset: int, suffix: str) -> str:
    """Name a file of a new segment."""
    return f"{directory}/{file_name(base_offset, suffix)}{CLEANED}"


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove every new segment that is not complete, or not wanted any more. The caller has the log's claim.

    One that stayed would make the next start doubt a swap that is under way then (`leftovers.py`).
    """
    for name in disk.list(directory):
        if name.endswith(CLEANED):
            disk.remove(f"{directory}/{name}")
