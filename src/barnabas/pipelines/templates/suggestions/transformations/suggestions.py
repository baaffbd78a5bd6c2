"""From visits to suggestions: pairs of products that a customer looked at, and each product's nearest ones on a compacted topic."""

import functions as f
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
BOOTSTRAP = spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")
HERE = {"kafka.bootstrap.servers": BOOTSTRAP}


def records(topic, schema, **more):
    """Follow a topic from its start."""
    return (
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe=topic, startingOffsets="earliest", isolation="read_committed")
        .options(valueFormat="json", valueSchema=schema, **more)
        .load()
    )


def visits(**more):
    return f.checked_visits(records("shop-visits", f.VISIT, **more))


def pairs(**more):
    return f.checked_pairs(records("shop-pairs", f.PAIR, **more))


# What is no visit or no pair, and what has become too large to be written, stops nothing.
dp.create_sink(
    "pairs", "barnabas", {**HERE, "topic": "shop-pairs", "deadLetterTopic": "shop-pairs.dlq"}
)
dp.create_sink(
    "suggestions",
    "barnabas",
    {**HERE, "topic": "suggestions", "deadLetterTopic": "suggestions.dlq"},
)
dp.create_sink("refused", "barnabas", {**HERE, "deadLetterTopic": "shop-visits.dlq"})


@dp.append_flow(target="pairs")
def visits_to_pairs():
    return f.pairs(poison.good(visits()).select("value.*"))


@dp.append_flow(target="suggestions")
def pairs_to_suggestions():
    return f.similar(poison.good(pairs()).select("value.*"))


@dp.append_flow(target="refused")
def refuse():
    whole = visits(**poison.WHOLE), pairs(**poison.WHOLE)
    bad_visits, bad_pairs = map(poison.dead_letters, whole)
    return bad_visits.unionByName(bad_pairs)
