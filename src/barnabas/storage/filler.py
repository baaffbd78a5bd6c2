"""Batches in the place of offsets that are gone.

Job: cover a range of offsets so that every reader passes over it. Must not know why it is gone, nor files.

Compaction leaves batches without records, in Kafka as here, so every reader knows how to pass over one. But a marker that ended an
aborted transaction is made again: readers of committed records leave out all that its producer wrote until they meet it, and
would go on to leave out what the producer committed later. The index of aborted transactions tells where it was. One that ended a
committed transaction tells readers nothing.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from barnabas.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    stamp,
)
from barnabas.wire.control_batch import EndMarker, build_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.storage.epoch_spans import EpochSpans

_HEADER: Final = Struct(">qiibIhiqqqhii")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
#: Nobody knows it any more. It is below every other, so it keeps no coordinator from writing markers.
_ABORTED: Final = EndMarker(commit=False, coordinator_epoch=-1)


class LostMarker(NamedTuple):
    """A marker that ended an aborted transaction, and is gone."""

    offset: int
    producer_id: int
    producer_epoch: int


def fill(
    first_offset: int, last_offset: int, epochs: EpochSpans, markers: Iterable[LostMarker]
) -> Iterator[tuple[int, bytearray | memoryview]]:
    """Make the batches that cover these offsets, each with its last one; `markers` lie among them, in order."""
    assert epochs, "every batch has a leader epoch"
    for marker in markers:
        assert first_offset <= marker.offset <= last_offset
        yield from _fill_plainly(first_offset, marker.offset - 1, epochs)
        ((_, _, epoch),) = epochs.split(marker.offset, marker.offset)
        batch, _ = build_marker(_ABORTED, marker.producer_id, marker.producer_epoch, NO_TIMESTAMP)
        stamp(batch, marker.offset, epoch)
        yield marker.offset, batch
        first_offset = marker.offset + 1
    yield from _fill_plainly(first_offset, last_offset, epochs)


def _fill_plainly(
    first_offset: int, last_offset: int, epochs: EpochSpans
) -> Iterator[tuple[int, bytearray]]:
    for first, last, epoch in epochs.split(first_offset, last_offset):
        yield last, _make_filler(first, last, epoch)


def _make_filler(first_offset: int, last_offset: int, leader_epoch: int) -> bytearray:
    """Make a batch without records."""
    batch = bytearray(HEADER_SIZE)
    _HEADER.pack_into(
        batch, 0,
        first_offset, HEADER_SIZE - LOG_OVERHEAD, leader_epoch, MAGIC, 0, 0,
        last_offset - first_offset, NO_TIMESTAMP, NO_TIMESTAMP,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 0,
    )  # fmt: skip
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch
