"""Copying a log that goes on being written into another folder, until so little is left that it can move there.

Job: copy the files of a `Log`, piece by piece, byte by byte. Must not know why, nor who takes the new folder into use. `plan`
and `finish` are for the loop, the jobs that `plan` makes for a background thread, one at a time.

Everything but the end of the active segment is immutable or only grows, so a copy is a prefix, and the rest of it can be
copied later. Compaction is the exception: who calls sees to it that the log is not compacted meanwhile.

Invariants: a segment counts as copied once all its files are on the medium; what `finish` copies on the loop is bounded.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from barnabas.storage import checksums
from barnabas.storage.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    SEGMENT_FILES,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.ports import Disk, File
    from barnabas.storage.log import Log
    from barnabas.storage.segment import Segment

#: What one job copies: a few milliseconds of a disk.
PIECE_BYTES: Final = 4 * 1024 * 1024
#: What may be left to be copied on the loop: a millisecond.
LAST_BYTES: Final = 512 * 1024


class SourceError(Exception):
    """The log could not be read; `problem` says why. Any other OSError is the new folder's."""

    def __init__(self, problem: OSError) -> None:
        """Keep the error."""
        super().__init__(str(problem))
        self.problem = problem


class Relocation:
    """See the module. Until `finish` the log knows nothing of it."""

    def __init__(self, disk: Disk, log: Log, folder: str) -> None:
        """Take an empty folder."""
        self._disk = disk
        self._log = log
        self.folder = folder
        #: Bytes that are in the new folder, by file name.
        self._copied: dict[str, int] = {}
        #: Closed segments that are there as a whole, by base offset.
        self._whole: dict[int, Segment] = {}
        #: The first offset that the copy lacks, as far as is known.
        self.end_offset = log.log_start_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of records in the new folder."""
        return sum(size for name, size in self._copied.items() if name.endswith(LOG))

    def plan(self) -> Callable[[], int] | None:
        """Make the job that copies the next piece and returns its size; None if `finish` can do the rest."""
        segments = self._log.segments
        for segment, following in pairwise(segments):
            if segment.base_offset not in self._whole:
                copy = partial(self._copy_closed, segment, following.base_offset)
                return partial(_copy_unless_dropped, segment, copy)
        active = segments[-1]
        left = active.size - self._copied.get(file_name(active.base_offset, LOG), 0)
        if left <= LAST_BYTES and file_name(active.base_offset, LOG) in self._copied:
            return None
        copy = partial(self._copy_active, active, active.size, self._log.log_end_offset)
        return partial(_copy_unless_dropped, active, copy)

    def finish(self) -> None:
        """Copy what is left, on the loop. Nothing may be appended until the log has moved."""
        *closed, active = self._log.segments
        assert all(segment.base_offset in self._whole for segment in closed)
        self._copy_some(active, active.size)
        self._copy_indexes(active)
        self._copy_snapshots()
        self._replace(LEADER_EPOCHS)
        self._replace(checksums.FILE_NAME)
        self._remove_dropped()

    def move_log(self, folder: str) -> None:
        """Let the log go on in the new folder, which has this name since `finish`."""
        *closed, active = self._log.segments
        whole = [self._whole[segment.base_offset] for segment in closed]
        self._log.relocate(folder, [*whole, active.in_folder(self._disk, folder)])

    # Jobs

    def _copy_closed(self, segment: Segment, end_offset: int) -> int:
        size = self._copy_some(segment, segment.size)
        if self._copied[file_name(segment.base_offset, LOG)] < segment.size:
            return size
        self._copy_indexes(segment)
        self._copy_snapshots()
        whole = segment.in_folder(self._disk, self.folder)
        whole.sync()
        self._whole[segment.base_offset] = whole
        self.end_offset = end_offset
        return size

    def _copy_active(self, segment: Segment, limit: int, end_offset: int) -> int:
        size = self._copy_some(segment, limit)
        if self._copied[file_name(segment.base_offset, LOG)] == limit:
            self.end_offset = end_offset
        self._copy_indexes(segment)
        self._copy_snapshots()
        return size

    # Files

    def _copy_some(self, segment: Segment, limit: int) -> int:
        """Copy a piece of the log file; how many bytes."""
        name = file_name(segment.base_offset, LOG)
        before = self._copied.get(name, 0)
        self._extend(name, segment.log, min(limit, before + PIECE_BYTES))
        return self._copied[name] - before

    def _copy_indexes(self, segment: Segment) -> None:
        base = segment.base_offset
        for suffix, index in (
            (OFFSET_INDEX, segment.offset_index),
            (TIME_INDEX, segment.time_index),
        ):
            self._extend(file_name(base, suffix), index.file, index.saved_bytes)
        if len(segment.aborted):
            # Not a prefix: its last entry may have been taken back.
            self._replace(file_name(base, TXN_INDEX))

    def _copy_snapshots(self) -> None:
        for name in self._source_names():
            if name not in self._copied and offset_of(name, SNAPSHOT) is not None:
                self._replace(name)

    def _remove_dropped(self) -> None:
        """Remove what the log has dropped since it was copied."""
        there = set(self._source_names())
        for name in [name for name in self._copied if name not in there]:
            self._disk.remove(f"{self.folder}/{name}")
            del self._copied[name]
        kept = {segment.base_offset for segment in self._log.segments}
        for base in [base for base in self._whole if base not in kept]:
            for suffix in SEGMENT_FILES:
                self._disk.remove(f"{self.folder}/{file_name(base, suffix)}")

    def _source_names(self) -> list[str]:
        try:
            return self._disk.list(self._log.directory)
        except OSError as problem:
            raise SourceError(problem) from problem

    def _extend(self, name: str, source: File, end: int) -> None:
        """Copy a file up to `end`, from where the copy ends."""
        position = self._copied.get(name, 0)
        target = self._disk.open(f"{self.folder}/{name}", create=True)
        if end > position:
            try:
                data = source.read(position, end - position)
            except OSError as problem:
                raise SourceError(problem) from problem
            target.write(position, (data,))
            position += len(data)
        self._copied[name] = position

    def _replace(self, name: str) -> None:
        """Copy a small file as it is now; none if there is none."""
        try:
            data = self._disk.read_file(f"{self._log.directory}/{name}")
        except FileNotFoundError:
            return
        except OSError as problem:
            raise SourceError(problem) from problem
        self._disk.write_file_atomically(f"{self.folder}/{name}", data, sync=False)
        self._copied[name] = len(data)


def _copy_unless_dropped(segment: Segment, copy: Callable[[], int]) -> int:
    """Copy a piece of a segment; nothing if retention was faster."""
    try:
        return copy()
    except SourceError as error:
        if segment.dropped and isinstance(error.problem, FileNotFoundError):
            return 0
        raise
