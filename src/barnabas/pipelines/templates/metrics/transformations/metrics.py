"""Metrics of services to aggregates by the minute, alerts, and hours."""

import functions
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
HERE = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")}


def pushed(**more):
    """No view: Spark's own runner wants to know at once what a frame with a watermark is made of."""
    return functions.checked(
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe="metrics", startingOffsets="earliest", groupId="metrics")
        .options(valueFormat="json", valueSchema=functions.READING, **more)
        .load()
    )


def readings():
    return functions.readings(poison.good(pushed()))


@dp.table
def per_minute():
    return functions.per_minute(functions.in_time(readings()))


@dp.table
def late():
    return functions.late(readings())


@dp.materialized_view
def per_hour():
    return functions.per_hour(spark.read.table("per_minute"), spark.read.table("late"))


# What is too large to be written is a dead letter; what is too large even for that is cut, and says so.
dp.create_sink(
    "alerts",
    "barnabas",
    {**HERE, "topic": "metrics.alerts", "deadLetterTopic": "metrics.alerts.dlq"},
)
dp.create_sink("metrics_dlq", "barnabas", {**HERE, "deadLetterTopic": "metrics.dlq"})


@dp.append_flow(target="alerts")
def raise_alerts():
    return functions.alerts(spark.readStream.table("per_minute"))


@dp.append_flow(target="metrics_dlq")
def refuse_readings():
    return poison.dead_letters(pushed(**poison.WHOLE))
