"""What a follower got from its leader: batches to be appended as they are.

Job: find the whole batches in the bytes of a Fetch answer and make sure of each. Must not know the log they go to. A leader
sends what its own log holds, but disks, memory and networks fail: what is damaged here must not spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from barnabas.core.epochs import UNDEFINED_EPOCH
from barnabas.wire.batch import (
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchError,
    read_header,
)
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker


class LeaderBatch(NamedTuple):
    """One batch, and where in the bytes it is; `marker` is what a control batch says."""

    header: BatchHeader
    start: int
    end: int
    marker: EndMarker | None

    @property
    def is_abort(self) -> bool:
        """Tell whether it aborts a transaction."""
        return self.marker is not None and not self.marker.commit


def whole_batches(records: memoryview, end_offset: int) -> list[LeaderBatch]:
    """Return the batches that go behind `end_offset`, without one that is cut off at the end.

    The first one may begin before it, if it ends behind: see `LogWriter.append_as_follower`. Offsets may be missing.
    BatchError if any is not what it must be. The loop is what a follower's checking costs.
    """
    batches: list[LeaderBatch] = []
    lowest, next_offset = 0, end_offset
    start, size = 0, len(records)
    while start + HEADER_SIZE <= size:
        header = read_header(records, start)
        end = start + header.batch_length + LOG_OVERHEAD
        if end > size:
            break  # cut off
        last_offset = header.base_offset + header.last_offset_delta
        if header.magic != MAGIC or end < start + HEADER_SIZE:
            raise BatchError(f"no batch of format version {MAGIC} at offset {next_offset}")
        if not lowest <= header.base_offset <= last_offset >= next_offset:
            raise BatchError(
                f"offsets {header.base_offset} to {last_offset} where {next_offset} is next"
            )
        if header.partition_leader_epoch < UNDEFINED_EPOCH:
            raise BatchError(f"leader epoch {header.partition_leader_epoch}")
        if crc32c(records[start + CRC_START : end]) != header.crc:
            raise BatchError(f"a wrong checksum at offset {header.base_offset}")
        marker = find_marker(records[start:end]) if header.attributes & CONTROL else None
        batches.append(LeaderBatch(header, start, end, marker))
        lowest = next_offset = last_offset + 1
        start = end
    return batches
