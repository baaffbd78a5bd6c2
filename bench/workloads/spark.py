"""W14: Spark on this broker: the source and sink that need no jars, against Spark's own Kafka connector at its defaults.

Both run on the same broker, ours; the second column is the connector, on the Spark that it was released for, in an environment of its own (tools/peers.py). Streaming
queries with the trigger availableNow: everything in a topic to nowhere, and rows of a file to a topic. How long a session takes to start is compared with a plain one of
the same Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import peers

from bench import clients
from bench.clients import ClientFailed, Sending
from bench.figures import BARNABAS, Figure
from bench.plan import Skip, Step
from bench.workloads.throughput import SIZES

if TYPE_CHECKING:
    from bench.brokers import Broker
    from bench.plan import Bench

PROGRAM = Path(__file__).parents[1] / "spark_load.py"
PARTITIONS = 4
RECORDS = {1024: 5, 100: 20}
"""Times the records that other workloads send: a query of less than seconds measures its own start."""
DELIVERIES = {"at-least-once": 1.0, "exactly-once": 0.7}
"""What the sink promises, and the target; the connector promises the first."""
SETTINGS = {"spark.driver.memory": "2g"}
START_FIGURES = (
    Figure("w14.start.seconds", "session() until its first row, to a plain session", "s", False, 0.5),
    Figure("w14.start.cpu", "… CPU", "s", False, 0.5),
)  # fmt: skip


def w14(s: float) -> list[Step]:
    """Start a session; read records of both sizes; write them with both promises."""
    steps = [Step("w14", "session", START_FIGURES, run_start, 20)]
    steps += [
        Step("w14", f"source, {SIZES[size]}", source_figures(size), partial(run_source, size=size), 60 + s)
        for size in RECORDS
    ]  # fmt: skip
    return steps + [
        Step("w14", f"sink, {SIZES[size]}, {delivery}", sink_figures(size, delivery), partial(run_sink, size=size, delivery=delivery), 60 + s)
        for delivery in DELIVERIES
        for size in RECORDS
    ]  # fmt: skip


def source_figures(size: int) -> tuple[Figure, ...]:
    """Records a second, and for each second of CPU that Spark and its workers used."""
    key = f"w14.source.{size}"
    return (
        Figure(f"{key}.rate", f"source, {SIZES[size]}, {PARTITIONS} partitions", "records/s", True, 1.0),
        Figure(f"{key}.per-cpu", "… for each second of Spark's CPU", "records", True, 0.9),
    )  # fmt: skip


def sink_figures(size: int, delivery: str) -> tuple[Figure, ...]:
    """The same for writing."""
    key = f"w14.sink.{delivery}.{size}"
    return (
        Figure(f"{key}.rate", f"sink, {SIZES[size]}, {delivery}", "records/s", True, DELIVERIES[delivery]),
        Figure(f"{key}.per-cpu", "… for each second of Spark's CPU", "records", True),
    )  # fmt: skip


def run_source(bench: Bench, name: str, *, size: int) -> dict[str, float]:
    """Fill a topic, and read all of it."""
    broker, count = bench.broker(BARNABAS), records_of(bench, size)
    with bench.topic(broker, PARTITIONS) as places:
        topic = places[0].topic
        clients.produce(bench.tools, broker, topic, Sending(count, size))
        # Each partition has one more, by which it was seen to be writable.
        there = count + PARTITIONS
        found = measure(bench, name, broker, what="read", topic=topic, records=there, size=size)
    return values(f"w14.source.{size}", found)


def run_sink(bench: Bench, name: str, *, size: int, delivery: str) -> dict[str, float]:
    """Write so many rows."""
    broker, count = bench.broker(BARNABAS), records_of(bench, size) // 2
    options = {"delivery": delivery} if name == BARNABAS else {}
    with bench.topic(broker, PARTITIONS) as places:
        found = measure(
            bench, name, broker, what="write", topic=places[0].topic, records=count, size=size, options=options
        )  # fmt: skip
    return values(f"w14.sink.{delivery}.{size}", found)


def run_start(bench: Bench, name: str) -> dict[str, float]:
    """Start a session as a program does; ours has its archive of classes, as every one but the first."""
    if find_spec("pyspark") is None:
        raise Skip("Spark is not installed (requirements-spark.lock)")
    clients.run([sys.executable, "-m", "barnabas.pipelines.archive_training"])
    form = "barnabas" if name == BARNABAS else "plain"
    found = run_program(bench, sys.executable, {"what": "start", "format": form, "settings": {}})
    return {"w14.start.seconds": found["seconds"], "w14.start.cpu": found["cpu_s"]}


def records_of(bench: Bench, size: int) -> int:
    """How many records a query handles."""
    return RECORDS[size] * bench.scale.records_1k


def values(key: str, found: dict[str, float]) -> dict[str, float]:
    """Turn what the program found into figures."""
    return {
        f"{key}.rate": found["records"] / found["seconds"],
        f"{key}.per-cpu": found["records"] / found["cpu_s"],
    }


def measure(bench: Bench, name: str, broker: Broker, **asked: Any) -> dict[str, float]:  # noqa: ANN401 - JSON
    """Run the program on one of the Sparks; every record must have come."""
    python, form, settings = environment_of(name)
    request = {
        "format": form, "bootstrap": f"127.0.0.1:{broker.port}", "options": {}, "settings": settings, **asked,
    }  # fmt: skip
    with bench.watch(broker, f"w14.{asked['what']}"):
        found = run_program(bench, python, request)
    if found["records"] != asked["records"]:
        raise ClientFailed(f"{found['records']} of {asked['records']} rows went through Spark")
    return found


def run_program(bench: Bench, python: str, asked: dict[str, Any]) -> dict[str, float]:
    """Run the program in a folder of its own; what it prints."""
    folder = tempfile.mkdtemp(dir=bench.folder)
    command = [
        "env",
        "SPARK_LOCAL_IP=127.0.0.1",
        f"PYSPARK_PYTHON={python}",
        "BARNABAS_SPARK_ARCHIVE=off",
    ]
    request = json.dumps({"folder": folder, **asked})
    printed = clients.run([*command, python, str(PROGRAM), request])
    shutil.rmtree(folder, ignore_errors=True)
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def environment_of(name: str) -> tuple[str, str, dict[str, str]]:
    """Give the Python, the format and the settings; Skip if there is no such Spark here."""
    if name == BARNABAS:
        if find_spec("pyspark") is None:
            raise Skip("Spark is not installed (requirements-spark.lock)")
        return sys.executable, "barnabas", SETTINGS
    official = peers.official_spark()
    if official is None:
        raise Skip(f"no Spark with its Kafka connector: {peers.reason()}")
    jars = os.pathsep.join(map(str, official.jars))
    return str(official.python), "kafka", {**SETTINGS, "spark.driver.extraClassPath": jars}
