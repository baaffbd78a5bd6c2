"""Run by a Spark, ours or the one with Spark's own Kafka connector: reads or writes a topic as one streaming query and prints what it took, as JSON.

One argument, JSON: `format` (barnabas, kafka or plain), `what` (read, write, or start: a session and its first row), `bootstrap`, `topic`, `folder` for data and checkpoints, `records`, `size`, `options` of the format,
`settings` of Spark. The query runs twice, the first time so that the JVM has compiled what it needs; the second is measured. Needs nothing but PySpark, for it runs in two environments.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    Asked = dict[str, Any]

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main(text: str) -> None:
    """Measure what the argument asks for."""
    asked = json.loads(text)
    begun = time.monotonic()
    spark = make_session(asked)
    if asked["what"] == "start":
        rows, seconds = spark.range(1).count(), time.monotonic() - begun
        print(json.dumps({"records": rows, "seconds": seconds, "cpu_s": cpu_seconds()}))
        spark.stop()
        return
    for run in ("warm", "measured"):
        query = (read if asked["what"] == "read" else write)(spark, asked, run)
        before_s, started = cpu_seconds(), time.monotonic()
        running = query.start()
        running.awaitTermination()
        seconds, cpu_s = time.monotonic() - started, cpu_seconds() - before_s
        rows = sum(progress["numInputRows"] for progress in running.recentProgress)
    print(json.dumps({"records": rows, "seconds": seconds, "cpu_s": cpu_s}))
    spark.stop()


def make_session(asked: Asked) -> SparkSession:
    """Give a session as users of each have it."""
    if asked["format"] == "barnabas":
        from barnabas.pipelines import session

        return session("bench", config=asked["settings"])
    from pyspark.sql import SparkSession

    if asked["format"] == "plain":
        return SparkSession.builder.master("local[*]").getOrCreate()
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.config(map=asked["settings"]).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: SparkSession, asked: Asked, run: str) -> DataStreamWriter:
    """Everything that the topic has, to nowhere."""
    source = spark.readStream.format(asked["format"]).options(**asked["options"])
    source = source.option("kafka.bootstrap.servers", asked["bootstrap"])
    rows = source.options(subscribe=asked["topic"], startingOffsets="earliest").load()
    return available_now(rows.writeStream.format("noop"), asked, run)


def write(spark: SparkSession, asked: Asked, run: str) -> DataStreamWriter:
    """Rows of a file, to the topic."""
    data = str(Path(asked["folder"]) / "rows")
    if not os.path.exists(data):
        each = spark.range(0, asked["records"], 1, 4).selectExpr(
            "CAST(id AS STRING) AS key", f"rpad(CAST(id AS STRING), {asked['size']}, 'x') AS value"
        )
        each.write.parquet(data)
    rows = spark.readStream.schema("key STRING, value STRING").parquet(data)
    sink = rows.writeStream.format(asked["format"]).options(**asked["options"])
    sink = sink.option("kafka.bootstrap.servers", asked["bootstrap"]).option(
        "topic", asked["topic"]
    )
    return available_now(sink, asked, run)


def available_now(writer: DataStreamWriter, asked: Asked, run: str) -> DataStreamWriter:
    """Let the query end when it has seen what is there."""
    checkpoint = str(Path(asked["folder"]) / run)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)


def cpu_seconds() -> float:
    """CPU time of this process and of all that it has started: the JVM and its Python workers."""
    stats = [(folder / "stat").read_text() for folder in Path("/proc").glob("[0-9]*") if (folder / "stat").exists()]  # fmt: skip
    fields = {int(stat.split(" ", 1)[0]): stat.rpartition(")")[2].split() for stat in stats}
    family, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, each in fields.items() if int(each[1]) in family} - family
        family |= more
        grown = bool(more)
    # Own user and system time, and that of children that have ended.
    return sum(sum(map(int, fields[pid][11:15])) for pid in family) / TICKS_PER_S


if __name__ == "__main__":
    main(sys.argv[1])
