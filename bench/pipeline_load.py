"""Run as `python -m bench.pipeline_load JSON`: a template of pipelines drains what its own generator wrote, and this prints what that took, as JSON.

`template`: its name, `bootstrap`, `topics` to be made, `folder` for the project, `records` to be asked of the generator, `settings` of Spark, `configuration` of the project. The
project runs in one session, each time to the end of what is there: first on a part, so that the JVM has compiled what it needs; then on all of them, which is measured; and once more with nothing to
do, which says what the start of every query costs.

Without `template` the readings of the topic `metrics`, which are there already, are counted by the minute with the functions of that template in one query, twice; `counts`
are printed, too.
"""

from __future__ import annotations

import importlib
import itertools
import json
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipelines import feeding, poison, session
from barnabas.pipelines.continuous import Pipeline
from barnabas.pipelines.project import Project
from barnabas.pipelines.surroundings import importing
from bench.generated import TEMPLATES, events, make_topics
from bench.spark_load import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Asked = dict[str, Any]

WARM_SHARE: Final = 4
"""One part in so many is handled before the clock starts."""


def main(text: str) -> None:
    """Measure what the argument asks for."""
    asked = json.loads(text)
    spark = session("bench", config=asked["settings"])
    print(json.dumps((run_template if "template" in asked else count_windows)(spark, asked)))
    spark.stop()


def run_template(spark: SparkSession, asked: Asked) -> dict[str, float]:
    """Let the template's project drain its topics, twice."""
    project = copied(asked["template"], asked["folder"])
    bootstrap = asked["bootstrap"]
    make_topics(bootstrap, asked["topics"])
    settings = {"barnabas.bootstrap.servers": bootstrap, **asked["configuration"]}
    pipeline = Pipeline(project, spark, settings)
    warm = asked["records"] // WARM_SHARE
    made = events(asked["template"], 1, warm + asked["records"])
    sent = feeding.feed(itertools.islice(made, warm), bootstrap)
    pipeline.run_available()
    rest = Weighed(made)
    count = feeding.feed(rest, bootstrap)
    with measured() as took:
        pipeline.run_available()
    with measured() as nothing:
        pipeline.run_available()
    rows = {run.work.step.name: run.rows for run in pipeline.runs}
    # A flow that reads a topic on two ways has every record twice.
    if not any(each and each % (sent + count) == 0 for each in rows.values()):
        raise SystemExit(f"{sent + count} records were sent, and flows had {rows}")
    return {"records": count, "bytes": rest.size_bytes, **took, "start_cpu_s": nothing["cpu_s"]}


class Weighed:
    """Events, and how many bytes those that were taken have."""

    def __init__(self, events: Iterable[feeding.Event]) -> None:
        """Take them as they are."""
        self._events = events
        self.size_bytes = 0

    def __iter__(self) -> Iterator[feeding.Event]:
        """Hand them on."""
        for event in self._events:
            self.size_bytes += sum(len(each) for each in (event.key, event.value) if each)
            yield event


def copied(template: str, folder: str) -> Project:
    """Give the template as a user gets it."""
    home = Path(folder) / template
    shutil.copytree(TEMPLATES / template, home, ignore=shutil.ignore_patterns("__pycache__"))
    return Project.open(home)


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Fill in what the block takes, when it is over."""
    took: dict[str, float] = {}
    before_s, started = cpu_seconds(), time.monotonic()
    yield took
    took["seconds"], took["cpu_s"] = time.monotonic() - started, cpu_seconds() - before_s


# -- the same by Spark as by Kafka Streams ------------------------------------------------------


def count_windows(spark: SparkSession, asked: Asked) -> dict[str, Any]:
    """Aggregate by the minute, twice."""
    with importing(Project.open(TEMPLATES / "metrics")):
        functions = importlib.import_module("functions")
    for run in ("warm", "measured"):
        folder = str(Path(asked["folder"]) / run)
        readings = spark.readStream.format("barnabas").options(
            subscribe="metrics", startingOffsets="earliest", valueFormat="json", valueSchema=functions.READING
        )  # fmt: skip
        pushed = functions.checked(readings.option("kafka.bootstrap.servers", asked["bootstrap"]).load())  # fmt: skip
        minutes = functions.per_minute(functions.in_time(functions.readings(poison.good(pushed))))
        with measured() as took:
            query = minutes.writeStream.format("parquet").option("path", f"{folder}/table")
            query = query.option("checkpointLocation", f"{folder}/checkpoint")
            running = query.trigger(availableNow=True).start()
            running.awaitTermination()
    rows = sum(progress["numInputRows"] for progress in running.recentProgress)
    return {"records": rows, **took, "counts": counts_of(spark.read.parquet(f"{folder}/table"))}


def counts_of(minutes: DataFrame) -> dict[str, int]:
    """Say how many readings each minute has, as the application of Kafka Streams says it."""
    rows = minutes.selectExpr("service", "name", "kind", "unix_millis(minute) AS ms", "readings")
    return {f"{row.service}/{row.name}/{row.kind}/{row.ms}": row.readings for row in rows.collect()}


if __name__ == "__main__":
    main(sys.argv[1])
