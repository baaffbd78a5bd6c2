"""The Disk port on the real file system.

Job: plain system calls by path, with a bound on open descriptors.
Must not know: what the files mean.
Invariants: a descriptor is never closed while a call uses it, on whichever thread, so that no call ever reaches
another file through a reused number; files give way to connections and to each other when descriptors run out; at most `max_open_files` are open, plus those in use at the
moment; a File follows its file through renames, and after its file is removed or replaced every call on it
is FileNotFoundError.

How a descriptor stays good without a lock on the hot path: a call first pins its file (list.append, atomic),
then reads the descriptor. Closing first takes the descriptor out of the file, then looks at the pins: if there
are any it puts the descriptor back, and whoever removes the last pin closes it if that is still wanted.
Whichever comes second sees the other.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

#: Room left for sockets, libraries and files that do not go through here.
RESERVED_DESCRIPTORS: Final = 64
MIN_OPEN_FILES: Final = 16
#: So many files stay open however many connections come; of few descriptors, a quarter.
KEPT_OPEN_FILES: Final = 2_000
#: One probe per read-ahead window of Linux: what is read at once is there or away at once.
PROBE_STEP_BYTES: Final = 128 * 1024
#: The most buffers one pwritev takes (POSIX guarantees 16, Linux and macOS take 1024).
BUFFERS_PER_WRITE: Final = 1024

_PAGE_BYTES: Final = 4096
_CLOSED: Final = -1
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_FILE_MODE: Final = 0o644
#: Systems and file systems that send to sockets only, or not at all.
_NOT_SENT: Final = frozenset({errno.EINVAL, errno.ENOTSOCK, errno.ENOSYS, errno.EOPNOTSUPP})


def descriptor_limit() -> int:
    """Return how many descriptors the process may have (`ulimit -n`)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def default_max_open_files() -> int:
    """Three quarters of what the process may open, less a reserve; connections may take those above KEPT_OPEN_FILES."""
    return max(MIN_OPEN_FILES, descriptor_limit() // 4 * 3 - RESERVED_DESCRIPTORS)


def kept_open_files() -> int:
    """Return how many files stay open however many connections come."""
    return min(KEPT_OPEN_FILES, descriptor_limit() // 4)


def max_connections() -> int:
    """Return how many connections there are descriptors for, beside the files that must stay open."""
    limit = descriptor_limit()
    return max(limit // 4, limit - RESERVED_DESCRIPTORS - kept_open_files())


class RealFile:
    """One file by name; see `ports.File`. Made by `RealDisk.open` only."""

    __slots__ = ("_closing", "_disk", "_fd", "_gone", "_pins", "_used", "path")

    def __init__(self, disk: RealDisk, path: str) -> None:
        """Start without a descriptor."""
        self.path = path
        self._disk = disk
        self._fd = _CLOSED
        self._pins: list[None] = []
        self._used = False
        self._closing = False
        self._gone = False

    def size(self) -> int:
        """Bytes in the file now."""
        self._pins.append(None)
        try:
            return os.fstat(self._descriptor()).st_size
        finally:
            self._unpin()

    def modified_ms(self) -> int:
        """When it was last written, in milliseconds since 1970."""
        self._pins.append(None)
        try:
            return os.fstat(self._descriptor()).st_mtime_ns // 1_000_000
        finally:
            self._unpin()

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        self._pins.append(None)
        try:
            fd = self._descriptor()
            data = os.pread(fd, size, position)
            if len(data) == size or not data:
                return data
            return _read_rest(fd, position, size, data)
        finally:
            self._unpin()

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after another from `position`."""
        self._pins.append(None)
        try:
            _write_all(self._descriptor(), position, buffers)
        finally:
            self._unpin()

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        self._pins.append(None)
        try:
            os.ftruncate(self._descriptor(), size)
        finally:
            self._unpin()

    def sync(self) -> None:
        """Return when data and size are on the medium."""
        self._pins.append(None)
        try:
            _sync_data(self._descriptor())
        finally:
            self._unpin()

    def cached(self, position: int, size: int) -> bool:
        """Probe the page cache; True where the system cannot tell."""
        self._pins.append(None)
        try:
            return _is_cached(self._descriptor(), position, size)
        finally:
            self._unpin()

    def load(self, position: int, size: int) -> None:
        """Have the page cache filled, and wait for it."""
        self._pins.append(None)
        try:
            _load(self._descriptor(), position, size)
        finally:
            self._unpin()

    def fileno(self) -> int:
        """Return a descriptor that stays good until the next `fileno` or `close` on the same thread.

        Only one thread, the event loop's, may ask for descriptors.
        """
        self._disk.lend(self)
        return self._descriptor()

    def close(self) -> None:
        """Give the descriptor back, at once or when the last call that uses it ends."""
        self._disk.take_back(self)
        self._closing = True
        if not self._pins:
            self._disk.finish_close(self)

    def _descriptor(self) -> int:
        """Return the descriptor of a file that is pinned."""
        self._used = True
        fd = self._fd
        return fd if fd != _CLOSED else self._disk.open_descriptor(self)

    def _unpin(self) -> None:
        self._pins.pop()
        if self._closing and not self._pins:
            self._disk.finish_close(self)


class RealDisk:
    """See `ports.Disk`. Paths go to the system as they are."""

    def __init__(self, max_open_files: int | None = None, *, read_only: bool = False) -> None:
        """Bound the open descriptors; by default three quarters of what the process may have.

        With `read_only` files are opened for reading alone, so that no right to write is needed.
        """
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self.max_open_files = max_open_files or default_max_open_files()
        self._lock = threading.RLock()
        # Folder -> name -> file. An entry goes with its file, so there are no more than files on the disk.
        self._folders: dict[str, dict[str, RealFile]] = {}
        # Oldest first; a file that was used since it was last looked at gets a second chance.
        self._open_files: dict[RealFile, None] = {}
        self._lent: RealFile | None = None
        self._lent_to = 0

    # Files

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Return the one File of this path; the descriptor comes with the first use."""
        folder, name = os.path.split(path)
        with self._lock:
            file = self._folders.get(folder, {}).get(name) or RealFile(self, path)
            if create:
                self.open_descriptor(file, os.O_CREAT)
            elif os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            else:
                os.stat(path)
            self._folders.setdefault(folder, {})[name] = file
            return file

    def open_descriptor(self, file: RealFile, flags: int = 0) -> int:
        """Open a file that has no descriptor, making room first. The caller has pinned it, or is alone."""
        with self._lock:
            if file._fd != _CLOSED:
                return file._fd
            if file._gone:
                raise FileNotFoundError(errno.ENOENT, "the file was removed", file.path)
            self._make_room(self.max_open_files - 1)
            file._fd = fd = self._open_path(file.path, flags)
            file._closing = False
            # The use that opens it does not count: a file used once goes before one used twice.
            file._used = False
            self._open_files[file] = None
            return fd

    def _open_path(self, path: str, flags: int) -> int:
        """Open it; where connections have taken all descriptors, in place of another file."""
        flags |= self._access | os.O_CLOEXEC
        try:
            return os.open(path, flags, _FILE_MODE)
        except OSError as problem:
            if problem.errno not in _NO_DESCRIPTORS or not self._make_room(
                len(self._open_files) - 1
            ):
                raise
            return os.open(path, flags, _FILE_MODE)

    def give_way(self, count: int) -> int:
        """Close up to `count` files for something else, but keep those that must stay open; how many were closed."""
        with self._lock:
            return self._make_room(max(kept_open_files(), len(self._open_files) - count))

    def _make_room(self, open_max: int) -> int:
        """Close what was not used for the longest time; files in use at the moment are passed over. Returns how many were closed."""
        before = len(self._open_files)
        looks = 2 * before
        while len(self._open_files) > open_max and looks:
            looks -= 1
            file = next(iter(self._open_files))
            if file._used or not self._close_unpinned(file):
                file._used = False
                del self._open_files[file]
                self._open_files[file] = None
        return before - len(self._open_files)

    def finish_close(self, file: RealFile) -> None:
        """Close the descriptor of a file that asked for it, unless a call came in between."""
        with self._lock:
            if file._closing and self._close_unpinned(file):
                file._closing = False

    def _close_unpinned(self, file: RealFile) -> bool:
        fd, file._fd = file._fd, _CLOSED
        if file._pins:
            file._fd = fd
            return False
        self._open_files.pop(file, None)
        if fd != _CLOSED:
            os.close(fd)
        return True

    def lend(self, file: RealFile) -> None:
        """Keep one file's descriptor open for a sendfile, in place of the one lent before."""
        before = self._lent
        if before is not file:
            file._pins.append(None)
            self._lent = file
            self._lent_to = threading.get_ident()
            if before is not None:
                before._unpin()

    def take_back(self, file: RealFile) -> None:
        """End the lending, if it is this file and the thread it was lent to that says so."""
        if self._lent is file and self._lent_to == threading.get_ident():
            self._lent = None
            file._unpin()

    def close(self) -> None:
        """Close every descriptor. Files stay usable, as after `File.close`."""
        lent, self._lent = self._lent, None
        if lent is not None:
            lent._unpin()
        with self._lock:
            for file in list(self._open_files):
                file.close()

    # Names

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        with open(path, "rb") as file:
            return file.read()

    def write_file_atomically(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Write beside it, sync, rename over it, sync the folder."""
        temporary = path + ".tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(temporary, flags, _FILE_MODE)
        try:
            try:
                _write_all(fd, 0, [content])
                if sync:
                    _sync_data(fd)
            finally:
                os.close(fd)
        except OSError:
            os.unlink(temporary)
            raise
        self.rename(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        """Tell whether it is a folder."""
        return os.path.isdir(path)

    def make_dir(self, path: str, *, sync: bool = True) -> None:
        """Create a folder and its parents, syncing the parent of each new one."""
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path.rstrip("/"))
        if parent:
            self.make_dir(parent, sync=sync)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        if sync:
            self.sync_dir(parent)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder; Files follow, and a File of what was at `new` is gone."""
        with self._lock:
            os.rename(old, new)
            self._forget(new)
            folder, name = os.path.split(old)
            file = self._folders.get(folder, {}).pop(name, None)
            if file is not None:
                file.path = new
                folder, name = os.path.split(new)
                self._folders.setdefault(folder, {})[name] = file
            elif os.path.isdir(new):
                self._move_folders(old, new)

    def _move_folders(self, old: str, new: str) -> None:
        for folder in self._folders_below(old):
            files = self._folders.pop(folder)
            folder = new + folder[len(old) :]
            self._folders[folder] = files
            for name, file in files.items():
                file.path = os.path.join(folder, name)

    def _folders_below(self, path: str) -> tuple[str, ...]:
        prefix = path + "/"
        return tuple(name for name in self._folders if name == path or name.startswith(prefix))

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there."""
        with self._lock:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._forget(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; fine if it is not there."""
        with self._lock:
            for folder in self._folders_below(path):
                for file in self._folders.pop(folder).values():
                    _abandon(file)
        # Outside the lock: a large tree takes long, and nobody holds a File in it any more.
        if os.path.exists(path):
            shutil.rmtree(path)

    def _forget(self, path: str) -> None:
        folder, name = os.path.split(path)
        file = self._folders.get(folder, {}).pop(name, None)
        if file is not None:
            _abandon(file)

    def sync_dir(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the medium."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def space(self, path: str) -> tuple[int, int]:
        """Return (total bytes, usable bytes) of the volume that holds the folder."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        return sorted(os.listdir(path))


def _abandon(file: RealFile) -> None:
    file._gone = True
    file.close()


# System calls, with what each platform lacks


def _read_rest(fd: int, position: int, size: int, data: bytes) -> bytes:
    pieces, have = [data], len(data)
    while have < size:
        piece = os.pread(fd, size - have, position + have)
        if not piece:
            break
        pieces.append(piece)
        have += len(piece)
    return b"".join(pieces)


def _write_all(fd: int, position: int, buffers: Sequence[Buffer]) -> None:
    size = 0
    for buffer in buffers:
        size += memoryview(buffer).nbytes
    if len(buffers) == 1:  # what most writes are, and `pwritev` takes longer for them
        written = os.pwrite(fd, buffers[0], position)
    else:
        written = os.pwritev(fd, buffers, position) if len(buffers) <= BUFFERS_PER_WRITE else 0
    if written != size:
        _write_rest(fd, position, buffers, written)


def _write_rest(fd: int, position: int, buffers: Sequence[Buffer], written: int) -> None:
    """Go on after a short write (a signal, a nearly full disk) one buffer at a time."""
    skip, position = written, position + written
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        rest = view[skip:]
        skip = max(0, skip - len(view))
        while rest:
            count = os.pwrite(fd, rest, position)
            position += count
            rest = rest[count:]


def _is_cached(fd: int, position: int, size: int) -> bool:
    if not hasattr(os, "RWF_NOWAIT"):
        return True
    probe = [bytearray(1)]
    last = position + size - 1
    try:
        for at in range(position, last, PROBE_STEP_BYTES):
            os.preadv(fd, probe, at, os.RWF_NOWAIT)
        # A small range within one page has been probed already.
        if position // _PAGE_BYTES != last // _PAGE_BYTES or size == 1:
            os.preadv(fd, probe, last, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # The file system does not know the flag; a real error shows when reading.
    return True


def _load(fd: int, position: int, size: int) -> None:
    """Send it to nowhere: then its pages are there, and nobody has copied them.

    That is a read in order, so the system reads ahead of it in pieces of the size that it likes best. To ask for pages by posix_fadvise
    brings them one by one: as fast, for nearly twice the processor's time of a reader far behind (Linux 6.18).
    """
    end = position + size
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # which says nothing of the file
        _read_through(fd, position, end)
        return
    try:
        while position < end and (sent := os.sendfile(nowhere, fd, position, end - position)):
            position += sent
    except OSError as problem:
        if problem.errno not in _NOT_SENT:
            raise
        _read_through(fd, position, end)
    finally:
        os.close(nowhere)


def _read_through(fd: int, position: int, end: int) -> None:
    while position < end:
        piece = os.pread(fd, min(end - position, PROBE_STEP_BYTES), position)
        if not piece:
            break
        position += len(piece)


def _sync_data(fd: int) -> None:
    if sys.platform == "darwin":
        # fsync on macOS only hands the data to the drive.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        # Also brings a changed size to the medium: a file cannot be read back without it.
        os.fdatasync(fd)
