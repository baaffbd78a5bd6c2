import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from barnabas.pipelines.postgres.writer import COLUMNS, ChangeWriter, _change
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.staging import Staged

TYPES = {"string": StringType(), "int": IntegerType(), "bigint": LongType()}
GOOD = StructType()
for each, kind in COLUMNS.items():
    GOOD.add(each, TYPES[kind])


@pytest.mark.parametrize(
    ("options", "columns", "sentence"),
    [
        ({}, GOOD, "the option url is missing"),
        ({"url": "x", "keepDeletesHours": "0"}, GOOD, "keepDeletesHours"),
        ({"url": "x", "urll": "y"}, GOOD, "urll"),
        (
            {"url": "x"},
            StructType().add("key", StringType()),
            "changes have the columns kind string",
        ),
    ],
)
def test_what_cannot_be_is_told_at_once(options, columns, sentence):
    with pytest.raises(PipelineProblem) as told:
        ChangeWriter(options, columns)
    assert sentence in str(told.value)


def test_a_database_that_is_not_there_is_told_in_a_sentence():
    writer = ChangeWriter({"url": "host=/nowhere dbname=x"}, GOOD)
    with pytest.raises(PipelineProblem) as told:
        writer.commit([Staged("q", "a")], 0)
    assert "the database of the option url cannot be written" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("key", ["no JSON", '["t", ' + "9" * 5000 + "]", "[" * 100_000])
def test_a_key_that_cannot_be_read_is_left_to_the_database(key):
    row = dict.fromkeys(COLUMNS) | {"kind": "delete", "key": key}
    assert _change(row).key == key
    assert _change(row | {"key": '["t",7]'}).key == '["t", 7]'
