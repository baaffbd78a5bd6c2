"""Options of tables in a catalog: kept in a comment, and found again. No session is needed; a page of the documentation has one."""

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from barnabas.pipelines.catalog_tables import recall, remember
from barnabas.pipelines.problem import PipelineProblem

COLUMNS = {"value": "BINARY", "topic": "STRING"}
OPTIONS = {
    "kafka.bootstrap.servers": "[::1]:9092",
    "subscribe": "a,b",
    "valueSchema": "it's `x` INT \\ é%\n",
}


def of_table(options):
    return options | {f"option.{name}": value for name, value in options.items()} | {"owner": "me"}


def schema_of(columns):
    """What Spark makes of it."""
    _, _, comment = columns["topic"].partition(" COMMENT ")
    metadata = {"comment": comment.strip("'")} if comment else {}
    return StructType(
        [StructField("value", StringType()), StructField("topic", StringType(), metadata=metadata)]
    )


def test_options_of_a_reading_alone_are_not_kept():
    assert remember(COLUMNS, OPTIONS) == COLUMNS
    assert recall(OPTIONS, schema_of(COLUMNS)) == OPTIONS
    assert recall(OPTIONS, StructType()) == OPTIONS


def test_options_of_a_table_come_back():
    kept = remember(COLUMNS, of_table(OPTIONS))
    assert kept["value"] == "BINARY"
    comment = kept["topic"].removeprefix("STRING COMMENT ")
    assert not set(comment[1:-1]) & set("'\\\n")
    expected = {name.lower(): value for name, value in OPTIONS.items()}
    assert recall({}, schema_of(kept)) == expected
    assert recall({"subscribe": "c"}, schema_of(kept)) == expected | {"subscribe": "c"}


@pytest.mark.parametrize(
    "name", ["kafka.sasl.password", "kafka.sasl.jaas.config", "kafka.ssl.key.password"]
)
def test_secrets_are_refused(name):
    with pytest.raises(PipelineProblem, match=rf"{name} is a secret.*CREATE TEMPORARY VIEW"):
        remember(COLUMNS, of_table({**OPTIONS, name: "hunter2"}))
