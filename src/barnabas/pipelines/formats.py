"""Typed keys and values: `valueFormat` and its schema turn the bytes of records into columns of their own types.

Job: the options, the column types they ask for, and batches of records with these columns; what becomes of rows that do not fit. Must not know how records are
fetched. Works on whole Arrow batches, needs no session, and can be sent to workers.

A row that does not fit (`badRows`): `column` keeps it, its key or value null and `_error` telling which column, why, and the original bytes; `topic` takes it out and
hands it over for the dead-letter topic; `fail` ends the query with a sentence that names it. With `includeBytes` every row has key and value as they came, too, in `_bytes`:
what is found wrong with a row later can then be put aside as it was.

A schema registry's place: `schemaRegistryUrl` is refused until there is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from barnabas.pipelines.avro_values import column_type, read_avro
from barnabas.pipelines.json_values import Misfit, Reasons, converter, read_json
from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import types as t

FORMATS: Final = ("json", "avro", "text", "raw")
BAD_ROWS: Final = ("column", "fail", "topic")
COLUMNS: Final = ("key", "value")
FORMAT_OPTIONS: Final = frozenset(
    {"keyFormat", "valueFormat", "keySchema", "valueSchema", "badRows", "deadLetterTopic", "includeBytes", "schemaRegistryUrl"}
)  # fmt: skip
ERROR_COLUMN: Final = "_error"
BYTES_COLUMN: Final = "_bytes"
BYTES_DDL: Final = "STRUCT<key: BINARY, value: BINARY>"
ERROR_DDL: Final = "STRUCT<column: STRING, reason: STRING, bytes: BINARY>"
_ERROR_TYPE: Final = pa.struct(
    [("column", pa.string()), ("reason", pa.string()), ("bytes", pa.binary())]
)
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: A type by itself, as INT or ARRAY<INT>, and no list of columns.
_ONE_TYPE: Final = re.compile(r"^\w+\s*(<.*>|\(.*\))?$", re.DOTALL)

#: In DDL: names in quotes, comments and the sizes of types, which are of no interest; and what stands between the rest of its signs.
_QUOTED: Final = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
_SIZE: Final = re.compile(r"\([^)]*\)")
_PIECE: Final = re.compile(r"(?:^|[,<])([^,<>]*)")
_TYPES: Final = (
    "STRING", "INT", "INTEGER", "BIGINT", "LONG", "SMALLINT", "SHORT", "TINYINT", "BYTE", "BOOLEAN", "DOUBLE", "FLOAT", "REAL",
    "DECIMAL", "DEC", "NUMERIC", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "BINARY", "CHAR", "CHARACTER", "VARCHAR",
    "ARRAY", "MAP", "STRUCT", "VARIANT", "VOID", "INTERVAL", "GEOMETRY", "GEOGRAPHY",
)  # fmt: skip


class FormatError(PipelineProblem):
    """An option or a row that does not fit; the sentence says which and why."""


@dataclass(frozen=True)
class ColumnFormat:
    """How one column is read: its format, its schema as it was given, and the DDL of its type."""

    name: str
    kind: str
    schema: str
    ddl: str


@dataclass(frozen=True)
class Formats:
    """What the options ask for."""

    columns: tuple[ColumnFormat, ...] = ()
    bad_rows: str = "column"
    dead_letter_topic: str | None = None
    includes_bytes: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Formats:
        """Read the options, whatever the case of their names; FormatError says what cannot be."""
        known = {name.lower(): value for name, value in options.items()}
        if "schemaregistryurl" in known:
            raise FormatError("schemaRegistryUrl is not supported yet: give the schema itself as valueSchema or keySchema")  # fmt: skip
        columns = tuple(one for name in COLUMNS if (one := _column(name, known)) is not None)
        topic = known.get("deadlettertopic")
        bad_rows = known.get("badrows", "topic" if topic else "column").lower()
        if bad_rows not in BAD_ROWS:
            raise FormatError(f"badRows is {bad_rows!r}: it can be {', '.join(BAD_ROWS)}")
        if bad_rows == "topic" and not topic:
            raise FormatError(
                "badRows is topic: name the topic that takes bad rows as deadLetterTopic"
            )
        includes_bytes = known.get("includebytes", "false").lower()
        if includes_bytes not in ("true", "false"):
            raise FormatError(f"includeBytes is {includes_bytes!r}: it can be true, false")
        return cls(columns, bad_rows, topic, includes_bytes == "true")

    @property
    def is_plain(self) -> bool:
        """Tell whether keys and values stay bytes."""
        return not self.columns

    def ddl(self, columns: Mapping[str, str]) -> str:
        """Give the DDL of a table that has these columns when nothing is typed."""
        typed = {**columns, **{column.name: column.ddl for column in self.columns}}
        if not self.is_plain and self.includes_bytes:
            typed[BYTES_COLUMN] = BYTES_DDL
        if not self.is_plain and self.bad_rows == "column":
            typed[ERROR_COLUMN] = ERROR_DDL
        return ", ".join(f"`{name}` {ddl}" for name, ddl in typed.items())

    def decoder(self, schema: t.StructType) -> Decoder:
        """Give what turns batches of records into batches of this schema, which Spark made of `ddl`."""
        kinds = {column.name: schema[column.name].dataType for column in self.columns}
        for column in self.columns:
            if column.kind == "json":
                _check_json(column.name, kinds[column.name])
        return Decoder(self, kinds, {name: _arrow_type(kind) for name, kind in kinds.items()})


def _column(name: str, options: Mapping[str, str]) -> ColumnFormat | None:
    kind = options.get(f"{name}format", "raw").lower()
    schema = options.get(f"{name}schema", "").strip()
    if kind not in FORMATS:
        raise FormatError(f"{name}Format is {kind!r}: it can be {', '.join(FORMATS)}")
    if kind in ("raw", "text"):
        if schema:
            raise FormatError(f"{name}Schema needs {name}Format to be json or avro: it is {kind}")
        return None if kind == "raw" else ColumnFormat(name, kind, "", "STRING")
    if not schema:
        example = "as DDL: user STRING, clicks INT" if kind == "json" else "as Avro JSON"
        raise FormatError(f"{name}Format {kind} needs a schema: set {name}Schema, {example}")
    return ColumnFormat(name, kind, schema, _ddl(name, kind, schema))


def _ddl(name: str, kind: str, schema: str) -> str:
    try:
        if kind == "avro":
            return column_type(schema)
    except Misfit as misfit:
        raise FormatError(f"{name}Schema {misfit}") from None
    if schema[0] in "{[":
        raise FormatError(
            f"{name}Schema for json is DDL, as user STRING, clicks INT: this looks like JSON"
        )
    _check_types(name, schema)
    return schema if _ONE_TYPE.match(schema) else f"STRUCT<{schema}>"


def _check_types(name: str, schema: str) -> None:
    """Name a type that there is not. Spark would do that, but in words about the columns around it."""
    plain = _SIZE.sub("", _QUOTED.sub("x", schema)).replace(":", " ")
    for piece in _PIECE.findall(plain):
        words = piece.split()
        kind = words[min(1, len(words) - 1)] if words else _TYPES[0]
        if kind.upper() not in _TYPES:
            near = get_close_matches(kind.upper(), _TYPES, n=1)
            hint = f"did you mean {near[0]}?" if near else "write it as user STRING, clicks INT"
            raise FormatError(f"{name}Schema has no type in '{' '.join(words)}': {hint}")


def _check_json(name: str, kind: t.DataType) -> None:
    try:
        converter(kind)
    except Misfit as misfit:
        raise FormatError(f"{name}Schema: {misfit}") from None


def _arrow_type(kind: t.DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")


@dataclass(frozen=True)
class Decoded:
    """A batch to hand on, and the rows that were taken out of it."""

    batch: pa.RecordBatch
    rejected: pa.RecordBatch | None = None


@dataclass(frozen=True)
class Decoder:
    """Turns batches of records into batches with typed columns."""

    formats: Formats
    kinds: Mapping[str, t.DataType]
    arrow_types: Mapping[str, pa.DataType] = field(repr=False)

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """Read the keys and values of a batch; FormatError for the first that does not fit, if that is what was asked for."""
        typed: dict[str, pa.Array] = {}
        bad: dict[int, tuple[str, str]] = {}
        for column in self.formats.columns:
            typed[column.name], reasons = self._read(column, batch.column(column.name))
            for row, reason in reasons.items():
                bad.setdefault(row, (column.name, reason))
        decoded = _replaced(batch, typed)
        if self.formats.includes_bytes:
            decoded = decoded.append_column(BYTES_COLUMN, _as_they_came(batch))
        if self.formats.bad_rows == "column":
            return Decoded(decoded.append_column(ERROR_COLUMN, _errors(batch, bad)))
        if not bad:
            return Decoded(decoded)
        if self.formats.bad_rows == "fail":
            raise FormatError(_sentence(batch, *min(bad.items())))
        good = pa.array(row not in bad for row in range(len(batch)))
        return Decoded(decoded.filter(good), self._rejected(batch, bad))

    def _read(self, column: ColumnFormat, data: pa.Array) -> tuple[pa.Array, Reasons]:
        arrow_type = self.arrow_types[column.name]
        if column.kind == "json":
            return read_json(data, self.kinds[column.name], arrow_type)
        if column.kind == "avro":
            return read_avro(data, column.schema, arrow_type)
        return _read_text(data)

    def _rejected(
        self, batch: pa.RecordBatch, bad: Mapping[int, tuple[str, str]]
    ) -> pa.RecordBatch:
        """Give the bad rows as records for the dead-letter topic: the bytes as they came, and headers that say where from and why."""
        rows = sorted(bad)
        taken = batch.take(pa.array(rows))
        headers = [
            _headers(row, *bad[number]) for number, row in zip(rows, taken.to_pylist(), strict=True)
        ]
        topic = pa.array([self.formats.dead_letter_topic] * len(rows), pa.string())
        columns = [
            taken.column("key"),
            taken.column("value"),
            topic,
            pa.array(headers, pa.list_(_HEADER)),
        ]
        return pa.RecordBatch.from_arrays(columns, ["key", "value", "topic", "headers"])


_PLACE: Final = ("topic", "partition", "offset")


def _headers(row: Mapping[str, Any], column: str, reason: str) -> list[dict[str, object]]:
    """Give the record's own headers, if they are read, and ours, named as those of the sink's dead letters."""
    told = {"reason": reason, "column": column, **{name: row[name] for name in _PLACE}}
    ours = [
        {"key": f"barnabas.{name}", "value": str(value).encode()} for name, value in told.items()
    ]
    return [*(row.get("headers") or ()), *ours]


def _replaced(batch: pa.RecordBatch, typed: Mapping[str, pa.Array]) -> pa.RecordBatch:
    names = batch.schema.names
    columns = [typed.get(name, batch.column(name)) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _as_they_came(batch: pa.RecordBatch) -> pa.Array:
    return pa.StructArray.from_arrays([batch.column(name) for name in COLUMNS], list(COLUMNS))


def _errors(batch: pa.RecordBatch, bad: Mapping[int, tuple[str, str]]) -> pa.Array:
    if not bad:
        return pa.nulls(len(batch), _ERROR_TYPE)
    told: list[dict[str, object] | None] = [None] * len(batch)
    for row, (column, reason) in bad.items():
        told[row] = {"column": column, "reason": reason, "bytes": batch.column(column)[row].as_py()}
    return pa.array(told, _ERROR_TYPE)


def _sentence(batch: pa.RecordBatch, row: int, why: tuple[str, str]) -> str:
    topic, partition, offset = (
        batch.column(name)[row] for name in ("topic", "partition", "offset")
    )
    column, reason = why
    return (
        f"the {column} of the record at offset {offset} of {topic}-{partition} {reason}; "
        "badRows=column keeps such rows with the reason, deadLetterTopic sends them elsewhere"
    )


def _read_text(data: pa.Array) -> tuple[pa.Array, Reasons]:
    try:
        return data.cast(pa.string()), {}
    except pa.ArrowInvalid:
        pass
    values: list[str | None] = []
    reasons: Reasons = {}
    for row, value in enumerate(data.to_pylist()):
        try:
            values.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            values.append(None)
            reasons[row] = f"is no UTF-8 text: byte {error.start} is 0x{value[error.start]:02x}"
    return pa.array(values, pa.string()), reasons
