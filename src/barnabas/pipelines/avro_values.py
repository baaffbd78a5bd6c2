"""Avro values as typed columns: a schema to Spark's type, a column of bytes to a column of that type.

Job: the bare binary encoding of one value per record. Must not know records or options, nor a schema registry: a value with a registry's mark that cannot be read
without it is told as such.

Types are Spark's own for Avro: a union with null is what may be null, an enum is a STRING, a fixed is BINARY; times of day, durations and UUIDs stay what they are
underneath. Unions of several types and types that contain themselves have no column type: they are refused.
"""

from __future__ import annotations

import functools
import io
import json
from typing import TYPE_CHECKING, Any, Final

import fastavro
from fastavro.schema import SchemaParseException

from barnabas.pipelines.json_values import (
    REGISTRY_MARK,
    Misfit,
    Reasons,
    held,
    registry_reason,
)

if TYPE_CHECKING:
    import pyarrow as pa

_PRIMITIVES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
}
_LOGICAL: Final = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
_NAMED: Final = ("record", "enum", "fixed", "error")


def column_type(text: str) -> str:
    """Give the DDL of the column type for an Avro schema in JSON; Misfit if it is none or has no such type."""
    schema = _loaded(text)
    try:
        fastavro.parse_schema(schema)
    except (SchemaParseException, KeyError, TypeError, ValueError) as problem:
        raise Misfit(f"is no Avro schema: {problem}") from None
    return _Types().of(schema)


def _loaded(text: str) -> Any:  # noqa: ANN401 - an Avro schema
    try:
        return _plain(json.loads(text))
    except ValueError as problem:
        raise Misfit(f"is no Avro schema in JSON: {problem}") from None


def _plain(schema: Any) -> Any:  # noqa: ANN401
    """Leave out logical types that have no column type: their values stay what they are underneath."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = schema.get("logicalType") in _LOGICAL or schema.get("logicalType") == "decimal"
    return {
        name: _plain(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
        if name != "logicalType" or known
    }


class _Types:
    """Walks one schema; knows the named types it has passed."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        self._open: list[str] = []

    def of(self, schema: Any) -> str:  # noqa: ANN401
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._reference(schema)
        return self._complex(schema)

    def _reference(self, name: str) -> str:
        short = name.rpartition(".")[2]
        if short in self._open:
            raise Misfit(f"the type {name} contains itself, and no column can")
        if short not in self._named:
            raise Misfit(f"there is no type {name}")
        return self._named[short]

    def _union(self, branches: list[Any]) -> str:
        kept = [branch for branch in branches if branch != "null"]
        if len(kept) != 1:
            raise Misfit(
                f"a union of {json.dumps(kept)} has no column type: only null and one type do"
            )
        return self.of(kept[0])

    def _complex(self, schema: dict[str, Any]) -> str:
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if kind == "array":
            return f"ARRAY<{self.of(schema['items'])}>"
        if kind == "map":
            return f"MAP<STRING, {self.of(schema['values'])}>"
        if kind in _NAMED:
            return self._name(schema)
        return self._logical(schema) or self.of(kind)

    def _logical(self, schema: dict[str, Any]) -> str | None:
        if schema.get("logicalType") == "decimal":
            return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
        return _LOGICAL.get(schema.get("logicalType", ""))

    def _name(self, schema: dict[str, Any]) -> str:
        name = schema["name"].rpartition(".")[2]
        self._open.append(name)
        found = {"enum": "STRING", "fixed": "BINARY"}.get(schema["type"])
        if schema["type"] == "fixed":
            found = self._logical(schema) or found
        if found is None:
            fields = (f"`{field['name']}`: {self.of(field['type'])}" for field in schema["fields"])
            found = f"STRUCT<{', '.join(fields)}>"
        self._open.pop()
        self._named[name] = found
        return found


@functools.cache
def _parsed(text: str) -> Any:  # noqa: ANN401 - fastavro's own
    return fastavro.parse_schema(_loaded(text))


def read_avro(column: pa.Array, schema: str, arrow_type: pa.DataType) -> tuple[pa.Array, Reasons]:
    """Read a column of bytes; null where the bytes are, or where they are no such value, which is then told."""
    parsed, read = _parsed(schema), fastavro.schemaless_reader
    values: list[Any] = []
    reasons: Reasons = {}
    for row, data in enumerate(column.to_pylist()):
        if data is None:
            values.append(None)
            continue
        stream = io.BytesIO(data)
        try:
            value = read(stream, parsed, None)
            problem = _rest(len(data) - stream.tell())
        except Exception as error:  # noqa: BLE001 - bytes that are no value of the schema make fastavro raise anything
            why = str(error) or type(error).__name__
            value, problem = None, f"is no value of the Avro schema: {why}"
        if problem:
            value, reasons[row] = None, _reason(data, problem)
        values.append(value)
    return held(values, arrow_type, reasons), reasons


def _rest(count: int) -> str:
    return f"has {count} bytes after the value of the Avro schema" if count else ""


def _reason(data: bytes, problem: str) -> str:
    if data[:1] == REGISTRY_MARK and len(data) > 4:
        return registry_reason(data)
    return problem
