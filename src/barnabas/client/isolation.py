"""Which batches of a Fetch answer a reader may see.

Job: drop control batches, which hold no records of a user, and, for read_committed, what aborted transactions wrote. Must not know
records or requests.

Invariants: a batch of a producer is dropped from the first offset of its aborted transaction up to that transaction's marker; the
broker's list for one answer covers everything in it, so nothing is carried over to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.batch import CONTROL
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.messages.fetch import AbortedTransaction

    Placed = tuple[int, BatchHeader]


def visible(
    data: memoryview, batches: list[Placed], aborted: Iterable[AbortedTransaction] | None
) -> list[Placed]:
    """Return the batches (position and header) that a reader sees; `aborted` is None for read_uncommitted."""
    if not aborted:
        return [each for each in batches if not each[1].attributes & CONTROL]
    return list(_without_aborted(data, batches, aborted))


def _without_aborted(
    data: memoryview, batches: list[Placed], aborted: Iterable[AbortedTransaction]
) -> Iterator[Placed]:
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    dropped: set[int] = set()
    for position, header in batches:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            dropped.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in dropped and _is_abort(data, position, header):
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            yield position, header


def _is_abort(data: memoryview, position: int, header: BatchHeader) -> bool:
    marker = find_marker(data[position : position + header.size])
    return marker is not None and not marker.commit
