"""From the changes of one database to a second one that equals it."""

import functions
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
HERE = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")}


@dp.temporary_view
def changes():
    return functions.changes(
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe="changes", startingOffsets="earliest")
        .options(isolation="read_committed", includeHeaders="true", groupId="commitlog")
        .load()
    )


dp.create_sink("copy", "barnabas_postgres", {"url": spark.conf.get("commitlog.target")})
dp.create_sink("changes_dlq", "barnabas", {**HERE, "deadLetterTopic": "changes.dlq"})


@dp.append_flow(target="copy")
def apply_changes():
    return functions.for_target(poison.good(spark.readStream.table("changes")))


@dp.append_flow(target="changes_dlq")
def refuse_changes():
    return poison.dead_letters(spark.readStream.table("changes"))
