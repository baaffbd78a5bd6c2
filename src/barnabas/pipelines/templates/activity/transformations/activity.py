"""From page views, clicks and searches to a warehouse table by hour, and to sessions."""

import functions
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
HERE = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")}


def events(**more):
    """No view: Spark's own runner wants to know at once what a frame with a watermark is made of."""
    return functions.checked(
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe=",".join(functions.KINDS), startingOffsets="earliest")
        .options(valueFormat="json", valueSchema=functions.EVENT, isolation="read_committed")
        .options(groupId="activity", **more)
        .load()
    )


def good_events():
    return functions.typed(poison.good(events()))


if spark.conf.get("activity.format", "parquet") == "iceberg":
    ICEBERG = {
        "uri": spark.conf.get("activity.iceberg.uri"),
        "warehouse": spark.conf.get("activity.iceberg.warehouse"),
        "table": "shop.activity",
        "partitionBy": "hour",
    }
    dp.create_sink("activity_iceberg", "barnabas_iceberg", ICEBERG)

    @dp.append_flow(target="activity_iceberg")
    def activity():
        return functions.by_hour(good_events())

else:

    @dp.table(partition_cols=["hour"])
    def activity():
        return functions.by_hour(good_events())


@dp.table
def sessions():
    return functions.sessions(good_events())


dp.create_sink("bad_events", "barnabas", {**HERE, "deadLetterTopic": "page-views.dlq"})


@dp.append_flow(target="bad_events")
def refuse():
    return poison.dead_letters(events(**poison.WHOLE))
