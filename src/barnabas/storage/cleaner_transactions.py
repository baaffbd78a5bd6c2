"""Transactions as the cleaner meets them, batch by batch: what was aborted, which markers are still needed.

Job: say of a batch whether it belongs to an aborted transaction, and of a marker whether anything of its transaction
is left; collect what the transaction index of the new segment must hold. Also the bytes of that index.
Must not know files or keys.

A marker may go once nothing of its transaction is left in the log, and not before its delete horizon: readers that
are in the middle of the transaction must find its end.
"""

from __future__ import annotations

import heapq
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.wire.batch import BatchHeader

#: Version, producer id, first offset, last offset, last stable offset.
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
#: Version and type: the key of a marker.
_MARKER_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class AbortedTransaction(NamedTuple):
    """One entry of a transaction index; `last_offset` is that of the marker."""

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


def encode_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Write entries as a `.txnindex` has them."""
    return b"".join(
        _ENTRY.pack(
            _VERSION, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset
        )
        for one in entries
    )


class CleanedTransactions:
    """See the module. Every batch of the cleaned range is shown to it, in order, once."""

    __slots__ = ("_committed", "_ongoing", "_to_come", "retained")

    def __init__(self) -> None:
        """Know of no transaction."""
        #: Aborted ones that have not begun yet.
        self._to_come: list[AbortedTransaction] = []
        #: Aborted ones that have, by producer; and whether a batch of theirs was seen.
        self._ongoing: dict[int, tuple[AbortedTransaction, bool]] = {}
        #: Producers of whom a batch was seen that no aborted transaction covers.
        self._committed: dict[int, None] = {}
        #: Aborted ones whose marker stays: for the index of the new segment.
        self.retained: list[AbortedTransaction] = []

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Learn of aborted transactions before their first batch comes."""
        for one in aborted:
            heapq.heappush(self._to_come, one)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a batch of records; tell whether it was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._ongoing.get(header.producer_id)
        if ongoing is None:
            self._committed[header.producer_id] = None
            return False
        self._ongoing[header.producer_id] = (ongoing[0], True)
        return True

    def is_needless(self, header: BatchHeader, key: bytes | None) -> bool:
        """Note a control batch with the key of its first record; tell whether nothing is left that it ends.

        The key is None for one that was emptied before.
        """
        self._begin_up_to(header.last_offset)
        if key is None:
            return True
        if len(key) < _MARKER_KEY.size:
            raise BatchError("a control record without a type")
        _, kind = _MARKER_KEY.unpack_from(key)
        if kind == _ABORT:
            aborted, has_batches = self._ongoing.pop(header.producer_id, (None, False))
            if aborted is not None and has_batches:
                self.retained.append(aborted)
                return False
            return True
        if kind == _COMMIT:
            return header.producer_id not in self._committed or self._forget(header.producer_id)
        return False

    def _forget(self, producer_id: int) -> bool:
        del self._committed[producer_id]
        return False

    def _begin_up_to(self, offset: int) -> None:
        to_come = self._to_come
        while to_come and to_come[0].first_offset <= offset:
            one = heapq.heappop(to_come)
            self._ongoing.setdefault(one.producer_id, (one, False))
