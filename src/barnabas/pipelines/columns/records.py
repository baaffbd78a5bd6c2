"""The fields of all records in a piece of memory, as columns of numbers: where keys and values lie, how long they are, offsets, times.

Job: from unpacked contents of batches to columns. Must not know Arrow, compression or which rows are wanted.

Invariants: everything that is told lies within its record, and every record is filled exactly by its fields; BatchError otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from barnabas.pipelines.columns.places import record_places
from barnabas.pipelines.columns.varints import read_varints
from barnabas.wire.batch import LOG_APPEND_TIME, BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from barnabas.wire.batch import BatchHeader

    Placed = tuple[int, int, BatchHeader]

NULL: Final = -1


@dataclass(slots=True)
class Spans:
    """A place and a length for each row; a length of -1 is a null."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]

    def select(self, rows: NDArray[np.bool_] | slice) -> Spans:
        """Keep some rows."""
        return Spans(self.start[rows], self.length[rows])


@dataclass(slots=True)
class Records:
    """Records in columns; all arrays have one entry per record."""

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    timestamp_type: NDArray[np.int32]
    key: Spans
    value: Spans
    header_count: NDArray[np.int64]
    #: Where headers start, behind their count.
    header_start: NDArray[np.int64]

    def select(self, rows: NDArray[np.bool_] | slice) -> Records:
        """Keep some rows."""
        return Records(
            self.buffer,
            self.offset[rows],
            self.timestamp_ms[rows],
            self.timestamp_type[rows],
            self.key.select(rows),
            self.value.select(rows),
            self.header_count[rows],
            self.header_start[rows],
        )


def read_records(buffer: NDArray[np.uint8], contents: Sequence[Placed]) -> Records:
    """Read the records of contents that lie at [start, end) in the buffer; BatchError for what are none.

    Fields are read one behind the other. Reading goes only forward, so what ends where its record does was inside it all the way.
    """
    start, end = record_places(buffer, contents)
    _, at = read_varints(buffer, start)
    time_delta, at = read_varints(buffer, at + 1)
    offset_delta, at = read_varints(buffer, at)
    key, at = _span(buffer, at)
    value, at = _span(buffer, at)
    header_count, at = read_varints(buffer, at)
    _check_ends(buffer, at, end, header_count)
    counts = np.array([header.record_count for _, _, header in contents], np.int64)
    time, kind = _times(contents, counts, time_delta)
    base = np.array([header.base_offset for _, _, header in contents], np.int64)
    return Records(
        buffer, np.repeat(base, counts) + offset_delta, time, kind, key, value, header_count, at
    )


def _span(buffer: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[Spans, NDArray[np.int64]]:
    length, start = read_varints(buffer, at)
    if length.min() < 0:
        np.maximum(length, NULL, out=length)  # Kafka takes every negative length for a null
        behind = start + np.maximum(length, 0)
    else:
        behind = start + length
    if length.max() > buffer.size:
        raise BatchError("a field is longer than all there is")
    return Spans(start, length), behind


def _check_ends(
    buffer: NDArray[np.uint8],
    at: NDArray[np.int64],
    end: NDArray[np.int64],
    header_count: NDArray[np.int64],
) -> None:
    """See that records end where their last field does; those with headers one header at a time."""
    if not header_count.any():
        if not np.array_equal(at, end):
            raise BatchError("a record's length contradicts its fields")
        return
    if header_count.min() < 0 or (header_count > end - at).any():
        raise BatchError("a record claims headers that it has no room for")
    at, left = at.copy(), header_count.copy()
    while (rows := np.flatnonzero(left)).size:
        for may_be_null in (False, True):
            span, behind = _span(buffer, at[rows])
            if not may_be_null and span.length.min() < 0:
                raise BatchError("a header without a name")
            at[rows] = behind
        left[rows] -= 1
    if not np.array_equal(at, end):
        raise BatchError("a record's length contradicts its fields")


def _times(
    contents: Sequence[Placed], counts: NDArray[np.int64], delta: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return times and their kind: those of the log's clock are the same for a whole batch."""
    appended = np.array(
        [bool(header.attributes & LOG_APPEND_TIME) for _, _, header in contents], np.bool_
    )
    base = np.array([header.base_timestamp for _, _, header in contents], np.int64)
    time = np.repeat(base, counts) + delta
    if not appended.any():
        return time, np.zeros(time.size, np.int32)
    latest = np.array([header.max_timestamp for _, _, header in contents], np.int64)
    kind = np.repeat(appended, counts)
    return np.where(kind, np.repeat(latest, counts), time), kind.astype(np.int32)
