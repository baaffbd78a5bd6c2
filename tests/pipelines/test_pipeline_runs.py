"""A project on a real broker and a real Spark: run to the end, and until it is stopped."""

import json

import pytest
from confluent_kafka import Producer
from pipelines.projects import make

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

CLICKS = """
from pyspark import pipelines as dp
import functions

bootstrap = spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")
topic = spark.conf.get("clicks.topic")


@dp.temporary_view
def clicks():
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return reader.option("valueFormat", "json").option("valueSchema", "user STRING, ms INT").load()


@dp.table(partition_cols=["user"])
def slow():
    return functions.slow(spark.readStream.table("clicks"))


dp.create_sink("out", "barnabas", {"kafka.bootstrap.servers": bootstrap, "topic": topic + "-slow"})


@dp.append_flow(target="out")
def send_slow():
    return spark.readStream.table("slow").selectExpr("user AS key", "CAST(ms AS STRING) AS value")
"""
FUNCTIONS = """
from pyspark.sql.functions import udf

@udf("int")
def doubled(ms):
    return ms * 2

def slow(clicks):
    good = clicks.where("_error IS NULL AND value.ms > 100").select("value.user", "value.ms")
    return good.withColumn("twice", doubled("ms"))
"""
BY_USER = """
-- how slow for whom
CREATE MATERIALIZED VIEW by_user AS
SELECT user, count(*) AS clicks, sum(twice) AS twice FROM slow GROUP BY user;

CREATE STREAMING TABLE users AS SELECT user FROM STREAM slow;
"""


@pytest.fixture
def project(tmp_path, bootstrap):
    return make(tmp_path / "clicks", bootstrap, transformations__clicks_py=CLICKS, transformations__users_sql=BY_USER, functions_py=FUNCTIONS)  # fmt: skip


def send(bootstrap, topic, users, start=0):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number, user in enumerate(users, start):
        value = json.dumps({"user": user, "ms": number * 100})
        producer.produce(topic, value.encode())
    producer.produce(topic, b"oops")
    assert producer.flush(60) == 0


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_a_project_runs_to_the_end_of_what_is_there_and_goes_on_from_there(
    project, spark, bootstrap, topic
):
    from barnabas.pipelines.continuous import Pipeline

    send(bootstrap, topic, ["ann", "bob", "ann", "bob"])
    settings = {"clicks.topic": topic}
    pipeline = Pipeline(project, spark, settings)
    pipeline.run_available()
    assert rows(pipeline.table("slow").select("user", "ms")) == [("ann", 200), ("bob", 300)]
    assert rows(pipeline.table("by_user")) == [("ann", 1, 400), ("bob", 1, 600)]
    assert rows(pipeline.table("users")) == [("ann",), ("bob",)]
    by_name = {each["name"]: each for each in pipeline.status()}
    assert by_name["slow"]["rows_total"] == 5
    assert by_name["slow"]["place"] == "transformations/clicks.py:15"
    assert by_name["by_user"]["place"] == "transformations/users.sql:2"

    send(bootstrap, topic, ["cem"], start=7)
    again = Pipeline(project, spark, settings)
    assert rows(again.table("by_user")) == [("ann", 1, 400), ("bob", 1, 600)]
    again.run_available()
    assert rows(again.table("by_user")) == [("ann", 1, 400), ("bob", 1, 600), ("cem", 1, 1400)]
    sent = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", f"{topic}-slow")
        .load()
    )
    assert rows(sent.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")) == [
        ("ann", "200"),
        ("bob", "300"),
        ("cem", "700"),
    ]
    stored = spark.read.parquet(str(project / ".barnabas/continuous/tables/by_user"))
    assert stored.count() == 3
