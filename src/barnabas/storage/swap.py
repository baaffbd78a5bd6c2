"""Putting a new segment in the place of the ones it was made from, away from the loop.

Job: the renames, in an order that is good at every crash. Must not know what is in the segments.

| step                                         | what a crash after it leaves (`leftovers.py`)      |
|----------------------------------------------|----------------------------------------------------|
| the new files are called `.cleaned`          | the old segments; the new files are removed        |
| all of them are called `.swap`, synced       | the new segment: the swap is brought to its end    |
| the old files are called `.deleted`, synced  | the same                                           |
| the new log file gets its name, synced       | the same                                           |
| the new indexes get their names, synced      | the new segment                                    |

Each step is on the medium before the next one begins: a file system may keep a later rename and lose an earlier one,
and an old segment must never stand beside a new one that covers its offsets. The log file comes first: as long as it is
called `.swap`, every index that has its own name belongs to the old segment.

Runs on a background thread: it touches files only, and nothing that the loop changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.storage.cleaned_segment import cleaned_path, remove_cleaned
from barnabas.storage.drop import put_aside
from barnabas.storage.index_fit import load_indexes
from barnabas.storage.names import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_FILES,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from barnabas.ports import Disk
    from barnabas.storage.cleaned_segment import CleanedSegment


class SwapJob:
    """Made by `Log.plan_swap`; `run` it, then give it to `Log.on_swapped`."""

    __slots__ = (
        "_directory",
        "_disk",
        "_now_ms",
        "cleaned",
        "committed",
        "deleted",
        "error",
        "segment",
    )

    def __init__(self, disk: Disk, directory: str, cleaned: CleanedSegment, now_ms: int) -> None:
        """Name the new segment and, by it, the old ones."""
        self._disk = disk
        self._directory = directory
        self._now_ms = now_ms
        self.cleaned = cleaned
        #: The new segment, once it is in place.
        self.segment: Segment | None = None
        #: The old files, to be removed after file.delete.delay.ms.
        self.deleted: list[str] = []
        #: Whether the new segment counts, or will when the log is opened again.
        self.committed = False
        self.error: OSError | None = None

    def run(self) -> None:
        """Do it all. Keeps an error for `on_swapped`; one before the commit leaves everything as it was."""
        try:
            self.segment = self._open()
            self._commit()
            self._put_aside()
            self._take_place()
        except OSError as error:
            self.error = error

    def _open(self) -> Segment:
        """Open the new files by the names that they have now; they follow the renames."""
        base_offset = self.cleaned.base_offset
        log, offsets, times = (
            self._disk.open(cleaned_path(self._directory, base_offset, suffix))
            for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)
        )
        path = f"{self._directory}/{file_name(base_offset, TXN_INDEX)}"
        aborted = TransactionIndex(self._disk, path)
        segment = Segment(base_offset, (log, offsets, times), aborted, self._now_ms, 0)
        segment.size = segment.written_from = log.size()
        assert segment.size == self.cleaned.size_bytes
        assert load_indexes(segment), "what was just written fits"
        return segment

    def _commit(self) -> None:
        try:
            for path in self._paths(self.cleaned.base_offset):
                self._rename(path + CLEANED, path + SWAP)
        except OSError:
            self._undo()
            raise
        # From here on what a crash leaves may be either.
        self.committed = True
        self._disk.sync_dir(self._directory)

    def _undo(self) -> None:
        """Remove the new files: nothing of them may count at the next start. If that fails, it may.

        The log file goes after its indexes: one that stays alone would be taken for one of a swap that was nearly done.
        """
        self.committed = True
        for path in reversed(self._paths(self.cleaned.base_offset)):
            if path.endswith(LOG):
                self._disk.sync_dir(self._directory)
            self._disk.remove(path + SWAP)
        self._disk.sync_dir(self._directory)
        remove_cleaned(self._disk, self._directory)
        self.committed = False

    def _put_aside(self) -> None:
        for base_offset in self.cleaned.sources:
            for path in self._paths(base_offset):
                aside = put_aside(self._disk, path)
                if aside is not None:
                    self.deleted.append(aside)
        self._disk.sync_dir(self._directory)

    def _take_place(self) -> None:
        log, *indexes = self._paths(self.cleaned.base_offset)
        for paths in ([log], indexes):
            for path in paths:
                self._rename(path + SWAP, path)
            self._disk.sync_dir(self._directory)
        assert self.segment is not None
        assert self.segment.aborted.load(self.cleaned.base_offset), "what was just written fits"

    def _rename(self, old: str, new: str) -> None:
        """Rename a file if there is one: a transaction index may be missing."""
        if self._disk.exists(old):
            self._disk.rename(old, new)

    def _paths(self, base_offset: int) -> list[str]:
        return [f"{self._directory}/{file_name(base_offset, suffix)}" for suffix in SEGMENT_FILES]
