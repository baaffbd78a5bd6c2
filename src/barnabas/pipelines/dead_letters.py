"""Rows that cannot be written, as rows of the dead-letter topic.

Job: the row as it was, with the reason in its headers. Must not know a cluster, nor what makes a row bad.

Headers: those of the row, then `barnabas.reason`, `barnabas.topic` (where it should have gone), and `barnabas.value.bytes` or
`barnabas.key.bytes`, how long it was, if value or key had to be cut to fit. A row that is a dead letter already keeps its first reason and topic: those of the record, and not of its letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipelines.columns import PoisonRow

#: What is kept of a value that even the dead-letter topic refuses: enough to see what it was.
CUT_BYTES: Final = 64 * 1024
_REASON: Final = "barnabas.reason"
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def dead_letters(
    batch: pa.RecordBatch, poison: Sequence[PoisonRow], *, cut: bool = False
) -> pa.RecordBatch:
    """Make the rows; with `cut` their keys and values are cut."""
    keys, values, headers = [], [], []
    for each in poison:
        key, value = _bytes(batch, "key", each.row), _bytes(batch, "value", each.row)
        told = _original_headers(batch, each.row)
        if all(header["key"] != _REASON for header in told):
            told.append({"key": _REASON, "value": each.reason.encode()})
            told.append({"key": "barnabas.topic", "value": (each.topic or "").encode()})
        keys.append(_cut(key, "key", told) if cut else key)
        values.append(_cut(value, "value", told) if cut else value)
        headers.append(told)
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(headers, _HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])


def _cut(data: bytes | None, name: str, told: list[dict[str, object]]) -> bytes | None:
    """Keep what is known to fit, and tell in the headers how much there was."""
    if data is None or len(data) <= CUT_BYTES:
        return data
    told.append({"key": f"barnabas.{name}.bytes", "value": str(len(data)).encode()})
    return data[:CUT_BYTES]


def _bytes(batch: pa.RecordBatch, name: str, row: int) -> bytes | None:
    if name not in batch.schema.names:
        return None
    value = batch.column(name)[row].as_py()
    return value.encode() if isinstance(value, str) else value


def _original_headers(batch: pa.RecordBatch, row: int) -> list[dict[str, object]]:
    if "headers" not in batch.schema.names:
        return []
    headers = batch.column("headers")[row].as_py() or []
    return [each for each in headers if each and each["key"] is not None]
