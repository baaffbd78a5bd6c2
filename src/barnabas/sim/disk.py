"""The Disk port in memory, with everything that can go wrong, decided by a seed.

Job: behave as a file system that keeps exactly what it promised and as little else as the seed allows.
Must not know: what the files mean.
Invariants: what was synced is never lost; the same seed and calls give the same bytes; iteration follows the
order of calls and names.

What a power loss (`crash`) leaves:

| change since the last sync | after the crash                                                         |
|----------------------------|-------------------------------------------------------------------------|
| bytes of a file            | every 512-byte sector is as it was after some number of the writes to it |
| size of a file             | as it was after some number of the changes; missing sectors are zeros    |
| names in a folder          | each creation, rename, removal kept or lost, or all from some point lost |

A file's content and its name are synced apart: a synced file in an unsynced folder may be gone. A sync that
fails leaves some sectors behind for good: the next sync does not bring them (as Linux does it). Renames
between two folders are durable at once; nothing here needs them to be torn.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

SECTOR_BYTES: Final = 512
#: How many states between two syncs a crash chooses from: each is a copy of what changed.
_MOMENTS_KEPT: Final = 8

#: (position, bytes written) or (new size, None) for a truncation.
_Change: TypeAlias = tuple[int, "bytes | None"]
#: (old name or None, new name or None, what it names): create, remove and rename in one.
_NameChange: TypeAlias = tuple["str | None", "str | None", "_Content | _Folder"]


class _Content:
    """The bytes of a file: as the process sees them, as the medium has them, and what lies between."""

    __slots__ = ("changes", "cold", "data", "durable", "modified_ms")

    def __init__(self, data: bytes = b"") -> None:
        self.modified_ms = 0
        self.data = bytearray(data)
        self.durable = bytearray(data)
        self.changes: list[_Change] = []
        self.cold = False

    def apply(self, change: _Change) -> None:
        _apply(self.data, change)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            _apply(self.durable, change)
        self.changes.clear()

    def tear(self, rng: random.Random) -> None:
        """Bring a part of the changes to the medium, chosen sector by sector; the rest is lost."""
        if self.changes:
            self.durable = _torn(self.durable, self.changes, rng)
            self.changes.clear()


class _Folder:
    """The names in a folder, with the same three views."""

    __slots__ = ("changes", "durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Content | _Folder] = {}
        self.durable: dict[str, _Content | _Folder] = {}
        self.changes: list[_NameChange] = []

    def apply(self, change: _NameChange) -> None:
        _apply_name(self.names, change)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            _apply_name(self.durable, change)
        self.changes.clear()

    def tear(self, rng: random.Random) -> None:
        """Keep a beginning of the changes, or any of them: file systems differ in what they order."""
        if rng.random() < 0.5:
            kept = self.changes[: rng.randint(0, len(self.changes))]
        else:
            kept = [change for change in self.changes if rng.random() < 0.5]
        for change in kept:
            _apply_name(self.durable, change)
        self.changes.clear()


class SimFile:
    """One file by name; see `ports.File`. A crash ends it, as it ends the process that had it."""

    __slots__ = ("_content", "_disk", "_life", "path")

    def __init__(self, disk: SimDisk, path: str, content: _Content, life: int) -> None:
        """Made by `SimDisk.open` only."""
        self.path = path
        self._disk = disk
        self._content: _Content | None = content
        self._life = life

    def size(self) -> int:
        """Bytes in the file now."""
        return len(self._enter().data)

    def modified_ms(self) -> int:
        """When it was last written to, by the clock that the disk was given."""
        return self._enter().modified_ms

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        content = self._enter()
        if position < 0 or size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        content.cold = False
        return bytes(content.data[position : position + size])

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers; a failing call, or a full disk, writes a part of them."""
        data = b"".join(memoryview(buffer).cast("B") for buffer in buffers)
        try:
            content = self._enter()
        except OSError:
            if self._is_alive():
                self._disk.write(self._content_now(), position, data, self._disk.some_of(len(data)))
            raise
        room = self._disk.room_for(content, position, len(data))
        self._disk.write(content, position, data, room)
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes. Extending takes room, as if the zeros were written."""
        content = self._enter()
        growth = size - len(content.data)
        if growth > self._disk.free_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._disk.used_bytes += growth
        content.apply((size, None))

    def sync(self) -> None:
        """Bring data and size to the medium; when failing, bring only a part and forget the rest."""
        try:
            content = self._enter()
        except OSError:
            if self._is_alive():
                self._content_now().tear(self._disk.rng)
            raise
        content.sync()

    def cached(self, position: int, size: int) -> bool:
        """Tell whether the file has been read since `SimDisk.chill`."""
        return not self._enter().cold

    def load(self, position: int, size: int) -> None:
        """Bring the file into memory."""
        self._enter().cold = False

    def fileno(self) -> int:
        """There are no descriptors here: links in the simulator take the bytes."""
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def close(self) -> None:
        """Nothing is held, so this is fine at any time. The object stays usable."""
        if self._life == self._disk.life:
            self._disk.count_call(self.path)

    def _enter(self) -> _Content:
        """Count the call and let it fail if it is its turn."""
        if self._life != self._disk.life:
            raise OSError(errno.EBADF, "this file was opened before the crash", self.path)
        self._disk.count_call(self.path)
        return self._content_now()

    def _content_now(self) -> _Content:
        if self._content is None:
            raise FileNotFoundError(errno.ENOENT, "the file was removed", self.path)
        return self._content

    def _is_alive(self) -> bool:
        return self._life == self._disk.life and self._content is not None


class SimDisk:
    """See `ports.Disk`. Paths are absolute, or taken as if they were."""

    def __init__(self, rng: random.Random, capacity_bytes: int = 1 << 40) -> None:
        """Start empty. All chance comes from `rng`."""
        self.rng = rng
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        #: How many File and Disk methods were called so far.
        self.calls = 0
        #: The clock that dates what is written.
        self.now_ms: Callable[[], int] = lambda: 0
        #: Counts crashes: files opened in an earlier life are dead.
        self.life = 0
        self._root = _Folder()
        self._files: dict[str, SimFile] = {}
        self._fail_at = 0
        self._fail_errno = errno.EIO
        self._bad_paths: dict[str, int] = {}
        self._act_at = 0
        self._act: Callable[[], object] | None = None

    # Faults

    def at_call(self, nth: int, act: Callable[[], object]) -> None:
        """Let something happen just before the nth call from now, once: what another thread does in between."""
        self._act_at, self._act = self.calls + nth, act

    def fail_call(self, nth: int, code: int = errno.EIO) -> None:
        """Let the nth call from now fail once, counting from 1; 0 takes the order back."""
        self._fail_at = self.calls + nth if nth else 0
        self._fail_errno = code

    def fail_path(self, path: str, code: int = errno.EIO) -> None:
        """Let every call on this path, and on all below it, fail until `heal`."""
        self._bad_paths["/".join(_parts(path))] = code

    def heal(self) -> None:
        """Let nothing fail any more. Capacity stays as it is."""
        self._fail_at = 0
        self._bad_paths.clear()

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn one bit over, in memory and on the medium."""
        content = self._file_at(path)
        flipped = bytes([content.data[position] ^ (1 << bit)])
        if content.changes:
            content.apply((position, flipped))
        content.data[position] = flipped[0]
        if position < len(content.durable):
            content.durable[position] ^= 1 << bit

    def chill(self, path: str) -> None:
        """Drop a file from the page cache: `cached` says no until it was read."""
        self._file_at(path).cold = True

    def process_crash(self) -> None:
        """Kill the process (kill -9): what it wrote is there, files it had open are dead."""
        self.life += 1
        self._files.clear()

    def crash(self) -> None:
        """Lose power: unsynced changes are lost, torn or kept as the seed says. Takes back `fail_call`."""
        self.process_crash()
        self.heal()
        self._tear(self._root)
        self.used_bytes = sum(len(content) for content in self.contents().values())

    def _tear(self, folder: _Folder) -> None:
        folder.tear(self.rng)
        folder.names = dict(folder.durable)
        for _, child in sorted(folder.names.items()):
            if isinstance(child, _Folder):
                self._tear(child)
            else:
                child.tear(self.rng)
                child.data = bytearray(child.durable)

    def contents(self) -> dict[str, bytes]:
        """Return every file with its bytes as the process sees them, by path. Counts as no call."""
        found: dict[str, bytes] = {}
        _collect(self._root, "", found)
        return found

    # What SimFile needs

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be written."""
        return max(0, self.capacity_bytes - self.used_bytes)

    def count_call(self, path: str) -> None:
        """Count one call, and raise what was ordered for it."""
        self.calls += 1
        if self.calls == self._act_at:
            assert self._act is not None
            self._act()
        if self.calls == self._fail_at:
            raise OSError(self._fail_errno, os.strerror(self._fail_errno), path)
        if self._bad_paths:
            parts = _parts(path)
            for depth in range(len(parts) + 1):
                code = self._bad_paths.get("/".join(parts[:depth]))
                if code is not None:
                    raise OSError(code, os.strerror(code), path)

    def some_of(self, size: int) -> int:
        """Choose how much of a failing write is done."""
        return self.rng.choice((0, size, self.rng.randint(0, size)))

    def room_for(self, content: _Content, position: int, size: int) -> int:
        """Return how many of `size` bytes at `position` fit on the disk."""
        growth = position + size - len(content.data)
        return size if growth <= self.free_bytes else max(0, size - (growth - self.free_bytes))

    def write(self, content: _Content, position: int, data: bytes, size: int) -> None:
        """Write the first `size` bytes of `data`."""
        if size:
            before = len(content.data)
            content.apply((position, data[:size]))
            content.modified_ms = self.now_ms()
            self.used_bytes += len(content.data) - before

    # Disk

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Open an existing file, or create it; FileNotFoundError if there is none."""
        self.count_call(path)
        folder, name = self._folder_of(path)
        child = folder.names.get(name)
        if child is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            child = _Content()
            folder.apply((None, name, child))
        return self._file_object(path, child)

    def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        self.count_call(path)
        return bytes(self._file_at(path).data)

    def write_file_atomically(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Replace the content whole and durably; a failing call may leave any step of it."""
        try:
            self.count_call(path)
        except OSError:
            self._leave_step_of_replacing(path, content)
            raise
        if len(content) > self.free_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        folder = self._replace(path, content)
        if sync:
            folder.sync()

    def make_dir(self, path: str, *, sync: bool = True) -> None:
        """Create a folder and its parents; fine if it is there. Durable with `sync`."""
        self.count_call(path)
        folder = self._root
        for name in _parts(path):
            child = folder.names.get(name)
            if child is None:
                child = _Folder()
                folder.apply((None, name, child))
                if sync:
                    folder.sync()
            if not isinstance(child, _Folder):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            folder = child

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder, replacing a file at `new`. Files opened by the old name follow."""
        self.count_call(old)
        old_folder, old_name = self._folder_of(old)
        new_folder, new_name = self._folder_of(new)
        child = old_folder.names.get(old_name)
        if child is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        replaced = new_folder.names.get(new_name)
        if isinstance(replaced, _Folder) and replaced.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        self._drop_file(new, replaced)
        if old_folder is new_folder:
            old_folder.apply((old_name, new_name, child))
        else:
            old_folder.apply((old_name, None, child))
            new_folder.apply((None, new_name, child))
            old_folder.sync()
            new_folder.sync()
        self._move_files(old, new)

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there, or its folder is not."""
        self.count_call(path)
        child = self._look_up(path)
        if isinstance(child, _Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if child is not None:
            folder, name = self._folder_of(path)
            self._drop_file(path, child)
            folder.apply((name, None, child))

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; a failing call leaves some of it."""
        failure = None
        try:
            self.count_call(path)
        except OSError as error:
            failure = error
        if self._look_up(path) is not None:
            folder, name = self._folder_of(path)
            self._remove_below(folder, name, path, failure is not None)
        if failure is not None:
            raise failure

    def sync_dir(self, path: str) -> None:
        """Return when creations, renames and removals in this folder are on the medium."""
        self.count_call(path)
        self._folder_at(path).sync()

    def space(self, path: str) -> tuple[int, int]:
        """Return (total bytes, usable bytes)."""
        self.count_call(path)
        self._folder_at(path)
        return self.capacity_bytes, self.free_bytes

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        self.count_call(path)
        return self._look_up(path) is not None

    def is_dir(self, path: str) -> bool:
        """Tell whether it is a folder."""
        self.count_call(path)
        return isinstance(self._look_up(path), _Folder)

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        self.count_call(path)
        return sorted(self._folder_at(path).names)

    # Names

    def _look_up(self, path: str) -> _Content | _Folder | None:
        found: _Content | _Folder | None = self._root
        for name in _parts(path):
            if not isinstance(found, _Folder):
                return None
            found = found.names.get(name)
        return found

    def _folder_at(self, path: str) -> _Folder:
        found = self._look_up(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(found, _Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return found

    def _file_at(self, path: str) -> _Content:
        found = self._look_up(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(found, _Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return found

    def _folder_of(self, path: str) -> tuple[_Folder, str]:
        *parents, name = _parts(path)
        return self._folder_at("/".join(parents)), name

    def _file_object(self, path: str, child: _Content | _Folder) -> SimFile:
        if isinstance(child, _Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        key = "/".join(_parts(path))
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = SimFile(self, path, child, self.life)
        return file

    def _drop_file(self, path: str, child: _Content | _Folder | None) -> None:
        """Take a file out of use: its room is free, and a File of it is dead."""
        if isinstance(child, _Content):
            self.used_bytes -= len(child.data)
        file = self._files.pop("/".join(_parts(path)), None)
        if file is not None:
            file._content = None

    def _move_files(self, old: str, new: str) -> None:
        old_key, new_key = "/".join(_parts(old)), "/".join(_parts(new))
        for key in tuple(self._files):
            if key == old_key or key.startswith(old_key + "/"):
                file = self._files.pop(key)
                file.path = new + key[len(old_key) :]
                self._files[new_key + key[len(old_key) :]] = file

    def _remove_below(self, folder: _Folder, name: str, path: str, partly: bool) -> bool:
        """Remove a name and all below it; `partly` skips some names and all above them."""
        child = folder.names[name]
        complete = not (partly and self.rng.random() < 0.5)
        if isinstance(child, _Folder):
            for below in sorted(child.names):
                complete &= self._remove_below(child, below, f"{path}/{below}", partly)
        if complete:
            self._drop_file(path, child)
            folder.apply((name, None, child))
        return complete

    def _replace(self, path: str, data: bytes) -> _Folder:
        folder, name = self._folder_of(path)
        replaced = folder.names.get(name)
        if isinstance(replaced, _Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._drop_file(path, replaced)
        folder.apply((None, name, _Content(data)))
        self.used_bytes += len(data)
        return folder

    def _leave_step_of_replacing(self, path: str, data: bytes) -> None:
        step = self.rng.randint(0, 2)
        if step == 1:
            self._replace(path + ".tmp", data[: self.rng.randint(0, len(data))])
        elif step == 2:
            self._replace(path, data)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _collect(folder: _Folder, path: str, found: dict[str, bytes]) -> None:
    for name, child in sorted(folder.names.items()):
        if isinstance(child, _Folder):
            _collect(child, f"{path}/{name}", found)
        else:
            found[f"{path}/{name}"] = bytes(child.data)


def _apply(data: bytearray, change: _Change) -> None:
    position, written = change
    if written is None:
        del data[position:]
        data.extend(bytes(position - len(data)))
        return
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(written)] = written


def _apply_name(names: dict[str, _Content | _Folder], change: _NameChange) -> None:
    old, new, child = change
    if old is not None:
        if names.get(old) is not child:
            return  # What this change builds on was lost.
        del names[old]
    if new is not None:
        names[new] = child


def _torn(durable: bytearray, changes: list[_Change], rng: random.Random) -> bytearray:
    """Build the file as the medium has it: every touched sector, and the size, from its own moment."""
    lowest = min(len(durable), min(position for position, _ in changes))
    start = lowest // SECTOR_BYTES * SECTOR_BYTES
    moments = _moments(durable[start:], [(position - start, data) for position, data in changes])
    mood = rng.random()
    if mood < 0.2:
        return durable[:start] + moments[0]
    if mood < 0.4:
        return durable[:start] + moments[-1]
    size = len(rng.choice(moments))
    torn = durable[:start]
    for position in range(0, size, SECTOR_BYTES):
        end = min(position + SECTOR_BYTES, size)
        torn += rng.choice(moments)[position:end].ljust(end - position, b"\0")
    return torn


def _moments(durable: bytearray, changes: list[_Change]) -> list[bytearray]:
    """Return the bytes before the changes and after some of them, the last one among these."""
    moments, data = [durable], bytearray(durable)
    keep_every = max(1, len(changes) // _MOMENTS_KEPT)
    for number, change in enumerate(changes, start=1):
        _apply(data, change)
        if number % keep_every == 0 or number == len(changes):
            moments.append(bytearray(data))
    return moments
