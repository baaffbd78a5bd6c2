"""From visits to suggestions: pairs of products that a customer looked at, and each product's nearest ones on a compacted topic."""

import functions as f
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
BOOTSTRAP = spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")
HERE = {"kafka.bootstrap.servers": BOOTSTRAP}


def records(topic, schema):
    """Follow a topic from its start; what is no such record goes to its dead-letter topic."""
    return (
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe=topic, startingOffsets="earliest", isolation="read_committed")
        .options(valueFormat="json", valueSchema=schema, deadLetterTopic=f"{topic}.dlq")
        .load()
        .select("value.*")
    )


dp.create_sink("pairs", "barnabas", {**HERE, "topic": "shop-pairs"})
dp.create_sink("suggestions", "barnabas", {**HERE, "topic": "suggestions"})


@dp.append_flow(target="pairs")
def visits_to_pairs():
    return f.pairs(
        records("shop-visits", f.VISIT).where("customer IS NOT NULL AND product IS NOT NULL")
    )


@dp.append_flow(target="suggestions")
def pairs_to_suggestions():
    return f.similar(records("shop-pairs", f.PAIR))
