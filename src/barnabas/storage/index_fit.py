"""Whether the index files of a segment fit its log file, as far as a glance tells: Kafka's sanity check at opening.

Job: take over what is on disk. Must not know how an index is built again where it does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.batch import HEADER_SIZE, NO_TIMESTAMP, BatchError

if TYPE_CHECKING:
    from barnabas.storage.segment import Segment


def load_indexes(segment: Segment) -> bool:
    """Take over both indexes as they are on disk; tell whether they fit the segment."""
    offsets, times = segment.offset_index, segment.time_index
    whole = offsets.load(offsets.file.size()) and times.load(times.file.size())
    fits = whole and _offset_index_fits(segment) and _time_index_fits(segment)
    segment.unsure = segment.largest if fits else None
    return fits


def _offset_index_fits(segment: Segment) -> bool:
    last = segment.offset_index.last
    return last is None or (last[0] >= 0 and 0 < last[1] <= segment.size - HEADER_SIZE)


def _time_index_fits(segment: Segment) -> bool:
    """Check the last entry and take the largest timestamp from it: closing a segment puts it there."""
    last = segment.time_index.last
    if last is None:
        return segment.size == 0 or _has_no_timestamps(segment)
    segment.largest = (last[0], segment.base_offset + last[1])
    return last[0] >= 0 and last[1] >= 0 and segment.size > 0


def _has_no_timestamps(segment: Segment) -> bool:
    try:
        return segment.read_first_timestamp() == NO_TIMESTAMP
    except BatchError:
        return False
