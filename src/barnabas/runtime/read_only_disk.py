"""Files that are looked at and never changed: the disk of the tools that read a log directory.

Job: the reading half of `ports.Disk` over descriptors that cannot write, so that a tool can be run on anybody's data, on a
read-only volume too. Everything that would change something raises. One thread.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

#: Descriptors kept open: a walk goes through one segment at a time.
_MAX_OPEN: Final = 16


class ReadOnlyFile:
    """One file by name; its descriptor is opened with the first use."""

    def __init__(self, disk: ReadOnlyDisk, path: str) -> None:
        """Take the path of a file that is there."""
        self.path = path
        self._disk = disk

    def size(self) -> int:
        """Bytes in the file now."""
        return os.stat(self.path).st_size

    def modified_ms(self) -> int:
        """When the file was last written, in milliseconds since 1970."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        fd = self._disk.descriptor(self.path)
        data = os.pread(fd, size, position)
        while len(data) < size:
            more = os.pread(fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def cached(self, position: int, size: int) -> bool:
        """Nobody waits here."""
        return True

    def load(self, position: int, size: int) -> None:
        """Do nothing: nobody asks what is in memory."""

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._disk.descriptor(self.path)

    def close(self) -> None:
        """Give the descriptor back."""
        self._disk.close_descriptor(self.path)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Refuse."""
        _refuse(self.path)

    def truncate(self, size: int) -> None:
        """Refuse."""
        _refuse(self.path)

    def sync(self) -> None:
        """Refuse: there is nothing to sync."""
        _refuse(self.path)


class ReadOnlyDisk:
    """See the module."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._descriptors: dict[str, int] = {}

    def descriptor(self, path: str) -> int:
        """Return the descriptor of a file, opening it and closing the oldest one if need be."""
        fd = self._descriptors.get(path)
        if fd is None:
            if len(self._descriptors) >= _MAX_OPEN:
                self.close_descriptor(next(iter(self._descriptors)))
            fd = self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return fd

    def close_descriptor(self, path: str) -> None:
        """Close one; harmless if it is not open."""
        fd = self._descriptors.pop(path, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Close them all."""
        for path in list(self._descriptors):
            self.close_descriptor(path)

    def open(self, path: str, *, create: bool = False) -> ReadOnlyFile:
        """Open an existing file; FileNotFoundError if there is none."""
        if create:
            _refuse(path)
        os.stat(path)
        return ReadOnlyFile(self, path)

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        with open(path, "rb") as file:
            return file.read()

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        """Tell whether it is a folder."""
        return os.path.isdir(path)

    def space(self, path: str) -> tuple[int, int]:
        """Return (total bytes, usable bytes) of the volume that holds the folder."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def write_file_atomically(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Refuse."""
        _refuse(path)

    def make_dir(self, path: str, *, sync: bool = True) -> None:
        """Refuse."""
        _refuse(path)

    def rename(self, old: str, new: str) -> None:
        """Refuse."""
        _refuse(old)

    def remove(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def sync_dir(self, path: str) -> None:
        """Refuse."""
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "nothing is changed here", path)
