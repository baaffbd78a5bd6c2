"""Timestamps of single records in a log: of the first one at or after an offset, of the last one before an offset.

Job: what lag in seconds is made of. Blocks, so it runs in the background; reads the log as the loop goes on
appending. Must not know groups. Offsets without a record (compacted away, the markers of transactions) are stepped over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.wire import batch
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.storage.log import Log
    from barnabas.wire.batch import BatchHeader, Record

#: How far before the end the newest record is looked for: one offset, then 16 times as far, and so on.
STEP_GROWTH: Final = 16
#: Bytes of one read when batches are walked; the first batch comes whole even if it is larger.
_READ_BYTES: Final = 64 * 1024
#: A batch grows at most to this when its records are looked at: a bound against compression bombs.
_MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024


class Stamp(NamedTuple):
    """Offset of a record and its timestamp in milliseconds; -1 when it has none."""

    offset: int
    timestamp: int


def read_first(log: Log, offset: int, end_offset: int) -> Stamp | None:
    """Find the first record in [offset, end_offset). OSError or BatchError if it cannot be read."""
    for header, data in _batches(log, offset, end_offset, 1):
        if not header.is_control:
            for record in _records(data):
                if offset <= record.offset < end_offset:
                    return Stamp(record.offset, record.timestamp)
    return None


def read_newest(log: Log, floor_offset: int, end_offset: int) -> Stamp | None:
    """Find the last record in [floor_offset, end_offset). OSError or BatchError if it cannot be read."""
    step = 1
    while True:
        start_offset = max(floor_offset, end_offset - step)
        found = _read_last(log, start_offset, end_offset)
        if found is not None or start_offset == floor_offset:
            return found
        step *= STEP_GROWTH


def _read_last(log: Log, start_offset: int, end_offset: int) -> Stamp | None:
    last: Stamp | None = None
    for header, data in _batches(log, start_offset, end_offset, _READ_BYTES):
        if not header.is_control:
            for record in _records(data):
                if start_offset <= record.offset < end_offset:
                    last = Stamp(record.offset, record.timestamp)
    return last


def _batches(
    log: Log, offset: int, end_offset: int, max_bytes: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    while offset < end_offset:
        start = max(offset, log.log_start_offset)
        piece = log.read_bytes(start, max_bytes, end_offset=end_offset)
        if piece is None:
            return
        data = memoryview(piece)
        before = offset
        for position, header in batch.headers(data):
            yield header, data[position : position + header.size]
            offset = header.next_offset
        if offset <= before:  # the first batch comes whole: these bytes are none
            raise BatchError(f"no batch at offset {offset} in {log.directory}")


def _records(data: memoryview) -> Iterator[Record]:
    return batch.walk_records(data, _MAX_UNPACKED_BYTES)
