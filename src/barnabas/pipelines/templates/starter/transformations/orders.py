"""Orders from a topic: large ones to another topic, all of them to a table."""

import functions
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
HERE = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")}


@dp.temporary_view
def records():
    return (
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe="orders", startingOffsets="earliest")
        .options(valueFormat="json", valueSchema="customer STRING, amount DOUBLE")
        .load()
    )


@dp.table
def orders():
    return functions.orders(poison.good(spark.readStream.table("records")))


# What cannot be written, as it is too large, goes to the dead-letter topic of where it should go; what is too large even for that is cut, and says so.
dp.create_sink(
    "large", "barnabas", {**HERE, "topic": "orders-large", "deadLetterTopic": "orders-large.dlq"}
)
dp.create_sink("dead_letters", "barnabas", {**HERE, "deadLetterTopic": "orders.dlq"})


@dp.append_flow(target="large")
def large_orders():
    return functions.large(spark.readStream.table("orders"))


@dp.append_flow(target="dead_letters")
def bad_orders():
    return poison.dead_letters(spark.readStream.table("records"))
