"""Copying the folders of partitions from one log directory to another.

Job: bytes, times and names, brought to the medium. Must not know what the files mean, but for one thing: the log of a closed
segment is never written again, so it can be shared with the source by a second name (a hard link) and needs no room.

Symbolic links are never followed: what is copied lies in the folder that was named. `find_link` tells where one is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from barnabas.storage.directory import parse_folder
from barnabas.storage.names import DELETED, LOG, offset_of

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE_BYTES: Final = 256 * 1024
_ZEROS: Final = bytes(_PIECE_BYTES)
#: What `st_blocks` counts.
_BLOCK_BYTES: Final = 512


def find_link(directory: str) -> str | None:
    """Return the path of a symbolic link in the directory or in one of its folders; None if there is none."""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_symlink():
            return entry.path
        if entry.is_dir() and parse_folder(entry.name) is not None:
            found = find_link(entry.path)
            if found is not None:
                return found
    return None


def folder_bytes(source: str) -> int:
    """Bytes that the files take which `copy_folder` copies: Kafka's open indexes are mostly holes."""
    found = [os.stat(path) for path in _files(source)]
    return sum(min(one.st_size, one.st_blocks * _BLOCK_BYTES) for one in found)


def copy_folder(
    source: str, target: str, advance: Callable[[int], None], *, link: bool = False
) -> None:
    """Copy the files of a folder; with `link` closed segments share their bytes with the source.

    OSError if a link cannot be made, as between two volumes.
    """
    os.mkdir(target)
    paths = _files(source)
    logs = [path for path in paths if offset_of(os.path.basename(path), LOG) is not None]
    closed = set(logs[:-1]) if link else set()
    for path in paths:
        copy = os.path.join(target, os.path.basename(path))
        if path in closed:
            os.link(path, copy)
            advance(os.path.getsize(path))
        else:
            _copy_file(path, copy, advance)
    sync_folder(target)


def sync_folder(path: str) -> None:
    """Bring the names in a folder to the medium."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _files(folder: str) -> list[str]:
    """Return the files of a folder in order, without links and those that are on their way out."""
    return [
        entry.path
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
        if entry.is_file(follow_symlinks=False) and not entry.name.endswith(DELETED)
    ]


def _copy_file(source: str, target: str, advance: Callable[[int], None]) -> None:
    with open(source, "rb") as reader, open(target, "xb") as writer:
        while piece := reader.read(_PIECE_BYTES):
            if piece == _ZEROS:
                writer.seek(len(piece), os.SEEK_CUR)  # a hole stays one
            else:
                writer.write(piece)
                advance(len(piece))
        writer.truncate()
        writer.flush()
        os.fsync(writer.fileno())
    # Retention goes by a file's time where records have none.
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
