"""Putting the files of segments that left the log aside, so that they can be removed later.

Job: rename what is there. Must not know which segments, nor when their files may go. Readers that found a file before
follow it to its new name; what a crash leaves of either name is removed when the log is opened next.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from barnabas.storage.names import DELETED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Disk


def put_aside(disk: Disk, path: str) -> str | None:
    """Give a file a name that ends in `.deleted`; that name, None if there is no such file.

    No other file has that name: of an offset that was put aside before, both files stay until the time of each is over.
    """
    if not disk.exists(path):
        return None
    aside = path + DELETED
    for number in count(2):
        if not disk.exists(aside):
            break
        aside = f"{path}.{number}{DELETED}"
    disk.rename(path, aside)
    return aside


class DropJob:
    """Made by `Log.plan_drop`; `run` it on a background thread."""

    __slots__ = ("_disk", "_paths")

    def __init__(self, disk: Disk, paths: Sequence[str]) -> None:
        """Name the files, those that may be missing, too."""
        self._disk = disk
        self._paths = paths

    def run(self) -> list[str]:
        """Rename the files; their new names. Blocks."""
        aside = [put_aside(self._disk, path) for path in self._paths]
        return [path for path in aside if path is not None]
