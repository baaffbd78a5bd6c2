"""One process per log directory: Kafka's lock on its `.lock` file.

Must not know what is in the directory. Invariant: who holds a lock holds it until `release`, or until its process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from typing import Final

_LOCK_FILE: Final = ".lock"
_FILE_MODE: Final = 0o644
_RELEASED: Final = -1


class DirectoryInUse(OSError):
    """Another broker holds the directory."""


class DirectoryLock:
    """Holds a directory until `release`, or until the process ends."""

    def __init__(self, fd: int) -> None:
        """Take over the locked descriptor."""
        self._fd = fd

    def release(self) -> None:
        """Let others have the directory. Harmless when done twice."""
        fd, self._fd = self._fd, _RELEASED
        if fd != _RELEASED:
            os.close(fd)


def lock_directory(path: str) -> DirectoryLock:
    """Lock `.lock` in a log directory as Kafka does, so that neither runs beside the other.

    DirectoryInUse if another process, or another broker of this process, has it.
    """
    fd = os.open(os.path.join(path, _LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    try:
        _lock_whole_file(fd)
    except OSError as error:
        os.close(fd)
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        raise DirectoryInUse(
            f"the log directory {path} is in use by another broker, which holds {path}/{_LOCK_FILE}: "
            "stop that broker, or choose another directory in log.dirs"
        ) from None
    return DirectoryLock(fd)


def _lock_whole_file(fd: int) -> None:
    if sys.platform == "linux":
        # Meets the process-wide locks that Java takes, and, unlike those, a second one in this process.
        whole_file = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole_file)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
