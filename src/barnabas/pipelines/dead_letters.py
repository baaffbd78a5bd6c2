"""Rows that cannot be written, as rows of the dead-letter topic.

Job: the row as it was, with the reason in its headers. Must not know a cluster, nor what makes a row bad.

Headers: those of the row, then `barnabas.reason`, `barnabas.topic` (where it should have gone), and `barnabas.value.bytes`, `barnabas.key.bytes` or
`barnabas.headers.bytes`, how long it was, if value, key or headers had to be cut to fit. A row that is a dead letter already keeps its first reason and topic: those of the record, and not of its letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipelines.columns import PoisonRow

#: What is kept of a value, a key, and all headers together that even the dead-letter topic refuses: enough to see what it was.
CUT_BYTES: Final = 64 * 1024
#: What is kept of one header: a reason and a stack leave room for the others.
_HEADER_BYTES: Final = 8 * 1024
#: Room for the two lengths of a header.
_HEADER_OVERHEAD_BYTES: Final = 5 + 5
_REASON: Final = "barnabas.reason"
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def dead_letters(
    batch: pa.RecordBatch, poison: Sequence[PoisonRow], *, cut: bool = False
) -> pa.RecordBatch:
    """Make the rows; with `cut` their keys, values and headers are cut."""
    keys, values, headers = [], [], []
    for each in poison:
        key, value = _bytes(batch, "key", each.row), _bytes(batch, "value", each.row)
        told = _original_headers(batch, each.row)
        if all(header["key"] != _REASON for header in told):
            told.append(_header("reason", each.reason))
            told.append(_header("topic", each.topic or ""))
        if cut:
            told = _cut_headers(told)
            key, value = _cut(key, "key", told), _cut(value, "value", told)
        keys.append(key)
        values.append(value)
        headers.append(told)
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(headers, _HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])


def _cut(data: bytes | None, name: str, told: list[dict[str, Any]]) -> bytes | None:
    """Keep what is known to fit, and tell in the headers how much there was."""
    if data is None or len(data) <= CUT_BYTES:
        return data
    told.append(_header(f"{name}.bytes", str(len(data))))
    return data[:CUT_BYTES]


def _cut_headers(headers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep what is known to fit, of each header and of all: the last ones, for those say why the letter is here."""
    kept: list[dict[str, Any]] = []
    kept_bytes = 0
    for each in reversed(headers):
        short = {**each, "value": each["value"] and each["value"][:_HEADER_BYTES]}
        kept_bytes += _size(short)
        if kept_bytes > CUT_BYTES:
            break
        kept.append(short)
    kept.reverse()
    if kept != headers:
        kept.append(_header("headers.bytes", str(sum(map(_size, headers)))))
    return kept


def _size(header: dict[str, Any]) -> int:
    return len(header["key"].encode()) + len(header["value"] or b"") + _HEADER_OVERHEAD_BYTES


def _header(name: str, text: str) -> dict[str, Any]:
    return {"key": f"barnabas.{name}", "value": text.encode()}


def _bytes(batch: pa.RecordBatch, name: str, row: int) -> bytes | None:
    if name not in batch.schema.names:
        return None
    value = batch.column(name)[row].as_py()
    return value.encode() if isinstance(value, str) else value


def _original_headers(batch: pa.RecordBatch, row: int) -> list[dict[str, Any]]:
    if "headers" not in batch.schema.names:
        return []
    headers = batch.column("headers")[row].as_py() or []
    return [each for each in headers if each and each["key"] is not None]
