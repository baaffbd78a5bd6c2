"""Run by a PySpark that has Spark's own Kafka connector: reads and writes topics in every way, and prints what it found as JSON.

Arguments: bootstrap address, source topic, target topic, a timestamp in ms that the source topic has, a folder for checkpoints.
"""

import json
import sys

from pyspark.sql import SparkSession, functions


def main(bootstrap, source, target, middle_ms, folder):
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def read(**options):
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.options(subscribe=source, **options).load()

    def rows(frame):
        columns = frame.select("partition", "offset", "key", "value")
        return sorted(
            [r.partition, r.offset, r.key.decode(), r.value.decode()] for r in columns.collect()
        )

    def headers(frame):
        found = frame.select("value", "headers").where("headers IS NOT NULL").collect()
        return {r.value.decode(): [[h.key, h.value.decode()] for h in r.headers] for r in found}

    def stream():
        """Copy what is new from the source topic to the target topic."""
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.options(
            subscribe=source,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="7",
            includeHeaders="true",
        )
        writer = reader.load().select("key", "value", "headers").writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
        query = (
            writer.option("checkpointLocation", folder)
            .option("includeHeaders", "true")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return sum(progress.numInputRows for progress in query.recentProgress)

    found = {
        "batch": rows(read()),
        "headers": headers(read(includeHeaders="true")),
        "since": rows(read(startingTimestamp=str(middle_ms))),
        "until": rows(read(endingTimestamp=str(middle_ms))),
        "streamed": stream(),
    }
    more = spark.range(5).select(
        functions.concat(functions.lit("key-"), "id").alias("key"),
        functions.concat(functions.lit("written-"), "id").alias("value"),
    )
    more.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", source
    ).save()
    found["streamed again"] = stream()
    sys.stdout.write(f"found {json.dumps(found)}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5])
