"""JSON texts as typed values: a column of bytes to a column of the type that a schema asks for.

Job: say of each text what it is, or why it does not fit. Must not know records or options. `read_each` defines what fits; `read_together` is the quick way
for the types whose rules Arrow's parser shares, and answers None for a column in which anything is unusual. Both give the same values.

What fits: an integer has no fraction and is in range; a DOUBLE may be written as an integer, NaN or Infinity, as Spark has it; STRING takes strings only; DECIMAL numbers or strings; DATE and
TIMESTAMP ISO 8601, UTC unless an offset is written; BINARY base64. Missing is null; what the schema does not name is left out.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from pyspark.sql import types as t

if TYPE_CHECKING:
    from collections.abc import Callable

Reasons = dict[int, str]
"""Why a row does not fit, by its number."""

_BITS: Final[dict[type[t.DataType], int]] = {
    t.ByteType: 8,
    t.ShortType: 16,
    t.IntegerType: 32,
    t.LongType: 64,
}
_SHARED: Final = (t.StringType, t.IntegerType, t.LongType, t.DoubleType, t.BooleanType, t.TimestampType)  # fmt: skip
#: A day into it, as an offset may have moved a time of the year before.
_YEAR_ONE: Final = datetime(1, 1, 2, tzinfo=UTC)
#: So many texts are read together, and so many one by one if one of them does not fit.
BLOCK: Final = 2048
NEIGHBOURS: Final = 64
#: A schema registry's mark: this byte, then an id of four, before the value.
REGISTRY_MARK: Final = b"\x00"

_CANNOT_HOLD: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)


class Misfit(ValueError):
    """A value does not fit; the text says what was found."""


def read_json(
    column: pa.Array, kind: t.DataType, arrow_type: pa.DataType
) -> tuple[pa.Array, Reasons]:
    """Read a column of bytes; null where the bytes are, or where they do not fit, which is then told."""
    if not is_shared(kind):
        return read_each(column, kind, arrow_type)
    blocks = [column[start : start + BLOCK] for start in range(0, len(column), BLOCK)]
    return _joined([_read_block(each, kind, arrow_type) for each in blocks], arrow_type)


def _read_block(
    column: pa.Array, kind: t.DataType, arrow_type: pa.DataType
) -> tuple[pa.Array, Reasons]:
    """Read together what can be: a text that does not fit costs its neighbours the quick way, and nobody else."""
    if (together := read_together(column, arrow_type)) is not None:
        return together, {}
    if len(column) <= NEIGHBOURS:
        return read_each(column, kind, arrow_type)
    is_object = pc.and_(pc.starts_with(column, b"{"), pc.ends_with(column, b"}")).fill_null(True)
    places = [pc.indices_nonzero(is_object), pc.indices_nonzero(pc.invert(is_object))]
    if len(places[1]):
        parts = [column.take(places[0]), column.take(places[1])]
        read = [_read_block(parts[0], kind, arrow_type), read_each(parts[1], kind, arrow_type)]
        return _put_back(places, read)
    middle = len(column) // 2
    halves = (column[:middle], column[middle:])
    return _joined([_read_block(half, kind, arrow_type) for half in halves], arrow_type)


def _put_back(
    places: list[pa.Array], parts: list[tuple[pa.Array, Reasons]]
) -> tuple[pa.Array, Reasons]:
    """Put parts of a column back to the places from which they were taken."""
    order = pc.sort_indices(pa.concat_arrays(places))
    values = pa.concat_arrays([part for part, _ in parts]).take(order)
    told = zip(places, (reasons for _, reasons in parts), strict=True)
    return values, {where[row].as_py(): reason for where, found in told for row, reason in found.items()}  # fmt: skip


def _joined(
    parts: list[tuple[pa.Array, Reasons]], arrow_type: pa.DataType
) -> tuple[pa.Array, Reasons]:
    """Put what was read of one column together again."""
    reasons: Reasons = {}
    start = 0
    for values, found in parts:
        reasons |= {start + row: reason for row, reason in found.items()}
        start += len(values)
    return pa.concat_arrays([pa.array([], arrow_type), *(values for values, _ in parts)]), reasons


def is_shared(kind: t.DataType) -> bool:
    """Tell whether Arrow's parser has the same rules for this type."""
    if not isinstance(kind, t.StructType):
        return False
    return all(field.nullable and _is_shared_field(field.dataType) for field in kind.fields)


def _is_shared_field(kind: t.DataType) -> bool:
    if isinstance(kind, t.ArrayType):
        return kind.containsNull and _is_shared_field(kind.elementType)
    return isinstance(kind, _SHARED) or is_shared(kind)


def read_together(column: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Parse all texts as one; None if any is unusual.

    Every text begins and ends as an object does, and the line ends between them may stand in no string: so if there are as many objects as texts, each text
    is one object.
    """
    texts = column.drop_null()
    if not len(texts):
        return pa.nulls(len(column), arrow_type)
    try:
        trimmed = pc.ascii_trim_whitespace(texts.cast(pa.string()))
        shaped = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
        if not pc.all(shaped).as_py():
            return None
        lines = pc.binary_join_element_wise(trimmed, "\n", "")
        rows = _parse(lines, pa.schema(list(arrow_type)))
    except pa.ArrowInvalid:
        return None
    if rows.num_rows != len(texts):
        return None
    values = rows.to_struct_array().combine_chunks() if arrow_type.num_fields else None
    if values is None or values.type != arrow_type or _has_year_zero(values):
        return None
    return values if not column.null_count else _spread(values, column)


def _parse(lines: pa.Array, schema: pa.Schema) -> pa.Table:
    data = pa.concat_arrays([lines]).buffers()[2]
    parse = pa_json.ParseOptions(schema, unexpected_field_behavior="ignore")
    read = pa_json.ReadOptions(use_threads=False, block_size=data.size + 1)
    return pa_json.read_json(pa.BufferReader(data), read, parse)


def _has_year_zero(values: pa.Array) -> bool:
    """Tell whether there is a time that Arrow reads and Python's calendar does not have."""
    if pa.types.is_struct(values.type):
        return any(map(_has_year_zero, values.flatten()))
    if pa.types.is_list(values.type):
        return _has_year_zero(values.flatten())
    return pa.types.is_timestamp(values.type) and bool(pc.any(pc.less(values, _YEAR_ONE)).as_py())


def _spread(values: pa.Array, column: pa.Array) -> pa.Array:
    """Put values where the column is not null."""
    present = column.is_valid()
    places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return values.take(pc.if_else(present, places, None))


def read_each(
    column: pa.Array, kind: t.DataType, arrow_type: pa.DataType
) -> tuple[pa.Array, Reasons]:
    """Read one text after another."""
    convert = converter(kind)
    values: list[Any] = []
    reasons: Reasons = {}
    for row, text in enumerate(column.to_pylist()):
        try:
            values.append(None if text is None else convert(_loads(text)))
        except Misfit as misfit:
            values.append(None)
            reasons[row] = str(misfit)
    return held(values, arrow_type, reasons), reasons


def held(values: list[Any], arrow_type: pa.DataType, reasons: Reasons) -> pa.Array:
    """Make the column. What Arrow cannot hold, as half of a surrogate pair or a decimal of too many digits, is null and told, too."""
    try:
        return pa.array(values, arrow_type)
    except _CANNOT_HOLD:
        for row, value in enumerate(values):
            try:
                pa.array([value], arrow_type)
            except _CANNOT_HOLD as problem:
                values[row] = None
                reasons[row] = f"does not fit its type: {problem}"
    return pa.array(values, arrow_type)


def _loads(text: bytes) -> Any:  # noqa: ANN401 - JSON
    if text[:1] == REGISTRY_MARK and len(text) > 4:
        raise Misfit(registry_reason(text))
    try:
        return json.loads(text.decode(), parse_float=_Number)
    except UnicodeDecodeError as error:
        raise Misfit(f"is no UTF-8 text: byte {error.start} is 0x{text[error.start]:02x}") from None
    except (ValueError, RecursionError) as error:
        raise Misfit(f"is no JSON: {error}") from None


class _Number(float):
    """A number with a fraction or an exponent, and its digits: a decimal must not go through a float."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def registry_reason(data: bytes) -> str:
    """Say what a value with a schema registry's mark is."""
    number = int.from_bytes(data[1:5])
    return (
        f"begins with the mark of a schema registry (id {number}), which is not supported yet: "
        "write values without it, or read them raw"
    )


# -- one value ---------------------------------------------------------------------------------


def converter(kind: t.DataType) -> Callable[[Any], Any]:
    """Give the function that turns what JSON has into what Arrow wants for this type; Misfit for a type that JSON cannot be read as."""
    if isinstance(kind, t.StructType):
        return _struct(kind)
    if isinstance(kind, t.ArrayType):
        return _array(kind)
    if isinstance(kind, t.MapType):
        return _map(kind)
    if bits := _BITS.get(type(kind)):
        return _integer(bits, kind)
    if isinstance(kind, t.DecimalType):
        return _decimal(kind)
    if found := _SIMPLE.get(type(kind)):
        return found
    raise Misfit(f"{kind.simpleString().upper()} cannot be read from JSON")


def _expected(name: str, value: Any) -> Misfit:  # noqa: ANN401 - JSON
    shown = json.dumps(value, default=str)
    return Misfit(f"expected {name}, found {shown if len(shown) <= 40 else shown[:37] + '...'}")


def _required(convert: Callable[[Any], Any], *, nullable: bool) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:  # noqa: ANN401
        if value is None:
            if nullable:
                return None
            raise Misfit("is missing and must not be")
        return convert(value)

    return read


def _struct(kind: t.StructType) -> Callable[[Any], Any]:
    fields = [(f.name, _required(converter(f.dataType), nullable=f.nullable)) for f in kind.fields]

    def read(value: Any) -> dict[str, Any] | None:  # noqa: ANN401
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _expected("an object", value)
        found = {}
        for name, convert in fields:
            try:
                found[name] = convert(value.get(name))
            except Misfit as misfit:
                raise Misfit(f"{name}: {misfit}") from None
        return found

    return read


def _array(kind: t.ArrayType) -> Callable[[Any], Any]:
    convert = _required(converter(kind.elementType), nullable=kind.containsNull)

    def read(value: Any) -> list[Any] | None:  # noqa: ANN401
        if value is None:
            return None
        if not isinstance(value, list):
            raise _expected("an array", value)
        return [convert(each) for each in value]

    return read


def _map(kind: t.MapType) -> Callable[[Any], Any]:
    if not isinstance(kind.keyType, t.StringType):
        raise Misfit("a MAP is read from JSON with STRING keys only")
    convert = _required(converter(kind.valueType), nullable=kind.valueContainsNull)

    def read(value: Any) -> list[tuple[str, Any]] | None:  # noqa: ANN401
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _expected("an object", value)
        return [(name, convert(each)) for name, each in value.items()]

    return read


def _integer(bits: int, kind: t.DataType) -> Callable[[Any], Any]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    name = kind.simpleString().upper()

    def read(value: Any) -> int | None:  # noqa: ANN401
        if value is None:
            return None
        if type(value) is not int or not low <= value <= high:
            raise _expected(name, value)
        return value

    return read


def _decimal(kind: t.DecimalType) -> Callable[[Any], Any]:
    step, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)
    name = kind.simpleString().upper()

    def read(value: Any) -> Decimal | None:  # noqa: ANN401
        if value is None:
            return None
        text = value.text if isinstance(value, _Number) else value
        try:
            number = Decimal(text) if type(text) in (str, int) else None
            if number is not None and abs(number := number.quantize(step)) < limit:
                return number
        except InvalidOperation:
            pass
        raise _expected(name, value)

    return read


def _double(value: Any) -> float | None:  # noqa: ANN401
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected("DOUBLE", value)
    try:
        return float(value)
    except OverflowError:
        raise _expected("DOUBLE", value) from None


def _string(value: Any) -> str | None:  # noqa: ANN401
    if value is None or isinstance(value, str):
        return value
    raise _expected("STRING", value)


def _boolean(value: Any) -> bool | None:  # noqa: ANN401
    if value is None or isinstance(value, bool):
        return value
    raise _expected("BOOLEAN", value)


def _date(value: Any) -> date | None:  # noqa: ANN401
    if value is None:
        return None
    try:
        return date.fromisoformat(value)
    except (ValueError, TypeError):
        raise _expected("DATE, as 2026-11-16", value) from None


def _timestamp(value: Any) -> datetime | None:  # noqa: ANN401
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise _expected("TIMESTAMP, as 2026-11-16T12:00:00Z", value) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _local_timestamp(value: Any) -> datetime | None:  # noqa: ANN401
    moment = _timestamp(value)
    return None if moment is None else moment.replace(tzinfo=None)


def _binary(value: Any) -> bytes | None:  # noqa: ANN401
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _expected("BINARY, as base64", value) from None


_SIMPLE: Final[dict[type[t.DataType], Callable[[Any], Any]]] = {
    t.StringType: _string,
    t.BooleanType: _boolean,
    t.FloatType: _double,
    t.DoubleType: _double,
    t.DateType: _date,
    t.TimestampType: _timestamp,
    t.TimestampNTZType: _local_timestamp,
    t.BinaryType: _binary,
}
