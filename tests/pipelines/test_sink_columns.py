"""Which columns a row may have, told before a task runs."""

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from barnabas.pipelines import tables
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.sink_columns import check_columns, pick_columns

HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))


def columns(**kinds):
    made = StructType()
    for name, kind in kinds.items():
        made.add(name, kind)
    return made


def test_what_a_row_may_have():
    check_columns(columns(value=StringType()), "t")
    check_columns(
        columns(
            key=BinaryType(),
            value=BinaryType(),
            topic=StringType(),
            partition=IntegerType(),
            headers=HEADERS,
            timestamp=TimestampType(),
            offset=LongType(),
            timestampType=IntegerType(),
        ),
        "",
    )


@pytest.mark.parametrize(
    ("kinds", "topic", "words"),
    [
        ({"key": StringType()}, "t", "there is no column value: name one so"),
        ({}, "t", "there are none"),
        ({"value": StringType()}, "", "give the option topic, or a column topic"),
        ({"value": LongType()}, "t", "the column value is bigint: cast it to string or binary"),
        ({"value": StringType(), "key": LongType()}, "t", "the column key is bigint"),
        ({"value": StringType(), "topic": LongType()}, "", "the column topic is bigint"),
        ({"value": StringType(), "partition": LongType()}, "t", "cast it to int"),
        ({"value": StringType(), "timestamp": TimestampNTZType()}, "t", "cast it to timestamp"),
        (
            {"value": StringType(), "headers": ArrayType(StringType())},
            "t",
            "it must be array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_what_it_may_not(kinds, topic, words):
    with pytest.raises(PipelineProblem) as caught:
        check_columns(columns(**kinds), topic)
    assert words in str(caught.value)


def test_the_option_topic_goes_before_the_column_and_others_are_left_out():
    batch = pa.RecordBatch.from_pydict({"id": [1], "value": ["v"], "topic": ["t"]})
    assert pick_columns(batch, "").schema.names == ["value", "topic"]
    assert pick_columns(batch, "other").schema.names == ["value"]


def test_a_topic_is_not_overwritten():
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    with pytest.raises(PipelineProblem, match="use mode"):
        tables.writer(options, columns(value=StringType()), overwrite=True)
    tables.stream_writer(options, columns(value=StringType()), overwrite=True)
