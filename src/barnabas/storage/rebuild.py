"""Writing the files of a segment anew, beside the old ones, until they are whole and can take their place.

Job: copy good bytes, save bad ones, build indexes, rename. Must not know what is damaged or why.

Invariants: what is put in place is synced, names included; indexes come out as appending the same batches with the default
index.interval.bytes would have made them; nothing in quarantine is ever overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, Index
from barnabas.storage.names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from barnabas.storage.walk import LogWalk, Whole
from barnabas.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas.ports import Disk, File

#: Behind the name of a file that is not in force yet. No log takes it for its own.
TEMPORARY: Final = ".repaired"
QUARANTINE: Final = "quarantine"
INDEX_INTERVAL_BYTES: Final = 4096

_COPY_BYTES: Final = 1024 * 1024


def copy_range(source: File, start: int, end: int, target: File, at: int) -> int:
    """Copy [start, end) to position `at`; return the position after it."""
    while start < end:
        piece = source.read(start, min(_COPY_BYTES, end - start))
        assert piece, "the file is shorter than it was"
        target.write(at, (piece,))
        start += len(piece)
        at += len(piece)
    return at


def save_copy(disk: Disk, directory: str, name: str, source: File, span: tuple[int, int]) -> str:
    """Copy (position, size) of a file to the folder's quarantine, durably; return where it is."""
    folder = f"{directory}/{QUARANTINE}"
    disk.make_dir(folder)
    taken, number = disk.list(folder), 0
    # A repair that was cut short may have left the same bytes: they are saved once more under another number.
    while f"{name}.{number}" in taken:
        number += 1
    path = f"{folder}/{name}.{number}"
    target = disk.open(path, create=True)
    copy_range(source, span[0], span[0] + span[1], target, 0)
    target.sync()
    target.close()
    disk.sync_dir(folder)
    return path


def write_indexes(disk: Disk, directory: str, base_offset: int, log_path: str) -> None:
    """Build both indexes of a log file under temporary names, and sync them."""
    paths = [
        f"{directory}/{file_name(base_offset, suffix)}{TEMPORARY}"
        for suffix in (OFFSET_INDEX, TIME_INDEX)
    ]
    for path in paths:
        disk.remove(path)
    offsets = Index(disk.open(paths[0], create=True), OFFSET_ENTRY)
    times = Index(disk.open(paths[1], create=True), TIME_ENTRY)
    largest, indexed_at = (NO_TIMESTAMP, 0), 0
    walk = LogWalk(disk.open(log_path), first_offset=base_offset, deep=False)
    for piece in walk.pieces():
        assert isinstance(piece, Whole), "the log is good by now"
        position, header = piece
        if header.max_timestamp > largest[0]:
            largest = (header.max_timestamp, header.last_offset - base_offset)
        if position - indexed_at > INDEX_INTERVAL_BYTES:
            offsets.add(header.last_offset - base_offset, position)
            _add_time(times, largest)
            _spill_when_due(offsets, times)
            indexed_at = position
    _add_time(times, largest)
    for index in (offsets, times):
        index.spill()
        index.sync()
        index.file.close()


def _add_time(times: Index, largest: tuple[int, int]) -> None:
    if largest[0] > (times.last[0] if times.last else NO_TIMESTAMP):
        times.add(*largest)


def _spill_when_due(*indexes: Index) -> None:
    for index in indexes:
        if index.spill_due:
            index.spill()


def put_in_place(disk: Disk, directory: str, base_offset: int) -> None:
    """Give the temporary files of a segment their names: the log first, as indexes can be built again."""
    for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
        path = f"{directory}/{file_name(base_offset, suffix)}"
        if disk.exists(path + TEMPORARY):
            disk.rename(path + TEMPORARY, path)
    disk.sync_dir(directory)


def remove_temporary(disk: Disk, directory: str) -> None:
    """Remove what a repair left that was cut short."""
    for name in disk.list(directory):
        if name.endswith(TEMPORARY):
            disk.remove(f"{directory}/{name}")
