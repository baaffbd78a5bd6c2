"""What becomes of readings. Run with `pytest` in this folder."""

import json
from datetime import UTC, datetime, timedelta

import functions
import pytest

from barnabas.pipelines import session


@pytest.fixture(scope="session")
def spark():
    running = session("metrics tests", master="local[2]", quick=True)
    yield running
    running.stop()


NOON = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
VALUE = {
    "service": "cart",
    "host": "cart-1",
    "name": "errors",
    "kind": "counter",
    "value": 3.0,
    "time": NOON,
}


def frame_of(spark, *values):
    """Records as the source gives them, received at noon."""
    rows = [(None if value is None else {**VALUE, **value}, NOON, None) for value in values]
    error = "STRUCT<column: STRING, reason: STRING, bytes: BINARY>"
    return spark.createDataFrame(
        rows, f"value STRUCT<{functions.READING}>, timestamp TIMESTAMP, _error {error}"
    )


def readings_of(spark, *values):
    rows = [{**VALUE, "received": NOON, **value} for value in values]
    return spark.createDataFrame(rows, f"{functions.READING}, received TIMESTAMP")


def seconds(count):
    return timedelta(seconds=count)


def test_what_is_no_reading_is_refused(spark):
    wrong = [
        (None, "no reading"),
        ({"service": None}, "no service or no name"),
        ({"kind": "timer"}, "kind must be counter or gauge"),
        ({"kind": None}, "kind must be counter or gauge"),
        ({"value": None}, "no value"),
        ({"value": float("nan")}, "no value"),
        ({"value": float("-inf")}, "no value"),
        ({"value": -1.0}, "a counter only grows"),
        ({"time": None}, "no time"),
        ({"time": NOON + seconds(31)}, "a time in the future"),
    ]
    right = [{}, {"kind": "gauge", "value": -1.0}, {"time": NOON + seconds(30)}, {"host": None}]
    checked = functions.checked(frame_of(spark, *(value for value, _ in wrong), *right)).collect()
    assert [row._error.reason if row._error else None for row in checked] == [
        *(reason for _, reason in wrong),
        *[None] * len(right),
    ]


def test_late_readings_are_kept_apart(spark):
    frame = readings_of(spark, {"time": NOON - seconds(120)}, {"time": NOON - seconds(121)})
    assert [row.time.astimezone(UTC) for row in functions.in_time(frame).collect()] == [
        NOON - seconds(120)
    ]
    (row,) = functions.late(frame).collect()
    assert row.late_seconds == 121


def test_minutes_and_hours(spark):
    frame = readings_of(
        spark,
        {"value": 1.0, "time": NOON + seconds(50)},
        {"value": 7.0, "time": NOON + seconds(10)},
        {"value": 2.0, "time": NOON + seconds(60)},
    )
    minutes = functions.per_minute(frame)
    rows = sorted(minutes.collect(), key=lambda row: row.minute)
    assert [row.minute.astimezone(UTC) for row in rows] == [NOON, NOON + seconds(60)]
    first = rows[0]
    assert (first.readings, first.total, first.mean, first.lowest, first.highest, first.last) == (
        2,
        8,
        4,
        1,
        7,
        1,
    )
    late = functions.late(
        readings_of(
            spark, {"value": 9.0, "time": NOON + seconds(3599), "received": NOON + seconds(9999)}
        )
    )
    (hour,) = functions.per_hour(minutes, late).collect()
    assert (hour.readings, hour.late, hour.total, hour.highest, hour.last, hour.mean) == (
        4,
        1,
        19,
        9,
        9,
        4.75,
    )


def test_alerts(spark):
    minutes = functions.per_minute(
        readings_of(spark, {"value": 51.0}, {"value": 50.0, "service": "mail"})
    )
    (row,) = functions.alerts(minutes).collect()
    assert row.key == "cart/errors"
    alert = json.loads(row.value)
    assert alert["text"] == "cart: total of errors is 51.00 (> 50)"
    assert (alert["severity"], alert["value"], alert["limit"]) == ("critical", 51, 50)
    none = functions.per_minute(readings_of(spark, {"name": "requests", "value": 0.0}))
    assert [json.loads(each.value)["name"] for each in functions.alerts(none).collect()] == [
        "requests"
    ]
