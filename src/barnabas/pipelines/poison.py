"""Records that a pipeline cannot use: kept apart from the others, with what was wrong, so that they never stop it.

Job: plain DataFrame -> DataFrame functions over the column `_error`, which typed columns have (docs/spark.md) and `guarded` makes. Must not know a pipeline or a cluster, and must not
ask a frame for its columns: in a declarative pipeline there are none yet when its functions are called. What may be missing is read from the row as JSON; `withColumn` and `drop` ask, `select` does not.

A dead letter is the record as it was, bytes and headers, and more headers that say why and where from: what `barnabas dlq` shows and sends back.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

SUFFIX: Final = ".dlq"
ERROR: Final = "_error"
BYTES: Final = "_bytes"
#: Options of the source that dead letters are taken from: with them a letter has the record's own headers, and its bytes also where typed columns could be read and a check of your own refuses them.
WHOLE: Final = {"includeBytes": "true", "includeHeaders": "true"}
HEADER: Final = "barnabas."
DEAD_LETTER_COLUMNS: Final = ("key", "value", "headers", "topic")
#: A stack longer than this says no more.
_STACK_CHARACTERS: Final = 8_000
#: A reason may quote the record: with both whole, the letter of a large one would be too large.
_REASON_CHARACTERS: Final = 1_000
_HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_ROW: Final = "__row"
_TRIED: Final = "__tried"


def good(frame: DataFrame) -> DataFrame:
    """Leave the rows that have no error, without the column that would tell it."""
    return frame.where(F.col(ERROR).isNull()).selectExpr(f"* EXCEPT ({ERROR})")


def dead_letters(frame: DataFrame, topic_suffix: str = SUFFIX) -> DataFrame:
    """Take the rows that have an error, as records for a `barnabas` sink: key, value, headers, and the topic they came from with the suffix.

    The frame has topic, partition, offset and timestamp, as a source gives them. A key or value that was typed and is good is as it was if the source had the options `WHOLE`; else it is written
    again, as JSON if it was no text, without what its type has no field for.
    """
    row = F.to_json(F.struct("*")).alias(_ROW)
    bad = frame.where(F.col(ERROR).isNotNull()).select("*", row)
    return bad.select(
        _original("key").alias("key"),
        _original("value").alias("value"),
        _headers().alias("headers"),
        F.concat(F.col("topic"), F.lit(topic_suffix)).alias("topic"),
    )


def checked(frame: DataFrame, reason: Column, column: str = "value") -> DataFrame:
    """Add to `_error` what a check of your own says of a typed column: a row without an error gets one where the reason is not null."""
    problem = F.struct(
        F.lit(column).alias("column"),
        reason.alias("reason"),
        F.to_json(column).cast("binary").alias("bytes"),
    )
    error = F.coalesce(ERROR, F.when(reason.isNotNull(), problem))
    return frame.select(F.expr(f"* EXCEPT ({ERROR})"), error.alias(ERROR))


def guarded(
    function: Callable[[Any], Any], returns: str, column: str = "value"
) -> Callable[[DataFrame], DataFrame]:
    """Make a function of one value into one of frames, for `frame.transform(...)`, that survives what it raises.

    The column becomes what the function returns (a DDL type: `level STRING, ms INT`, or one type). Where it raises, the column is null and the new column `_error` has the reason, the stack and the
    bytes. A frame that has `_error` already is to go through `good` before.
    """
    kind = StructType([
        StructField("result", StructType.fromDDL(returns)), StructField("reason", StringType()), StructField("stack", StringType())
    ])  # fmt: skip
    # Through Arrow, a value of another type than the function says would end the query.
    surviving = F.udf(_Surviving(function), kind, useArrow=False)

    def apply(frame: DataFrame) -> DataFrame:
        problem = F.struct(
            F.lit(column).alias("column"),
            F.col(f"{_TRIED}.reason").alias("reason"),
            _bytes(column).alias("bytes"),
            F.col(f"{_TRIED}.stack").alias("stack"),
        )
        failed = F.col(f"{_TRIED}.reason").isNotNull()
        tried = frame.select("*", surviving(F.col(column)).alias(_TRIED))
        return tried.select(
            F.expr(f"* EXCEPT ({column}, {_TRIED})"),
            F.col(f"{_TRIED}.result").alias(column),
            F.when(failed, problem).alias(ERROR),
        )

    return apply


class _Surviving:
    """A function whose exceptions are values; Spark asks it for a name."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", "guarded")

    def __call__(self, value: Any) -> tuple[Any, str | None, str | None]:  # noqa: ANN401 - whatever the column has
        try:
            return self._function(value), None, None
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is this record's
            stack = "".join(traceback.format_exception(problem))[-_STACK_CHARACTERS:]
            reason = f"{type(problem).__name__}: {problem}"[:_REASON_CHARACTERS]
            return None, reason, stack


def _original(column: str) -> Column:
    """The bytes of a column as they were."""
    came = F.unbase64(F.get_json_object(_ROW, f"$.{BYTES}.{column}"))
    kept = F.unbase64(_told("bytes"))
    return F.coalesce(came, F.when(_told("column") == column, kept).otherwise(_bytes(column)))


def _told(name: str) -> Column:
    """A part of `_error`, null if it has none of this name."""
    return F.get_json_object(_ROW, f"$.{ERROR}.{name}")


def _bytes(column: str) -> Column:
    """Bytes of bytes or of a text as they are; anything else as JSON. Spark sees which it is, and leaves the other out."""
    is_plain = F.typeof(column).isin("binary", "string")
    as_json = F.get_json_object(F.to_json(F.struct(F.col(column).alias("it"))), "$.it")
    return F.when(is_plain, F.col(column).cast("string")).otherwise(as_json).cast("binary")


def _headers() -> Column:
    """The record's own headers, if they were read, then ours."""
    told = {
        "reason": _told("reason"),
        "column": _told("column"),
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "timestamp": F.unix_millis("timestamp").cast("string"),
        "stack": _told("stack"),
    }
    ours = F.filter(
        F.array(*(_header(f"{HEADER}{name}", value) for name, value in told.items())),
        lambda each: each["value"].isNotNull(),
    )
    own = F.from_json(F.get_json_object(_ROW, "$.headers"), _HEADERS)
    return F.concat(F.coalesce(own, F.array().cast(_HEADERS)), ours)


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
