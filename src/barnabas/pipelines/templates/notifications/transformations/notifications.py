"""From requests of many applications, and what each user wants, to e-mail, SMS and push; every request has one outcome."""

import functions
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from barnabas.pipelines import poison

spark = SparkSession.active()
HERE = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers", "127.0.0.1:9092")}
WINDOW_MS = 1000 * int(spark.conf.get("notifications.window.seconds", "60"))


def topic(name):
    """Follow a topic from its start; headers are kept for the dead letters."""
    return (
        spark.readStream.format("barnabas")
        .options(**HERE, subscribe=name, startingOffsets="earliest", includeHeaders="true")
        .options(isolation="read_committed", groupId="notifications")
        .load()
    )


# Made here, and read without views: Spark's own runner lets nothing be looked up inside the functions of flows.
READ_REQUESTS = poison.guarded(functions.read_request, functions.REQUEST)
READ_PREFERENCES = poison.guarded(functions.read_preferences, functions.PREFERENCES)


def requests():
    return topic("notification-requests").transform(READ_REQUESTS)


def preferences():
    return topic("notification-preferences").transform(READ_PREFERENCES)


# What to send and what became of each request are written by one flow: both or none.
dp.create_sink("sent", "barnabas", {**HERE, "deadLetterTopic": "notifications.dlq"})
dp.create_sink("refused", "barnabas", {**HERE, "deadLetterTopic": "notification-requests.dlq"})


@dp.append_flow(target="sent")
def send():
    return functions.notifications(
        poison.good(requests()),
        poison.good(preferences()),
        WINDOW_MS,
    )


@dp.append_flow(target="refused")
def refuse():
    return poison.dead_letters(requests()).unionByName(poison.dead_letters(preferences()))
