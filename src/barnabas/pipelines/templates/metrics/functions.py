"""What becomes of metrics that services push, as frames.

A reading is `{"service": "cart", "host": "cart-1", "name": "requests", "kind": "counter", "value": 3, "time": "2026-11-16T15:26:12.003Z"}`. A counter's
value is what was added since the last push, a gauge's is a level.

A reading is *late* if it was received more than LATE after its time: its minute may be closed then. Late readings are kept apart, counted, and part of
the hours. One from the future would close the minutes before it for everybody else: it is refused.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines import poison

#: As Spark takes it, `service STRING, ...`: for the option valueSchema.
READING = "service STRING, host STRING, name STRING, kind STRING, value DOUBLE, time TIMESTAMP"
LATE = "2 minutes"
FUTURE = "30 seconds"
#: How far a minute stays open behind the newest reading: whatever is neither late nor from the future finds its minute open.
OPEN = "2 minutes 30 seconds"

#: What is looked at, how it is compared, with what, and how bad that is.
RULES = [
    ("errors", "total", ">", 50, "critical"),
    ("cpu", "mean", ">", 90, "warning"),
    ("latency_ms", "highest", ">", 2000, "warning"),
    ("requests", "total", "<", 1, "critical"),
]


def checked(records: DataFrame) -> DataFrame:
    """Refuse what is JSON of the right form and still no reading: such rows get `_error`, as others that cannot be read have it."""
    value = F.col("value")
    reason = (
        F.when(value["service"].isNull() | value["name"].isNull(), "no service or no name")
        .when(~value["kind"].isin("counter", "gauge") | value["kind"].isNull(), "kind must be counter or gauge")
        .when(value["value"].isNull() | F.isnan(value["value"]), "no value")
        .when(F.abs(value["value"]) == float("inf"), "no value")
        .when((value["kind"] == "counter") & (value["value"] < 0), "a counter only grows")
        .when(value["time"].isNull(), "no time")
        .when(value["time"] > F.col("timestamp") + F.expr(f"INTERVAL {FUTURE}"), "a time in the future")
    )  # fmt: skip
    reason = F.when(value.isNull(), F.lit("no reading")).otherwise(reason)
    return poison.checked(records, reason)


def readings(good: DataFrame) -> DataFrame:
    """Take readings out of records, with the time they were received."""
    return good.select("value.*", F.col("timestamp").alias("received"))


def in_time(frame: DataFrame) -> DataFrame:
    """Leave out late readings."""
    return frame.where(~_is_late())


def late(frame: DataFrame) -> DataFrame:
    """Take late readings only, with how late they are."""
    seconds = F.unix_micros("received") - F.unix_micros("time")
    return frame.where(_is_late()).select("*", (seconds / 1_000_000).alias("late_seconds"))


def per_minute(frame: DataFrame) -> DataFrame:
    """Aggregate by service, name and minute. A minute is there once, when it is closed."""
    return _aggregated(frame.withWatermark("time", OPEN), "1 minute")


def per_hour(minutes: DataFrame, late_readings: DataFrame) -> DataFrame:
    """Roll up minutes, and what came too late for them."""
    late_minutes = _aggregated(late_readings, "1 minute")
    none = F.lit(0).cast("bigint")
    counted = minutes.select("*", none.alias("late")).unionByName(
        late_minutes.select("*", F.col("readings").alias("late"))
    )
    hour = F.date_trunc("hour", "minute").alias("hour")
    rolled = counted.groupBy("service", "name", "kind", hour).agg(
        F.sum("readings").alias("readings"),
        F.sum("late").alias("late"),
        F.sum("total").alias("total"),
        F.min("lowest").alias("lowest"),
        F.max("highest").alias("highest"),
        F.max_by("last", "last_time").alias("last"),
    )
    return rolled.select("*", (F.col("total") / F.col("readings")).alias("mean"))


def alerts(minutes: DataFrame, rules: list[tuple[str, str, str, float, str]] = RULES) -> DataFrame:
    """Compare minutes with the rules: a record for each that is broken, keyed by service and name, so that they stay in order."""
    broken = F.array(*(_alert(*rule) for rule in rules))
    found = minutes.select("service", "name", F.explode(F.array_compact(broken)).alias("alert"))
    key = F.concat_ws("/", "service", "name")
    return found.select(key.alias("key"), F.to_json("alert").alias("value"))


def _alert(name: str, aggregate: str, comparison: str, limit: float, severity: str) -> Column:
    value = F.col(aggregate)
    is_broken = (F.col("name") == name) & (value > limit if comparison == ">" else value < limit)
    text = F.format_string(f"%s: {aggregate} of {name} is %.2f ({comparison} {limit:g})", "service", value)  # fmt: skip
    alert = F.struct(
        "service",
        "name",
        "minute",
        F.lit(aggregate).alias("aggregate"),
        value.alias("value"),
        F.lit(float(limit)).alias("limit"),
        F.lit(severity).alias("severity"),
        text.alias("text"),
    )
    return F.when(is_broken, alert)


def _is_late() -> Column:
    return F.col("received") > F.col("time") + F.expr(f"INTERVAL {LATE}")


def _aggregated(frame: DataFrame, width: str) -> DataFrame:
    window = F.window("time", width).alias("window")
    grouped = frame.groupBy("service", "name", "kind", window).agg(
        F.count("*").alias("readings"),
        F.sum("value").alias("total"),
        F.avg("value").alias("mean"),
        F.min("value").alias("lowest"),
        F.max("value").alias("highest"),
        F.max_by("value", "time").alias("last"),
        F.max("time").alias("last_time"),
    )
    return grouped.select(F.expr("* EXCEPT (window)"), F.col("window.start").alias("minute"))
