"""Records that a pipeline cannot use: kept apart from the others, with what was wrong, so that they never stop it.

Job: plain DataFrame -> DataFrame functions over the column `_error`, which typed columns have (docs/spark.md) and `guarded` makes. Must not know a pipeline or a cluster.
A dead letter is the record as it was, bytes and headers, and more headers that say why and where from: what `barnabas dlq` shows and sends back.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

SUFFIX: Final = ".dlq"
ERROR: Final = "_error"
DEAD_LETTER_COLUMNS: Final = ("key", "value", "headers", "topic")
#: A stack longer than this says no more.
_STACK_CHARACTERS: Final = 8_000
_PLACE: Final = ("topic", "partition", "offset")


def good(frame: DataFrame) -> DataFrame:
    """Leave the rows that have no error, without the column that would tell it."""
    return frame.where(F.col(ERROR).isNull()).drop(ERROR)


def dead_letters(frame: DataFrame, topic_suffix: str = SUFFIX) -> DataFrame:
    """Take the rows that have an error, as records for a `barnabas` sink: key, value, headers, and the topic they came from with the suffix."""
    bad = frame.where(F.col(ERROR).isNotNull())
    topic = F.concat(F.col("topic"), F.lit(topic_suffix))
    return bad.select(
        _original(frame, "key").alias("key"),
        _original(frame, "value").alias("value"),
        _headers(frame).alias("headers"),
        topic.alias("topic"),
    )


def guarded(
    function: Callable[[Any], Any], returns: str, column: str = "value"
) -> Callable[[DataFrame], DataFrame]:
    """Make a function of one value into one of frames, for `frame.transform(...)`, that survives what it raises.

    The column becomes what the function returns (a DDL type: `level STRING, ms INT`, or one type); where it raises, null, and `_error` has the reason, the stack and the
    original bytes. Rows that had an error already are passed by.
    """
    kind = StructType.fromDDL(returns)
    result = StructType([
        StructField("result", kind), StructField("reason", StringType()), StructField("stack", StringType())
    ])  # fmt: skip

    def survive(value: Any) -> tuple[Any, str | None, str | None]:  # noqa: ANN401 - whatever the column has
        try:
            return function(value), None, None
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is this record's
            stack = "".join(traceback.format_exception(problem))[-_STACK_CHARACTERS:]
            return None, f"{type(problem).__name__}: {problem}", stack

    surviving = F.udf(survive, result)

    def apply(frame: DataFrame) -> DataFrame:
        known = _known_error(frame)
        tried = F.when(known.isNull(), surviving(F.col(column)))
        read = frame.withColumn("__tried", tried)
        problem = F.struct(
            F.lit(column).alias("column"),
            F.col("__tried.reason").alias("reason"),
            _bytes(frame, column).alias("bytes"),
            F.col("__tried.stack").alias("stack"),
        )
        return (
            read.withColumn(ERROR, F.when(F.col("__tried.reason").isNotNull(), problem).otherwise(known))
            .withColumn(column, F.col("__tried.result"))
            .drop("__tried")
        )  # fmt: skip

    return apply


def _known_error(frame: DataFrame) -> Column:
    """The error that rows have already, with a stack."""
    if ERROR not in frame.columns:
        return F.lit(None).cast("STRUCT<column: STRING, reason: STRING, bytes: BINARY, stack: STRING>")  # fmt: skip
    has_stack = "stack" in _fields(frame, ERROR)
    stack = F.col(f"{ERROR}.stack") if has_stack else F.lit(None).cast("string")
    parts = [F.col(f"{ERROR}.{name}").alias(name) for name in ("column", "reason", "bytes")]
    return F.when(F.col(ERROR).isNotNull(), F.struct(*parts, stack.alias("stack")))


def _original(frame: DataFrame, column: str) -> Column:
    """The bytes of a column as they were; a good one that was typed is written again."""
    if column not in frame.columns:
        return F.lit(None).cast("binary")
    if "column" not in _fields(frame, ERROR):
        return _bytes(frame, column)
    bad = F.col(f"{ERROR}.column") == column
    return F.when(bad, F.col(f"{ERROR}.bytes")).otherwise(_bytes(frame, column))


def _bytes(frame: DataFrame, column: str) -> Column:
    kind = frame.schema[column].dataType
    if isinstance(kind, BinaryType):
        return F.col(column)
    if isinstance(kind, StringType):
        return F.col(column).cast("binary")
    return F.to_json(F.col(column)).cast("binary")


def _headers(frame: DataFrame) -> Column:
    told = {"reason": F.col(f"{ERROR}.reason")}
    for name in ("column", "stack"):
        if name in _fields(frame, ERROR):
            told[name] = F.col(f"{ERROR}.{name}")
    told |= {name: F.col(name).cast("string") for name in _PLACE}
    told["timestamp"] = F.unix_millis("timestamp").cast("string")
    ours = F.filter(
        F.array(*(_header(f"barnabas.{name}", value) for name, value in told.items())),
        lambda each: each["value"].isNotNull(),
    )
    if "headers" not in frame.columns:
        return ours
    none = F.array().cast("ARRAY<STRUCT<key: STRING, value: BINARY>>")
    return F.concat(F.coalesce(F.col("headers"), none), ours)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def _fields(frame: DataFrame, column: str) -> list[str]:
    kind = frame.schema[column].dataType
    return kind.names if isinstance(kind, StructType) else []
