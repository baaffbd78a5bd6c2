"""Bringing a part of a log to the medium, away from the loop.

Job: sync the files of some segments in an order that is good at every crash. Must not know which are due.
Runs on a background thread: it touches files only, and nothing that the loop changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Disk, File
    from barnabas.storage.segment import Segment


class FlushPoint(NamedTuple):
    """What counts as flushed once the job is done."""

    #: What the recovery point may become.
    end_offset: int
    #: How many changes of names in the folder were made before.
    names_changes: int
    #: Nothing was flushed before: the folder's own name may not be on the medium.
    folder_is_new: bool
    planned_ms: int


class FlushJob:
    """Made by `Log.plan_flush`; `run` it, then give it to `Log.on_flushed`."""

    __slots__ = ("_directory", "_disk", "_segments", "error", "point", "snapshots")

    def __init__(
        self,
        disk: Disk,
        directory: str | None,
        segments: Sequence[Segment],
        snapshots: Sequence[File],
        point: FlushPoint,
    ) -> None:
        """Name what to sync; the folder too if names in it changed."""
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self.snapshots = snapshots
        self.point = point
        self.error: OSError | None = None

    def run(self) -> None:
        """Sync, oldest segment first, data before indexes. Keeps an error for `on_flushed`."""
        try:
            for segment in self._segments:
                self._sync(segment)
            for snapshot in self.snapshots:
                _sync_if_there(snapshot)
            if self._directory is not None:
                self._disk.sync_dir(self._directory)
                if self.point.folder_is_new:
                    self._disk.sync_dir(self._directory.rpartition("/")[0])
        except OSError as error:
            self.error = error

    def _sync(self, segment: Segment) -> None:
        try:
            segment.sync()
        except FileNotFoundError:
            if not segment.dropped:
                raise  # else it was deleted since, and nobody will miss it


def _sync_if_there(file: File) -> None:
    try:
        file.sync()
    except FileNotFoundError:
        return  # removed with its segment
