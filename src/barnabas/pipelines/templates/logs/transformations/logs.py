"""Lines of many sources to one table of events, a full-text index, and the dead letters of what cannot be read."""

from pathlib import Path

import functions
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
HERE = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")}
PROJECT = Path(functions.__file__).parent


@dp.table(partition_cols=["day"])
def events():
    records = (
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe="logs", startingOffsets="earliest", groupId="logs")
        .load()
    )
    quiet_seconds = int(spark.conf.get("logs.quiet.seconds", "5"))
    return functions.with_day(functions.events(records, quiet_seconds))


dp.create_sink(
    "logs_index",
    "barnabas_search",
    {"path": str(PROJECT / spark.conf.get("logs.index", ".barnabas/index"))},
)
# A line may be too large even for the dead letters: there it is cut, and says so.
dp.create_sink("logs_dlq", "barnabas", {**HERE, "deadLetterTopic": "logs.dlq"})


@dp.append_flow(target="logs_index")
def index_events():
    return functions.for_index(poison.good(spark.readStream.table("events")))


@dp.append_flow(target="logs_dlq")
def refuse_lines():
    return poison.dead_letters(spark.readStream.table("events"))
