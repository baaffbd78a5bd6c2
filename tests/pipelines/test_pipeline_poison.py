"""Poison records as plain functions of frames."""

import json

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(1000)

RECORD = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


@pytest.fixture
def records(spark):
    from datetime import UTC, datetime

    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return spark.createDataFrame(
        [
            (b"a", b'{"user": "ann", "ms": 1}', "clicks", 0, 10, at, None),
            (b"\xff\x00", b"oops \xfe", "clicks", 1, 11, at, [("trace", b"\xff1")]),
        ],
        RECORD,
    )


def test_what_a_function_raises_is_told_and_the_record_kept_byte_for_byte(records):
    from barnabas.pipelines import poison

    def parse(value):
        said = json.loads(value)
        return {"user": said["user"], "ms": said["ms"]}

    read = records.transform(poison.guarded(parse, "user STRING, ms INT"))
    assert [tuple(row.value) for row in poison.good(read).collect()] == [("ann", 1)]
    (letter,) = poison.dead_letters(read).collect()
    assert (letter.key, letter.value, letter.topic) == (b"\xff\x00", b"oops \xfe", "clicks.dlq")
    headers = {header.key: bytes(header.value) for header in letter.headers}
    assert headers.pop("barnabas.stack").startswith(b"Traceback")
    assert headers.pop("barnabas.reason").startswith(b"UnicodeDecodeError: ")
    assert headers == {
        "trace": b"\xff1",
        "barnabas.column": b"value",
        "barnabas.topic": b"clicks",
        "barnabas.partition": b"1",
        "barnabas.offset": b"11",
        "barnabas.timestamp": b"1767323045000",
    }


def test_an_error_that_says_only_why_and_typed_columns_are_enough(records):
    from pyspark.sql import functions as F

    from barnabas.pipelines import poison

    read = records.drop("headers").withColumn("key", F.struct(F.lit(7).alias("id")))
    bad = read.withColumn("_error", F.struct(F.lit("no such user").alias("reason")))
    letter = poison.dead_letters(bad).where("topic = 'clicks.dlq'").collect()[0]
    assert (letter.key, letter.value) == (b'{"id":7}', b'{"user": "ann", "ms": 1}')
    assert bytes(letter.headers[0].value) == b"no such user"


def test_what_a_check_refuses_is_kept_byte_for_byte_if_the_source_was_asked_for_bytes(spark):
    from pyspark.sql import functions as F

    from barnabas.pipelines import poison

    typed = "value STRUCT<user: STRING>, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key STRING"
    error = "_error STRUCT<column: STRING, reason: STRING, bytes: BINARY>"
    rows = [
        (("",), "clicks", 0, number, None, "\ufffd", (b"\xff", came), None)
        for number, came in enumerate([b'{"user":  "", "more": 1}', None])
    ]
    frame = spark.createDataFrame(
        rows, f"{typed}, _bytes STRUCT<key: BINARY, value: BINARY>, {error}"
    )
    checked = poison.checked(frame, F.when(F.col("value.user") == "", "no user"))
    letters = poison.dead_letters(checked).collect()
    assert [(each.key, each.value) for each in letters] == [
        (b"\xff", b'{"user":  "", "more": 1}'),
        (b"\xff", b'{"user":""}'),
    ]
    without = poison.dead_letters(checked.drop("_bytes")).collect()
    assert [each.value for each in without] == [b'{"user":""}'] * 2


def test_a_reason_that_quotes_the_record_is_short():
    from barnabas.pipelines import poison

    def refuse(value):
        raise ValueError(f"there is no {value}")

    _, reason, stack = poison._Surviving(refuse)("x" * 1_000_000)
    assert reason.startswith("ValueError: there is no xxx")
    assert len(reason) == 1_000
    assert len(stack) == 8_000
