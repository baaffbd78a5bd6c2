"""A sparse index of one segment: fixed-size entries, keys rising, in a file and an unsaved tail.

Job: add at the end, find the last entry at or below a key. Must not know what keys and values mean:
the offset index maps relative offsets to file positions, the time index timestamps to relative offsets.

Invariants: the file holds a prefix of the entries and the tail the rest, in the order they were added;
the tail grows to `SPILL_BYTES` before it is written, so memory is bounded however many partitions there
are; nothing is mapped and no descriptor is kept by this class.

Searching is safe from a background thread while entries are added: `_parts` is replaced as a whole, and
a tail that was spilled is never touched again.

Why pread and not mmap: mappings of thousands of partitions would have to be bounded and made again, and
making one costs more than the few reads of a search: one key per step, and one last block.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from errno import EIO
from struct import Struct
from typing import TYPE_CHECKING, Final

from barnabas.ports import WouldBlock

if TYPE_CHECKING:
    from barnabas.ports import File

#: Relative offset of the last record in a batch, position of that batch in the log file.
OFFSET_ENTRY: Final = Struct(">ii")
#: Largest timestamp so far, relative offset of the last record in the batch that brought it.
TIME_ENTRY: Final = Struct(">qi")

#: One page: the tail is written once it is this long.
SPILL_BYTES: Final = 4096
#: The search reads this much at once when it has come near: one page.
_BLOCK_BYTES: Final = 4096


class Index:
    """See the module. `last` is the last entry, None while there is none."""

    __slots__ = ("_entry", "_is_synced", "_parts", "file", "last")

    def __init__(self, file: File, entry: Struct) -> None:
        """Take an empty file; `load` takes what is in one that is not."""
        self.file = file
        self._entry = entry
        # (bytes in the file, tail): one tuple, so that a reader never sees one without the other.
        self._parts: tuple[int, bytearray] = (0, bytearray())
        self.last: tuple[int, int] | None = None
        #: The file is on the medium as it is; of one that somebody else wrote that is not known.
        self._is_synced = False

    def __len__(self) -> int:
        """Count the entries."""
        saved, tail = self._parts
        return (saved + len(tail)) // self._entry.size

    def add(self, key: int, value: int) -> None:
        """Add an entry in memory. Keys must rise; the caller sees to that."""
        self._parts[1].extend(self._entry.pack(key, value))
        self.last = (key, value)

    @property
    def entry_bytes(self) -> int:
        """Bytes of one entry."""
        return self._entry.size

    @property
    def saved_bytes(self) -> int:
        """Bytes of entries in the file."""
        return self._parts[0]

    def on_file(self, file: File) -> Index:
        """Return the same entries over another file, which holds what this one's holds."""
        other = Index(file, self._entry)
        saved, tail = self._parts
        other._parts = (saved, bytearray(tail))
        other.last = self.last
        return other

    @property
    def has_tail(self) -> bool:
        """Tell whether there is something to spill."""
        return bool(self._parts[1])

    @property
    def spill_due(self) -> bool:
        """Tell whether the tail has reached its bound."""
        return len(self._parts[1]) >= SPILL_BYTES

    def spill(self) -> None:
        """Write the tail to the file. On an error everything is as before, to be tried again."""
        saved, tail = self._parts
        if tail:
            self._is_synced = False
            self.file.write(saved, (tail,))
            self._is_synced = False  # again: a sync may have come before the bytes
            self._parts = (saved + len(tail), bytearray())

    def reset(self) -> None:
        """Drop every entry, on disk too."""
        self.file.truncate(0)
        self._is_synced = False
        self._parts = (0, bytearray())
        self.last = None

    def sync(self) -> None:
        """Bring the file to the medium, unless it is there. Blocks; one at a time.

        Where every record is synced most syncs find no new entry here, and one that brings nothing still costs a flush of the disk's cache.
        """
        if self._is_synced:
            return
        self._is_synced = True  # first: the loop may write again while this runs
        try:
            self.file.sync()
        except OSError:
            self._is_synced = False
            raise

    # Cutting off the end

    def keep_keys_below(self, limit: int) -> None:
        """Drop entries from the first with a key not below `limit` on, in memory; `trim` lets the file follow."""
        self._keep(bisect_left(range(len(self)), limit, key=lambda one: self._at(one)[0]))

    def keep_values_below(self, limit: int) -> None:
        """Drop entries from the first with a value not below `limit` on: for values that rise as the keys do."""
        self._keep(bisect_left(range(len(self)), limit, key=lambda one: self._at(one)[1]))

    def _keep(self, count: int) -> None:
        last = self._at(count - 1) if count else None
        saved, tail = self._parts
        size = count * self._entry.size
        self._parts = (min(saved, size), tail[: max(0, size - saved)])
        self.last = last

    def trim(self) -> None:
        """Cut the file down to the entries that are kept in it."""
        if self.file.size() > self._parts[0]:
            self.file.truncate(self._parts[0])
            self._is_synced = False

    def load(self, saved_bytes: int) -> bool:
        """Take entries that are in the file; tell whether they look right: whole, and the last keys rise.

        Sets `last`. Zeros at the end, which a crash can leave, do not look right.
        """
        size = self._entry.size
        self._parts = (saved_bytes, bytearray())
        if saved_bytes % size or not saved_bytes:
            return not saved_bytes
        ends = self.file.read(max(0, saved_bytes - 2 * size), 2 * size)
        pairs = [self._pair(ends, number) for number in range(len(ends) // size)]
        self.last = pairs[-1]
        keys = [key for key, _ in pairs]
        return keys == sorted(set(keys)) and 0 not in keys

    def find(self, key: int, *, nowait: bool = False) -> tuple[int, int] | None:
        """Return the last entry whose key is not above `key`; WouldBlock if `nowait` and it must wait."""
        saved, tail = self._parts
        size = self._entry.size
        if len(tail) >= size and self._pair(tail, 0)[0] <= key:
            return self._find_in(tail, len(tail) // size, key)
        return self._find_saved(saved // size, key, nowait=nowait) if saved else None

    def find_value(self, value: int, *, nowait: bool = False) -> tuple[int, int] | None:
        """Return the first entry whose value is not below `value`: for values that rise as the keys do."""
        count = len(self)
        number = bisect_left(
            range(count), value, key=lambda entry: self._at(entry, nowait=nowait)[1]
        )
        return self._at(number, nowait=nowait) if number < count else None

    def _at(self, number: int, *, nowait: bool = False) -> tuple[int, int]:
        saved, tail = self._parts
        size = self._entry.size
        if number * size >= saved:
            return self._pair(tail, number - saved // size)
        return self._pair(self._read(number * size, size, nowait=nowait), 0)

    def _find_saved(self, count: int, key: int, *, nowait: bool) -> tuple[int, int] | None:
        size = self._entry.size
        per_block = _BLOCK_BYTES // size

        def first_key(block: int) -> int:
            return self._pair(self._read(block * per_block * size, size, nowait=nowait), 0)[0]

        blocks = -(-count // per_block)
        # The first block is read anyway when none begins at or below the key, so it needs no look.
        block = bisect_right(range(1, blocks), key, key=first_key)
        length = min(per_block, count - block * per_block)
        data = self._read(block * per_block * size, length * size, nowait=nowait)
        return self._find_in(data, length, key)

    def _find_in(self, data: bytes | bytearray, count: int, key: int) -> tuple[int, int] | None:
        number = bisect_right(range(count), key, key=lambda entry: self._pair(data, entry)[0])
        return self._pair(data, number - 1) if number else None

    def _pair(self, data: bytes | bytearray, number: int) -> tuple[int, int]:
        key, value = self._entry.unpack_from(data, number * self._entry.size)
        return key, value

    def _read(self, position: int, size: int, *, nowait: bool) -> bytes:
        if nowait and not self.file.cached(position, size):
            raise WouldBlock
        data = self.file.read(position, size)
        if len(data) < size:
            raise OSError(EIO, "the index is shorter than it was", self.file.path)
        return data
