"""Which transactions are open while the batches of a log go by, and which were aborted.

Job: follow good batches in order, over holes. Must not know files, nor what is done with what was found.

Invariant: memory is bounded by the transactions that are open at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.storage.filler import LostMarker
from barnabas.storage.transaction_index import AbortedTransaction
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker


class Transactions:
    """See the module."""

    def __init__(self) -> None:
        """Know of none."""
        #: By producer: the first offset, and the producer's epoch.
        self._open: dict[int, tuple[int, int]] = {}
        #: Some batches are gone: what was seen of a transaction may not be all of it.
        self.is_patchy = False

    def on_batch(self, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
        """Note a batch; return the transaction that it aborts, if records of it were seen."""
        if not header.is_control:
            self.is_patchy = self.is_patchy or not header.record_count
            if header.is_transactional:
                self._open.setdefault(
                    header.producer_id, (header.base_offset, header.producer_epoch)
                )
            return None
        marker = find_marker(batch)
        return None if marker is None else self._on_marker(header, marker)

    def _on_marker(self, header: BatchHeader, marker: EndMarker) -> AbortedTransaction | None:
        begun = self._open.pop(header.producer_id, None)
        if marker.commit or begun is None:
            return None
        stable = min((first for first, _ in self._open.values()), default=header.next_offset)
        return AbortedTransaction(begun[0], header.producer_id, header.base_offset, stable)

    def lost_markers(
        self, aborted: Iterable[AbortedTransaction], first_offset: int, last_offset: int
    ) -> list[LostMarker]:
        """End the transactions whose markers were in a hole, by what the index says of them; the markers, in order."""
        self.is_patchy = True
        markers = []
        for one in sorted(aborted, key=lambda one: one.last_offset):
            if first_offset <= one.last_offset <= last_offset:
                _, epoch = self._open.pop(one.producer_id, (0, 0))
                markers.append(LostMarker(one.last_offset, one.producer_id, epoch))
        return markers
