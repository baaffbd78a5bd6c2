"""A stream into the index, by Spark."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
pytest.importorskip("tantivy", reason="tantivy is not installed (extra pipelines)")

from pyspark.sql.types import StructType

from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.search.finding import LogIndex
from barnabas.pipelines.search.sink import stream_writer

# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(900)

COLUMNS = "time TIMESTAMP, level STRING, message STRING, details MAP<STRING, STRING>"


def write_rows(spark, folder, numbers):
    rows = spark.range(numbers.start, numbers.stop).selectExpr(
        "timestamp_seconds(id) AS time",
        "if(id % 2 = 0, 'error', 'info') AS level",
        "'event ' || id AS message",
        "map('id', cast(id AS STRING)) AS details",
    )
    rows.repartition(3).write.mode("append").parquet(str(folder))


def index_all(spark, rows, index, checkpoint):
    frame = spark.readStream.schema(COLUMNS).parquet(str(rows))
    query = (
        frame.writeStream.format("barnabas_search")
        .option("path", str(index))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_each_batch_is_in_the_index_once_also_when_it_is_run_again(spark, tmp_path):
    rows, index, checkpoint = tmp_path / "rows", tmp_path / "index", tmp_path / "checkpoint"
    for start in (0, 100):
        write_rows(spark, rows, range(start, start + 100))
        index_all(spark, rows, index, checkpoint)
    # As if the driver had died after the commit of the index and before Spark's own: it runs the batch again.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    index_all(spark, rows, index, checkpoint)
    found = LogIndex(str(index)).search("*", limit=1000)
    assert [each.details["id"] for each in found.events] == [str(n) for n in reversed(range(200))]
    assert LogIndex(str(index)).search("level:error", limit=1).total == 100
    assert not list((index / "staging").rglob("*.arrow"))


@pytest.mark.parametrize(
    ("options", "columns", "sentence"),
    [
        ({}, COLUMNS, "the option 'path' .* is missing"),
        ({"path": "x"}, "message STRING", "need a column 'time' TIMESTAMP"),
        ({"path": "x"}, "time STRING", "'time' is string, and must be timestamp"),
        ({"path": "x"}, "time TIMESTAMP, mesage STRING", "has no column 'mesage'; columns are"),
    ],
)
@pytest.mark.usefixtures("spark")  # which reads DDL
def test_what_cannot_be_written_is_told(options, columns, sentence):
    with pytest.raises(PipelineProblem, match=sentence):
        stream_writer(options, StructType.fromDDL(columns))
