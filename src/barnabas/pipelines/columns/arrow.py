"""Columns of numbers as Arrow arrays: spans of a buffer become binary arrays, without a Python object per row.

Job: the Arrow side of decoding. Must not know batches or Kafka.

How spans become an array: what lies between them is made an element, too, so that the buffer as it is is a valid array of gaps and
values in turn; taking every other element is one pass of copying in Arrow.

Arrays are made of buffers and never by `pa.array` or `pa.scalar`, which import pandas to ask whether they were given something of it: half a second of CPU
at the start of every worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barnabas.pipelines.columns.records import Spans


def binary_array(buffer: NDArray[np.uint8], spans: Spans, kind: Any = None) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Copy spans, which follow each other in the buffer, into an array of `kind`, binary by default."""
    count = spans.start.size
    kind = kind or pa.binary()
    is_null = spans.length < 0
    nulls = int(np.count_nonzero(is_null))
    if nulls == count:
        return pa.nulls(count, kind)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0] = 0
    bounds[1::2] = spans.start
    bounds[2::2] = (
        spans.start + np.maximum(spans.length, 0) if nulls else spans.start + spans.length
    )
    both = pa.Array.from_buffers(
        kind, 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )
    validity = _validity(~is_null) if nulls else None
    wanted = np.arange(1, 2 * count, 2, dtype=np.int32)
    return both.take(pa.Array.from_buffers(pa.int32(), count, [validity, pa.py_buffer(wanted)]))


def number_array(values: NDArray[Any], kind: Any = None) -> Any:  # noqa: ANN401
    """Let the memory of numbers be an array of their own type, or of a `kind` that is kept in the same way."""
    kind = kind or pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(np.ascontiguousarray(values))])  # fmt: skip


def text_scalar(text: str) -> Any:  # noqa: ANN401
    """Make one text, to be repeated."""
    data = text.encode()
    bounds = np.array([0, len(data)], np.int32)
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])[0]  # fmt: skip


def list_array(counts: NDArray[np.int64], items: Any, *, nulls: bool) -> Any:  # noqa: ANN401
    """Cut items into lists of so many; with `nulls` an empty list is a null."""
    bounds = np.zeros(counts.size + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    validity = None
    if nulls and (counts == 0).any():
        validity = _validity(counts > 0)
    kind = pa.list_(pa.field("element", items.type))
    return pa.Array.from_buffers(
        kind, counts.size, [validity, pa.py_buffer(bounds)], children=[items]
    )


def _validity(is_valid: NDArray[np.bool_]) -> Any:  # noqa: ANN401
    """Make the bits that say which rows are not null."""
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))
