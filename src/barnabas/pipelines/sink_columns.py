"""The columns that a row of the sink may have.

Job: check their types before a task runs, with a sentence for each mistake; pick them from Arrow batches. Must not know a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from barnabas.pipelines.problem import PipelineProblem

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_NAMES: Final = ("key", "value", "topic", "partition", "headers", "timestamp")


def check_columns(columns: StructType, topic: str) -> None:
    """PipelineProblem unless rows of these columns can be written. Others than those of `_NAMES` are left out."""
    kinds = {each.name: each.dataType for each in columns.fields}
    if "value" not in kinds:
        raise PipelineProblem(
            f"there is no column value: name one so, such as to_json(struct(*)) AS value; there are {', '.join(kinds) or 'none'}"
        )
    if not topic and "topic" not in kinds:
        raise PipelineProblem("no topic to write to: give the option topic, or a column topic")
    for name in ("key", "value"):
        _check(kinds, name, (StringType, BinaryType), "string or binary")
    if not topic:
        _check(kinds, "topic", (StringType,), "string")
    _check(kinds, "partition", (IntegerType,), "int")
    _check(kinds, "timestamp", (TimestampType,), "timestamp")
    if "headers" in kinds and not _are_headers(kinds["headers"]):
        raise PipelineProblem(
            f"the column headers is {kinds['headers'].simpleString()}: it must be array<struct<key:string,value:binary>>"
        )


def pick_columns(batch: RecordBatch, topic: str) -> RecordBatch:
    """Leave out what is not written; the option topic goes before the column."""
    names = [
        name for name in batch.schema.names if name in _NAMES and not (name == "topic" and topic)
    ]
    return batch.select(names)


def _check(
    kinds: dict[str, DataType], name: str, allowed: tuple[type[DataType], ...], words: str
) -> None:
    if name in kinds and not isinstance(kinds[name], allowed):
        raise PipelineProblem(
            f"the column {name} is {kinds[name].simpleString()}: cast it to {words}"
        )


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {each.name: type(each.dataType) for each in kind.elementType.fields}
    return fields == {"key": StringType, "value": BinaryType}
