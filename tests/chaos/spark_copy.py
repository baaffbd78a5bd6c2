"""A streaming query that copies a topic, as a program of its own: what tests kill.

Arguments: address of a Spark master, bootstrap address, source topic, target topic, checkpoint, "go on" or "to the end".
"""

import sys

from barnabas.pipelines import session

#: A task may be killed as often as a test likes.
CONFIG = {
    "spark.task.maxFailures": "1000",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


def main(master, bootstrap, source, target, checkpoint, until):
    spark = session("copy", master=master, config=CONFIG, quick=True)
    address = {"kafka.bootstrap.servers": bootstrap}
    source = {"subscribe": source, "startingOffsets": "earliest"}
    if until == "go on":
        source["maxOffsetsPerTrigger"] = "1000"
    frame = spark.readStream.format("barnabas").options(**address, **source).load()
    writer = (
        frame.select("key", "value")
        .writeStream.format("barnabas")
        .options(**address, topic=target, checkpointLocation=checkpoint)
    )
    if until == "to the end":
        writer = writer.trigger(availableNow=True)
    query = writer.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
