"""Transactions as the cleaner meets them, batch by batch: what was aborted, which markers are still needed.

Job: say of a batch whether it belongs to an aborted transaction, and of a marker whether anything of its transaction
is left; collect what the transaction index of the new segment must hold.
Must not know files or keys.

A marker may go once nothing of its transaction is left in the log, and not before its delete horizon: readers that
are in the middle of the transaction must find its end.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from barnabas.wire.control_batch import ABORT, COMMIT, read_marker_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.storage.transaction_index import AbortedTransaction
    from barnabas.wire.batch import BatchHeader


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
        kind = read_marker_type(key)
        if kind == ABORT:
            aborted, has_batches = self._ongoing.pop(header.producer_id, (None, False))
            if aborted is not None and has_batches:
                self.retained.append(aborted)
                return False
            return True
        if kind == COMMIT:
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
