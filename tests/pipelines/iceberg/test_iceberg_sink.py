"""A stream of a real Spark into a real Iceberg table."""

import os

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql.types import IntegerType, StructType, TimestampType
from topic_kit import make_topic, produce

from barnabas.pipelines.iceberg import writer
from barnabas.pipelines.iceberg.appending import CATALOG
from barnabas.pipelines.iceberg.writer import IcebergWriter
from barnabas.pipelines.problem import PipelineProblem
from barnabas.pipelines.staging import Attempt
from barnabas.runtime.clock import SystemClock

# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(900)


def test_each_batch_once(spark, bootstrap, topic, tmp_path):
    make_topic(bootstrap, topic, 2)
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}

    def run():
        source = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        read = spark.readStream.format("barnabas").options(**source).load()
        rows = read.selectExpr("CAST(value AS STRING) AS n", "partition AS part", "timestamp AS at")
        writing = rows.writeStream.format("barnabas_iceberg").options(
            **place, table="shop.numbers", partitionBy="part"
        )
        writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    for each in range(2):
        for part in range(2):
            produce(bootstrap, topic, [f"{each}-{part}-{n}" for n in range(3)], part)
        run()
    found = SqlCatalog(CATALOG, **place).load_table("shop.numbers").scan().to_arrow()
    expected = [f"{each}-{part}-{n}" for each in range(2) for part in range(2) for n in range(3)]
    assert sorted(found["n"].to_pylist()) == expected
    assert [
        each for each in (tmp_path / "warehouse" / "_barnabas_staged").rglob("*") if each.is_file()
    ] == []


@pytest.fixture
def place(tmp_path):
    return {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def sink(place):
    return IcebergWriter({**place, "table": "shop.numbers"}, StructType().add("n", IntegerType()))


@pytest.fixture
def write(sink, monkeypatch):
    """Put down a number, as a task of a query and batch does."""

    def write(query, batch, number, sink=sink):
        monkeypatch.setattr(writer, "this_attempt", lambda: Attempt(query, batch, "0-0"))
        return sink.write(iter([pa.record_batch({"n": pa.array([number], pa.int32())})]))

    return write


def put_down(tmp_path):
    return {str(each) for each in (tmp_path / "warehouse" / "_barnabas_staged").rglob("*.parquet")}


def test_what_a_killed_driver_left_is_removed_with_the_next_batch(tmp_path, place, sink, write):
    write("q", 3, 1)  # and its driver is killed
    others = write("other", 0, 2)
    early = write("q", 5, 3)
    sink.commit([write("q", 4, 1)], 4)
    assert put_down(tmp_path) == {others.name, early.name}
    sink.commit([early], 5)
    found = SqlCatalog(CATALOG, **place).load_table("shop.numbers").scan().to_arrow()
    assert sorted(found["n"].to_pylist()) == [1, 3]


def test_what_a_query_left_that_never_runs_again_goes_after_a_day(tmp_path, place, sink, write):
    of_another_table = IcebergWriter({**place, "table": "shop.numbers2"}, StructType())
    kept = write("other", 0, 2, of_another_table)
    gone, young = write("gone", 7, 1), write("young", 7, 1)
    for each, age_s in ((kept, 90_000), (gone, writer.FORGOTTEN_S + 60), (young, writer.FORGOTTEN_S - 600)):  # fmt: skip
        made_s = SystemClock().now_ms() / 1000 - age_s
        os.utime(each.name, (made_s, made_s))
    sink.commit([write("q", 0, 3)], 0)
    assert put_down(tmp_path) == {kept.name, young.name}
    # Were it not gone for good, but only slow, nothing would be lost: its batch is run again.
    sink.commit([write("gone", 7, 1)], 7)
    found = SqlCatalog(CATALOG, **place).load_table("shop.numbers").scan().to_arrow()
    assert sorted(found["n"].to_pylist()) == [1, 3]


def test_what_cannot_be_removed_fails_no_batch(tmp_path, write):
    left = [write("gone", batch, 1).name for batch in range(3)]
    for each in left:
        os.utime(each, (0, 0))
    files = writer.files.FileSystem.from_uri(f"file://{tmp_path}/warehouse")[0]

    class Guarded:
        """A store that has one file which is not ours to remove."""

        def __getattr__(self, name):
            return getattr(files, name)

        def delete_file(self, path):
            if path == left[1]:
                raise PermissionError(path)
            files.delete_file(path)

    writer.remove_forgotten(Guarded(), f"{tmp_path}/warehouse/_barnabas_staged/shop.numbers", SystemClock().now_ms())  # fmt: skip
    assert put_down(tmp_path) == {left[1]}
    writer.remove_forgotten(files, f"{tmp_path}/warehouse/_barnabas_staged/shop.none", 0)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"table": ""}, "the option table is missing: give NAMESPACE.TABLE"),
        ({"table": "numbers"}, "table='numbers': give NAMESPACE.TABLE"),
        ({"partitionBy": "m"}, "partitionBy='m': the columns are n, at"),
        ({"tabel": "x"}, "tabel"),
    ],
)
def test_options_that_cannot_be_are_told_at_once(changed, sentence):
    options = {"uri": "sqlite://", "warehouse": "file:///w", "table": "a.b", **changed}
    with pytest.raises(PipelineProblem) as told:
        IcebergWriter(options, StructType().add("n", IntegerType()).add("at", TimestampType()))
    assert sentence in str(told.value)
