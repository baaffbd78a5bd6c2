"""What a start after a crash cuts off a log: kept in the partition's quarantine, as nobody can tell whether it is missed.

Job: copy the bad end of a segment, move segments that lie behind it. Must not know why they are bad. A write that did not
get to its end leaves zeros or less than a header: that is nothing to keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.storage.names import LOG, file_name
from barnabas.storage.rebuild import QUARANTINE, save_copy
from barnabas.wire.batch import HEADER_SIZE

if TYPE_CHECKING:
    from barnabas.ports import Disk, File
    from barnabas.storage.segment import Segment

_PIECE_BYTES: Final = 1024 * 1024


def save_end(disk: Disk, segment: Segment, position: int) -> str:
    """Copy what lies behind `position` of a segment; return where it is, empty if there was nothing to keep."""
    size = segment.log.size() - position
    if size < HEADER_SIZE or _is_zero(segment.log, position):
        return ""
    folder, _, name = segment.log.path.rpartition("/")
    return save_copy(
        disk, folder, f"{name}.{position}-{position + size}", segment.log, (position, size)
    )


def take_segment(disk: Disk, directory: str, base_offset: int) -> None:
    """Move the log file of a segment to quarantine; its indexes stay. The caller syncs the folder."""
    name = file_name(base_offset, LOG)
    if not disk.open(f"{directory}/{name}").size():
        return
    folder = f"{directory}/{QUARANTINE}"
    disk.make_dir(folder)
    taken, number = disk.list(folder), 0
    while f"{name}.{number}" in taken:
        number += 1
    disk.rename(f"{directory}/{name}", f"{folder}/{name}.{number}")
    disk.sync_dir(folder)


def _is_zero(file: File, position: int) -> bool:
    while piece := file.read(position, _PIECE_BYTES):
        if piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True
