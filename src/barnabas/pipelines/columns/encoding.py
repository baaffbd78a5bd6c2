"""Rows as the contents of record batches.

Job: from columns that are sorted by destination to encoded records, cut into batches. Must not know topics, producers or codecs.

How it is done without a step per row: the numbers around key and value are written for all rows at once into small arrays, and Arrow
joins them with keys, values and headers, row by row, into one piece of memory, of which every batch is a slice.

Invariants: a batch holds rows of one destination, in their order, and not more than the limit unless it is a single row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.columns.varints import varint_sizes, write_varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Room for the numbers of a record: length, attributes, two deltas, two lengths, a count.
OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5


@dataclass(slots=True)
class Rows:
    """Rows in columns: Arrow arrays of binary, times as numbers."""

    key: Any
    value: Any
    #: Encoded, with their count in front; None if no row has any.
    headers: Any | None
    timestamp_ms: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Pick rows, in this order."""
        picked = pa.array(rows)
        return Rows(
            self.key.take(picked),
            self.value.take(picked),
            None if self.headers is None else self.headers.take(picked),
            self.timestamp_ms[rows],
        )

    def sizes(self) -> NDArray[np.int64]:
        """Bytes that each row takes at most."""
        sizes = np.maximum(lengths(self.key), 0) + np.maximum(lengths(self.value), 0)
        if self.headers is not None:
            sizes += lengths(self.headers)
        return sizes + OVERHEAD_BYTES


@dataclass(slots=True)
class Content:
    """The records of one batch, encoded."""

    first_row: int
    row_count: int
    data: memoryview
    base_timestamp: int
    max_timestamp: int


def lengths(array: Any) -> NDArray[np.int64]:  # noqa: ANN401  # pyarrow is untyped
    """Bytes of each element; -1 for a null."""
    found = pc.fill_null(pc.binary_length(array), -1)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def encode(rows: Rows, destination: NDArray[np.int64], limit_bytes: int) -> Sequence[Content]:
    """Encode rows that are sorted by destination."""
    first = _first_rows(rows.sizes(), destination, limit_bytes)
    count = destination.size
    behind = np.append(first[1:], count)
    delta = np.arange(count) - np.repeat(first, behind - first)
    time = rows.timestamp_ms
    time_delta = time - np.repeat(time[first], behind - first)
    records = _join(rows, time_delta, delta)
    bounds = np.frombuffer(records.buffers()[1], np.int32)[records.offset :]
    data = memoryview(records.buffers()[2])
    latest = np.maximum.reduceat(time, first)
    return [
        Content(int(a), int(b - a), data[bounds[a] : bounds[b]], int(time[a]), int(most))
        for a, b, most in zip(first, behind, latest, strict=True)
    ]


def _first_rows(
    sizes: NDArray[np.int64], destination: NDArray[np.int64], limit_bytes: int
) -> NDArray[np.int64]:
    """Tell with which rows batches start: at a new destination, and where the limit is reached."""
    turns = np.flatnonzero(np.diff(destination)) + 1
    total = np.cumsum(sizes)
    first: list[int] = []
    for start, end in zip([0, *turns], [*turns, destination.size], strict=True):
        row = int(start)
        while row < end:
            first.append(row)
            before = int(total[row - 1]) if row else 0
            reached = int(np.searchsorted(total[row:end], before + limit_bytes, side="right"))
            row += max(reached, 1)
    return np.array(first, np.int64)


def _join(rows: Rows, time_delta: NDArray[np.int64], offset_delta: NDArray[np.int64]) -> Any:  # noqa: ANN401
    key_length, value_length = lengths(rows.key), lengths(rows.value)
    head = [time_delta, offset_delta, key_length]
    tail = np.ones(key_length.size, np.int64) if rows.headers is None else lengths(rows.headers)
    size = 1 + tail + varint_sizes(value_length)
    size += np.maximum(key_length, 0) + np.maximum(value_length, 0)
    for each in head:
        size += varint_sizes(each)
    parts = [_numbers([size, *head], zero_behind_first=True)]
    if key_length.max() >= 0:
        parts.append(rows.key)
    parts += [_numbers([value_length]), rows.value]
    parts.append(pa.scalar(b"\0", pa.binary()) if rows.headers is None else rows.headers)
    return pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")


def _numbers(columns: list[NDArray[np.int64]], *, zero_behind_first: bool = False) -> Any:  # noqa: ANN401
    """Write numbers behind each other, row by row; behind the first, where asked for, a byte 0: a record's attributes."""
    sizes = np.sum([varint_sizes(each) for each in columns], axis=0) + int(zero_behind_first)
    bounds = np.zeros(sizes.size + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    buffer = np.zeros(int(bounds[-1]), np.uint8)
    at = bounds[:-1].astype(np.int64)
    for index, each in enumerate(columns):
        at = write_varints(buffer, at, each)
        if zero_behind_first and not index:
            at = at + 1
    return pa.Array.from_buffers(
        pa.binary(), sizes.size, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )


def encode_headers(column: Any) -> Any | None:  # noqa: ANN401
    """Encode a column of list<struct<key, value>>, with counts; None if no row has headers."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    counts = counts.astype(np.int64)
    if not counts.any():
        return None
    items = column.flatten()
    names = items.field("key").cast(pa.binary())
    values = items.field("value").cast(pa.binary())
    joined = pc.binary_join_element_wise(
        _numbers([lengths(names)]), names, _numbers([lengths(values)]), values, b"",
        null_handling="replace", null_replacement=b"",
    )  # fmt: skip
    behind = np.concatenate(([0], np.cumsum(counts)))
    bounds = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :][behind]
    grouped = pa.Array.from_buffers(
        pa.binary(), counts.size, [None, pa.py_buffer(bounds.copy()), joined.buffers()[2]]
    )
    return pc.binary_join_element_wise(_numbers([counts]), grouped, b"")


def nameless_headers(column: Any) -> list[int]:  # noqa: ANN401
    """Name the rows of a column of list<struct<key, value>> that have a header without a key, which no broker takes."""
    if column is None:
        return []
    nameless = pc.is_null(pc.struct_field(column.flatten(), "key"))
    rows = pc.list_parent_indices(column).filter(nameless)
    return rows.unique().to_pylist()  # type: ignore[no-any-return]
