"""Bringing the state of producers up to date from batches in the log.

Job: what appending a batch did to the producers, done again when a log is opened. Must not know which batches are due.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.storage.transaction_index import AbortedTransaction
from barnabas.wire.batch import NO_PRODUCER_ID, BatchError
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.core.open_transactions import CompletedTransaction
    from barnabas.core.producer_state import ProducerStates
    from barnabas.storage.segment import Segment
    from barnabas.wire.batch import BatchHeader

    #: Called with a segment, the position of a batch in it, and its header.
    Visit = Callable[[Segment, int, BatchHeader], None]


def replay(
    producers: ProducerStates,
    segment: Segment,
    position: int,
    header: BatchHeader,
    *,
    into_index: bool,
) -> None:
    """Note the batch at `position`; an aborted transaction goes into the segment's index if that is being built."""
    if header.producer_id == NO_PRODUCER_ID:
        return
    if not header.is_control:
        producers.update(header, header.base_offset)
        return
    marker = find_marker(memoryview(segment.log.read(position, header.size)))
    if into_index and marker is not None and not marker.commit:
        completed = producers.completion(header.producer_id, header.base_offset, aborted=True)
        if completed is not None:
            segment.aborted.add(index_entry(producers, completed))
    producers.update(header, header.base_offset, marker)


def replay_from(producers: ProducerStates, segments: Iterable[Segment], start: int) -> None:
    """Note all batches from the one with offset `start` on, without checking them. Blocks."""
    for segment in segments:
        walk(segment, start, partial(replay, producers, into_index=False))


def walk(segment: Segment, start: int, visit: Visit) -> None:
    """Show the batches from the one with offset `start` on, without checking them; at damage it ends. Blocks."""
    try:
        position = segment.find_batch(start, segment.size)
        if position is not None:
            for at, header in segment.headers(position, segment.size):
                visit(segment, at, header)
    except BatchError:
        return  # damage shows when it is read; the rest still counts


def index_entry(producers: ProducerStates, completed: CompletedTransaction) -> AbortedTransaction:
    """Make the index entry of a transaction that is about to be aborted."""
    return AbortedTransaction(
        completed.first_offset,
        completed.producer_id,
        completed.last_offset,
        producers.transactions.stable_after(completed),
    )
