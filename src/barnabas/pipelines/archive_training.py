"""`python -m barnabas.pipelines.archive_training`: make the archive that the next starts of Spark map.

Job: run a session that does a little of what sessions do (a query, a micro-batch, rows through Python), and let its JVM write what it loaded. One
process at a time: whoever comes second leaves.
"""

from __future__ import annotations

import fcntl
import os
import sys

from pyspark import SparkContext

from barnabas.pipelines.java import find_java
from barnabas.pipelines.jvm import stop
from barnabas.pipelines.spark_session import QUICK, make_session
from barnabas.pipelines.start_archive import SWITCH, Archive


def main() -> int:
    """Make the archive if there is none and nobody else is at it."""
    archive = Archive(find_java())
    if not archive.is_possible:
        return 1
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    with archive.path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        if not archive.path.exists():
            _make(archive)
    return 0


def _make(archive: Archive) -> None:
    os.environ[SWITCH] = "off"
    new = archive.path.with_suffix(".new")
    new.unlink(missing_ok=True)
    # What is archived is the same whichever compiler ran.
    spark = make_session("training", "local[2]", {}, [*archive.making_options(new), *QUICK])
    spark.range(100).selectExpr("id % 3 AS k", "id").groupBy("k").count().collect()
    spark.sql("SELECT explode(sequence(1, 3)) AS n").createOrReplaceTempView("numbers")
    spark.sql("SELECT sum(n) FROM numbers").toArrow()
    spark.createDataFrame([(1, "a")], "n INT, s STRING").collect()
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    rate.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(30)
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    stop(process, timeout_s=600)
    # A JVM without room on the disk ends all the same: then there is nothing to put in place.
    if process.returncode == 0 and new.exists():
        new.replace(archive.path)


if __name__ == "__main__":
    sys.exit(main())
