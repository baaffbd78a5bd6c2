"""One program for every kind of Spark: writes a topic, streams it typed into another, and prints what is there.

Arguments: bootstrap address, source topic, target topic, a folder for checkpoints. Where it runs, BARNABAS_SPARK_MASTER says.
"""

import json
import sys

from barnabas.pipelines import session


def main(bootstrap, source, target, folder):
    spark = session("everywhere", quick=True)
    address = {"kafka.bootstrap.servers": bootstrap}
    words = spark.range(90).selectExpr(
        "CAST(id % 3 AS STRING) AS key", "to_json(struct('w' || id % 3 AS word, id AS n)) AS value"
    )
    words.write.format("barnabas").options(**address, topic=source).mode("append").save()

    typed = {"valueFormat": "json", "valueSchema": "word STRING, n BIGINT"}
    reader = spark.readStream.format("barnabas").options(**address, **typed, subscribe=source)
    counts = reader.option("startingOffsets", "earliest").load().selectExpr("value.word", "value.n")
    written = counts.selectExpr("word AS key", "CAST(n * 2 AS STRING) AS value")
    writer = written.writeStream.format("barnabas").options(**address, topic=target)
    writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
    assert writer.start().awaitTermination(400)

    spark.sql(
        f"CREATE TEMPORARY VIEW doubled USING barnabas OPTIONS (kafka.bootstrap.servers '{bootstrap}', subscribe '{target}', keyFormat 'text', valueFormat 'text')"
    )
    rows = spark.sql(
        "SELECT key, count(*) AS rows, sum(CAST(value AS BIGINT)) AS total FROM doubled GROUP BY key"
    )
    found = sorted([row.key, row.rows, row.total] for row in rows.collect())
    sys.stdout.write(f"found {json.dumps(found)}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
