"""Putting the files of segments that left the log aside, so that they can be removed later.

Job: rename what is there. Must not know which segments, nor when their files may go. Readers that found a file before
follow it to its new name; what a crash leaves of either name is removed when the log is opened next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.storage.names import DELETED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Disk


class DropJob:
    """Made by `Log.plan_drop`; `run` it on a background thread."""

    __slots__ = ("_disk", "_paths")

    def __init__(self, disk: Disk, paths: Sequence[str]) -> None:
        """Name the files, those that may be missing, too."""
        self._disk = disk
        self._paths = paths

    def run(self) -> list[str]:
        """Rename the files; their new names. Blocks."""
        aside = []
        for path in self._paths:
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED)
                aside.append(path + DELETED)
        return aside
