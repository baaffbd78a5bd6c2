"""What a follower got from its leader: batches to be appended as they are.

Job: find the whole batches in the bytes of a Fetch answer and make sure of each. Must not know the log they go to. A leader
sends what its own log holds, but disks, memory and networks fail: what is damaged here must not spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.wire.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchError,
    checksum_matches,
    headers,
    read_header,
)
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker


class LeaderBatch(NamedTuple):
    """One batch; `marker` is what a control batch says."""

    content: memoryview
    header: BatchHeader
    marker: EndMarker | None

    @property
    def is_abort(self) -> bool:
        """Tell whether it aborts a transaction."""
        return self.marker is not None and not self.marker.commit


def whole_batches(records: memoryview, end_offset: int) -> list[LeaderBatch]:
    """Return the batches that go behind `end_offset`, without one that is cut off at the end.

    The first one may begin before it, if it ends behind: see `Log.append_as_follower`. Offsets may be missing.
    BatchError if any is not what it must be.
    """
    batches = []
    next_offset, end = None, 0
    for position, header in headers(records):
        content = records[position : position + header.size]
        _check(content, header, end_offset if next_offset is None else next_offset)
        if next_offset is not None and header.base_offset < next_offset:
            raise BatchError(f"offset {header.base_offset} comes after {next_offset - 1}")
        marker = find_marker(content) if header.is_control else None
        batches.append(LeaderBatch(content, header, marker))
        next_offset, end = header.next_offset, position + header.size
    _check_rest(records[end:])
    return batches


def _check(content: memoryview, header: BatchHeader, next_offset: int) -> None:
    if header.magic != MAGIC:
        raise BatchError(f"a batch of format version {header.magic}")
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset < next_offset:
        raise BatchError(
            f"offsets {header.base_offset} to {header.last_offset} where {next_offset} is next"
        )
    if not checksum_matches(content, header):
        raise BatchError(f"a wrong checksum at offset {header.base_offset}")


def _check_rest(rest: memoryview) -> None:
    """A batch that is cut off is fine, one that claims to be shorter than its header is not."""
    if len(rest) >= HEADER_SIZE and read_header(rest).batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise BatchError("a batch that claims to be shorter than its header")
