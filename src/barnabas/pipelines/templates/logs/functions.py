"""From lines of the topic to events of one schema, as frames.

What is Spark is here; what a line means is in lines.py, which lines belong together in tracebacks.py. Nothing that a line says stops a
pipeline: what cannot be read has `_error`, and goes to the dead letters as it was.
"""

from __future__ import annotations

import traceback
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lines import Malformed, parse
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import Row
from tracebacks import Joiner, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lines import Event
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
    from tracebacks import Open

#: Rows between Python and Spark; times in microseconds, which are the same in every zone.
_TEXTS = ("level", "format", "message", "host", "app", "stack")
_ERROR = pa.struct(
    [
        ("column", pa.string()),
        ("reason", pa.string()),
        ("bytes", pa.binary()),
        ("stack", pa.string()),
    ]
)
_ROW = pa.schema(
    [
        ("time", pa.int64()),
        *((name, pa.string()) for name in _TEXTS),
        ("details", pa.map_(pa.string(), pa.string())),
        ("source", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("_error", _ERROR),
    ]
)
_RECORD = ("key", "value", "topic", "partition", "offset", "timestamp")
# As types and not as text, and for records too: in a declarative pipeline Spark may not be asked yet what a frame has.
_ROW_TYPE = from_arrow_schema(_ROW)
_RECORD_TYPE = from_arrow_schema(pa.schema([_ROW.field(name) for name in _RECORD]))
#: How lines begin that are events by themselves: their order does not matter.
_ALONE = r"^(\{|<\d|\S+ \S+ \S+ \[\d\d/|\d{4}/\d\d/\d\d )"


def events(records: DataFrame, quiet_seconds: int = 5) -> DataFrame:
    """Read records (key: the source; value: a line). An event of several lines is over when the next begins, or after `quiet_seconds`."""
    received = F.unix_micros("timestamp").alias("timestamp")
    lines = records.select("key", "value", "topic", "partition", "offset", received).to(
        _RECORD_TYPE
    )
    is_alone = F.col("value").isNull() | F.col("value").cast("string").rlike(_ALONE)
    alone = lines.where(is_alone).mapInArrow(_parse_all, _ROW_TYPE)
    groups = lines.where(~is_alone).groupBy("topic", "partition", "key")
    joining = Joining(quiet_seconds)
    joined = groups.transformWithState(joining, _ROW_TYPE, "Append", "ProcessingTime")
    times = [F.timestamp_micros(name).alias(name) for name in ("time", "timestamp")]
    return alone.unionByName(joined).select(F.expr("* EXCEPT (time, timestamp)"), *times)


def with_day(frame: DataFrame) -> DataFrame:
    """Add the day on which a line was received: lines may name any day, and each would be a folder."""
    return frame.select("*", F.to_date("timestamp").alias("day"))


def for_index(good: DataFrame) -> DataFrame:
    """Give the index its columns."""
    place = F.concat_ws("", "topic", F.lit("-"), "partition", F.lit("@"), "offset")
    return good.select("time", *_TEXTS, "source", "details", place.alias("place"))


# -- rows -------------------------------------------------------------------------------------


def parsed_row(record: dict[str, Any]) -> dict[str, Any]:
    """The row of one line, whatever it is."""
    try:
        return event_row(parse(_text(record), _received(record)), record)
    except Exception as problem:  # noqa: BLE001 - no line may stop the pipeline
        return refused_row(problem, record)


def event_row(event: Event, record: dict[str, Any]) -> dict[str, Any]:
    """The row of an event whose first line is `record`; its bytes are not kept."""
    said = {name: _clean(value) for name, value in asdict(event).items()}
    said |= {"time": _micros(event.time), "source": _source(record["key"])}
    return {**_EMPTY, **record, **said, "key": None, "value": None}


def refused_row(problem: Exception, record: dict[str, Any]) -> dict[str, Any]:
    """The row of a line that cannot be read: as it was, and why."""
    is_expected = isinstance(problem, Malformed)
    told = str(problem) if is_expected else f"{type(problem).__name__}: {problem}"
    stack = None if is_expected else "".join(traceback.format_exception(problem))
    error = {"column": "value", "reason": told, "bytes": record["value"], "stack": stack}
    return {**_EMPTY, **record, "source": _source(record["key"]), "_error": _clean(error)}


def ended_row(ended: Open, key: tuple[str, int, bytes | None]) -> dict[str, Any]:
    """The row of an event that is over, by what groups the lines of its source: topic, partition and key."""
    place = {"topic": key[0], "partition": key[1], "offset": ended.offset}
    record = {**place, "key": key[2], "timestamp": _micros(ended.received)}
    try:
        return event_row(ended.closed(), record)
    except Exception as problem:  # noqa: BLE001 - no line may stop the pipeline
        said = "\n".join([ended.event.message, *ended.more])
        return refused_row(problem, {**record, "value": said.encode(errors="replace")})


_EMPTY = dict.fromkeys(_ROW.names)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _received(record: dict[str, Any]) -> datetime:
    return _1970 + timedelta(microseconds=record["timestamp"])


def _micros(time: datetime) -> int:
    return (time - _1970) // _MICROSECOND


def _text(record: dict[str, Any]) -> str:
    if record["value"] is None:
        raise Malformed("a record without a line")
    try:
        return bytes(record["value"]).decode().rstrip("\r\n")
    except UnicodeDecodeError as problem:
        raise Malformed(f"no UTF-8 at byte {problem.start}") from None


def _source(key: bytes | None) -> str:
    return "-" if key is None else bytes(key).decode(errors="replace")


def _clean(value: Any) -> Any:
    """JSON can name halves of characters, which no text in a table can have."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    return value


def _parse_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([parsed_row(each) for each in batch.to_pylist()], _ROW)


# -- lines that belong together ---------------------------------------------------------------


class Joining(StatefulProcessor):
    """Keeps the open event of each source."""

    def __init__(self, quiet_seconds: int) -> None:
        """After so many seconds without a line an event is over."""
        self._quiet_ms = quiet_seconds * 1000

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark's: where the state is."""
        self._handle = handle
        self._open = handle.getValueState("open", "event STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Spark's: lines of one source, in whatever order a batch has them."""
        joiner = self._restored()
        for record in sorted((each.asDict() for each in rows), key=lambda each: each["offset"]):
            try:
                ended = joiner.take(_text(record), _received(record), record["offset"])
            except Exception as problem:  # noqa: BLE001 - no line may stop the pipeline
                yield _spark_row(refused_row(problem, record))
                continue
            if ended is not None:
                yield _spark_row(ended_row(ended, key))
        self._keep(joiner.current, timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Spark's: nothing came for a while."""
        del timerValues, expiredTimerInfo
        ended = self._restored().current
        self._open.clear()
        if ended is not None:
            yield _spark_row(ended_row(ended, key))

    def close(self) -> None:
        """Spark's: nothing is held."""

    def _restored(self) -> Joiner:
        return Joiner(unpacked(self._open.get()[0])) if self._open.exists() else Joiner()

    def _keep(self, current: Open | None, now_ms: int) -> None:
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if current is not None:
            self._open.update((packed(current),))
            self._handle.registerTimer(now_ms + self._quiet_ms)


def _spark_row(values: dict[str, Any]) -> Row:
    error = values["_error"]
    return Row(**{**values, "_error": Row(**error) if error else None})
