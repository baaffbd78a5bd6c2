"""The `.txnindex` of one segment: the aborted transactions whose markers lie in it.

Job: add an entry, find those that touch a range of offsets; the bytes are Kafka's. Must not know why a transaction was
aborted, nor the segment's records. The file is made with the first entry, as in Kafka: most segments have none.

Invariants: entries stand in the order of their markers, so `last_offset` rises; an entry is in the file before its marker
is in the log, and taken back if the marker does not get there.

`last_stable_offset` is where the first undecided record was once the marker had been written: a search that has come to an
entry whose `last_stable_offset` is not below the range's end is done, because nothing later can touch the range.
"""

from __future__ import annotations

from bisect import bisect_left
from errno import EIO
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from barnabas.ports import WouldBlock
from barnabas.storage.checksums import Sum
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.ports import Disk, File

#: Version, producer id, first offset, last offset, last stable offset.
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
#: Entries are read in pieces of this size.
_PIECE_BYTES: Final = 128 * _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One entry; `last_offset` is that of the marker."""

    first_offset: int
    producer_id: int
    last_offset: int
    last_stable_offset: int


def decode_index(data: bytes) -> list[AbortedTransaction]:
    """Read a `.txnindex`; a last entry that is not whole does not count, as in Kafka."""
    entries = []
    for version, producer_id, first, last, stable in _ENTRY.iter_unpack(
        memoryview(data)[: len(data) // _ENTRY.size * _ENTRY.size]
    ):
        if version != _VERSION:
            raise BatchError(f"transaction index version {version} is not known, only {_VERSION}")
        entries.append(AbortedTransaction(first, producer_id, last, stable))
    return entries


def read_index(disk: Disk, path: str) -> list[AbortedTransaction]:
    """Read the file; nothing if it is not there or says nonsense."""
    try:
        return decode_index(disk.read_file(path))
    except (FileNotFoundError, BatchError):
        return []


def encode_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Write entries as a `.txnindex` has them."""
    return b"".join(
        _ENTRY.pack(
            _VERSION, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset
        )
        for one in entries
    )


class TransactionIndex:
    """See the module."""

    __slots__ = ("_crc", "_disk", "_file", "_path", "_size", "_synced")

    def __init__(self, disk: Disk, path: str) -> None:
        """Stand for a file that need not be there; `load` looks."""
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._size = self._crc = 0
        self._synced = True

    def __len__(self) -> int:
        """Count the entries."""
        return self._size // _ENTRY.size

    @property
    def sum(self) -> Sum:
        """What its file is, for `checksums.py`."""
        return Sum(self._size, self._crc)

    def add(self, entry: AbortedTransaction) -> None:
        """Write an entry behind the others. On OSError it does not count."""
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        self._synced = False
        content = encode_index([entry])
        self._file.write(self._size, (content,))
        self._size += _ENTRY.size
        self._crc = crc32c(content, self._crc)

    def drop_last(self) -> None:
        """Take the newest entry back: its marker was not written."""
        assert self._file is not None
        self._file.truncate(self._size - _ENTRY.size)
        self._size -= _ENTRY.size
        self._crc = crc32c(self._read(0, self._size))

    def find(
        self, first_offset: int, end_offset: int, *, nowait: bool
    ) -> tuple[list[AbortedTransaction], bool]:
        """Return the entries that touch [first_offset, end_offset), and whether later segments need no look.

        WouldBlock if `nowait` and the file is not in memory.
        """
        found: list[AbortedTransaction] = []
        if not self._size:
            return found, False
        if nowait and self._file is not None and not self._file.cached(0, self._size):
            raise WouldBlock
        number = bisect_left(range(len(self)), first_offset, key=self._last_offset)
        for position in range(number * _ENTRY.size, self._size, _PIECE_BYTES):
            for entry in decode_index(
                self._read(position, min(_PIECE_BYTES, self._size - position))
            ):
                if entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found, True
        return found, False

    # Opening and closing

    def at_path(self, path: str) -> TransactionIndex:
        """Return the same entries in another file, which holds what this one's holds."""
        other = TransactionIndex(self._disk, path)
        if self._size:
            other._file = self._disk.open(path)
            other._size, other._crc = self._size, self._crc
            other._synced = False
        return other

    def load(self, base_offset: int) -> bool:
        """Take over the entries that are on disk; tell whether they look right."""
        self._crc = 0
        try:
            self._file = self._disk.open(self._path)
            self._size = self._file.size()
        except FileNotFoundError:
            return True
        if self._size % _ENTRY.size:
            return False
        last_offset = base_offset - 1
        try:
            for position in range(0, self._size, _PIECE_BYTES):
                piece = self._read(position, min(_PIECE_BYTES, self._size - position))
                self._crc = crc32c(piece, self._crc)
                for entry in decode_index(piece):
                    if not last_offset < entry.last_offset >= entry.first_offset:
                        return False
                    last_offset = entry.last_offset
        except BatchError:
            return False
        return True

    def reset(self) -> None:
        """Drop every entry, on disk too: before a replay."""
        self._disk.remove(self._path)
        self._file, self._size, self._crc = None, 0, 0

    def replace(self, entries: Iterable[AbortedTransaction]) -> None:
        """Hold these entries and no others."""
        self.reset()
        for entry in entries:
            self.add(entry)

    def keep_below(self, offset: int) -> None:
        """Drop entries whose markers are at `offset` or behind, in memory; `trim` lets the file follow."""
        self._size = bisect_left(range(len(self)), offset, key=self._last_offset) * _ENTRY.size
        if self._file is not None:
            self._crc = crc32c(self._read(0, self._size))

    def trim(self) -> None:
        """Cut the file down to the entries that are kept."""
        if self._file is not None and self._file.size() > self._size:
            self._synced = False
            self._file.truncate(self._size)

    def sync(self) -> None:
        """Bring it to the medium. Blocks."""
        if self._file is not None and not self._synced:
            self._synced = True  # first: the loop may write again while this runs
            self._file.sync()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()

    def _last_offset(self, number: int) -> int:
        return decode_index(self._read(number * _ENTRY.size, _ENTRY.size))[0].last_offset

    def _read(self, position: int, size: int) -> bytes:
        assert self._file is not None
        data = self._file.read(position, size)
        if len(data) < size:
            raise OSError(EIO, "the index is shorter than it was", self._path)
        return data
