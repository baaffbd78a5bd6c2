"""Headers of records as an Arrow column: list<struct<key: string, value: binary>>, null where a record has none.

Job: step through the headers of all records at once, first headers first. Must not know anything else of a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.columns.arrow import binary_array, list_array
from barnabas.pipelines.columns.records import Spans
from barnabas.pipelines.columns.varints import read_varints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barnabas.pipelines.columns.records import Records

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))


def header_array(records: Records) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Make the column."""
    counts = records.header_count
    if not counts.any():
        return pa.nulls(counts.size, HEADERS)
    names, values = _spans(records)
    items = pa.StructArray.from_arrays(
        [_texts(records.buffer, names), binary_array(records.buffer, values)],
        fields=[HEADER.field(0), HEADER.field(1)],
    )
    return list_array(counts, items, nulls=True)


def _spans(records: Records) -> tuple[Spans, Spans]:
    """Find names and values of all headers, in the order of records."""
    counts = records.header_count
    total = int(counts.sum())
    first = np.cumsum(counts) - counts
    found = np.empty((4, total), np.int64)
    at, done = records.header_start.copy(), 0
    rows = np.flatnonzero(counts)
    while rows.size:
        slots = first[rows] + done
        for place in (0, 2):
            length, start = read_varints(records.buffer, at[rows])
            found[place, slots] = start
            found[place + 1, slots] = length
            at[rows] = start + np.maximum(length, 0)
        done += 1
        rows = rows[counts[rows] > done]
    return Spans(found[0], found[1]), Spans(found[2], found[3])


def _texts(buffer: NDArray[np.uint8], spans: Spans) -> Any:  # noqa: ANN401
    """Read names as UTF-8; what is none is read with replacement characters, as Java's consumer does."""
    raw = binary_array(buffer, spans)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        names = raw.dictionary_encode()
        texts = [each.as_py().decode(errors="replace") for each in names.dictionary]
        return pc.take(pa.array(texts, pa.string()), names.indices)
