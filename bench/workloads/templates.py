"""Templates of pipelines: events a second that each handles, and for each second of CPU; and metrics by the minute beside the same in Kafka Streams.

A template drains what its own generator wrote, in the continuous runner, to the end of what is there. Broker and database have processes of their own, whose CPU does not count. There is
nothing like them at Apache Kafka's, but for the window count: both read the same topic of the same Barnabas broker, and what both count must be what the generator made.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tools import peers, postgres_server

from bench import clients, generated
from bench.brokers import KAFKA_VERSION
from bench.clients import ClientFailed
from bench.figures import BARNABAS, Figure
from bench.measure import CORES
from bench.plan import Skip, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.brokers import Broker
    from bench.plan import Bench

ROOT: Final = Path(__file__).parents[2]
STREAMS_SOURCE: Final = ROOT / "bench/streams/WindowCount.java"
SETTINGS: Final = {"spark.driver.memory": "2g"}
EXPECTED: Final = "readings.json"
OPEN_MS: Final = 300_000
"""The last minutes are still open for Spark, which tells of a minute once, when it is closed."""
WINDOWS: Final = 8.0
"""Times the records that other workloads send: the window count is quick."""


class Template(NamedTuple):
    """What a template needs around it, and how many records it is given, times those that other workloads send."""

    topics: tuple[str, ...]
    share: float
    readers: int
    """How often its flows read the events in all: each time is one more reader for the brokers."""


TEMPLATES: Final = {
    "metrics": Template(("metrics", "metrics.dlq", "metrics.alerts"), 2.0, 3),
    "logs": Template(("logs", "logs.dlq"), 1.0, 2),
    "activity": Template(("page-views", "clicks", "searches", "page-views.dlq"), 1.0, 3),
    "suggestions": Template(("shop-visits", "shop-visits.dlq", "shop-pairs", "shop-pairs.dlq", "suggestions"), 0.5, 2),
    "commitlog": Template(("changes", "changes.dlq"), 0.5, 2),
    "notifications": Template(
        ("notification-requests", "notification-requests.dlq", "notification-preferences", "notification-preferences.dlq", "notification-outcomes",
         "notifications-email", "notifications-sms", "notifications-push"), 0.5, 2,
    ),
}  # fmt: skip


def templates(s: float) -> list[Step]:
    """One step for each template, and one for the window count."""
    steps = [
        Step("templates", name, template_figures(name), partial(run_template, template=name), 50 + s)
        for name in TEMPLATES
    ]  # fmt: skip
    return [*steps, Step("templates", "window count", window_figures(), run_windows, 60 + s)]


def template_figures(name: str) -> tuple[Figure, ...]:
    """Events a second on all cores, and for each second of CPU that Spark and its workers used beyond the start of the queries, which a running pipeline has once: what one core does."""
    return (
        Figure(f"templates.{name}.rate", name, "events/s", True),
        Figure(f"templates.{name}.per-cpu", "… for each second of Spark's CPU", "events", True),
        Figure(f"templates.{name}.start-cpu", "… CPU for the start of its queries", "s"),
        Figure(f"templates.{name}.bytes", "… bytes of key and value", "B"),
    )


def window_figures() -> tuple[Figure, ...]:
    """The same logic on both, on the same machine."""
    return (
        Figure("templates.windows.rate", "window count, in the second column Kafka Streams", "events/s", True, 1.0),
        Figure("templates.windows.per-cpu", "… for each second of CPU", "events", True),
    )  # fmt: skip


def values(key: str, found: dict[str, Any]) -> dict[str, float]:
    """Turn what a program found into figures."""
    return {
        f"{key}.rate": found["records"] / found["seconds"],
        f"{key}.per-cpu": found["records"] / found["cpu_s"],
    }


# -- one template -------------------------------------------------------------------------------


def run_template(bench: Bench, name: str, *, template: str) -> dict[str, float]:
    """Let it drain its topics on a broker of its own."""
    if name != BARNABAS:
        return {}
    needs = TEMPLATES[template]
    asked = {"template": template, "topics": needs.topics, "records": int(needs.share * bench.scale.records_1k)}  # fmt: skip
    with bench.fresh(BARNABAS) as broker, target(template) as configuration:
        broker.start()
        with bench.watch(broker, f"templates.{template}"):
            found = measure(bench, broker, configuration=configuration, **asked)
    broker.wipe()
    key = f"templates.{template}"
    steady = {**found, "cpu_s": max(found["cpu_s"] - found["start_cpu_s"], 0.01)}
    return {
        **values(key, steady),
        f"{key}.start-cpu": found["start_cpu_s"],
        f"{key}.bytes": found["bytes"] / found["records"],
    }


@contextmanager
def target(template: str) -> Iterator[dict[str, str]]:
    """Give the settings of a template that needs something else than a broker."""
    if template != "commitlog":
        yield {}
        return
    try:
        with postgres_server.postgres() as url:
            yield {"commitlog.target": url}
    except postgres_server.NoPostgres as reason:
        raise Skip(str(reason)) from None


def measure(bench: Bench, broker: Broker, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Run the program on a Spark of its own."""
    if find_spec("pyspark") is None:
        raise Skip("Spark is not installed (requirements-spark.lock)")
    folder = tempfile.mkdtemp(dir=bench.folder)
    request = {"bootstrap": f"127.0.0.1:{broker.port}", "folder": folder, "settings": SETTINGS, **asked}  # fmt: skip
    command = ["env", "-C", str(ROOT), "SPARK_LOCAL_IP=127.0.0.1", "BARNABAS_SPARK_ARCHIVE=off", sys.executable]  # fmt: skip
    printed = clients.run([*command, "-m", "bench.pipeline_load", json.dumps(request)])
    shutil.rmtree(folder, ignore_errors=True)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


# -- the window count -----------------------------------------------------------------------------


def run_windows(bench: Bench, name: str) -> dict[str, float]:
    """Count the same readings with Spark or with Kafka Streams; both must count what was generated."""
    count = int(WINDOWS * bench.scale.records_1k)
    broker = bench.prepared(BARNABAS, "readings", partial(write_readings, count=count))
    with broker:
        broker.start()
        with bench.watch(broker, "templates.windows"):
            found = measure(bench, broker) if name == BARNABAS else stream(bench, broker, count)
    check_counts(found["counts"], bench.folder / EXPECTED)
    if found.setdefault("records", count) != count:
        raise ClientFailed(f"{found['records']} of {count} readings were counted")
    return values("templates.windows", found)


def write_readings(broker: Broker, count: int) -> None:
    """Write readings, and what must be counted of them."""
    from barnabas.pipelines import feeding

    bootstrap = f"127.0.0.1:{broker.port}"
    generated.make_topics(bootstrap, ("metrics", "per-minute"))
    feeding.feed(generated.events("metrics", 1, count), bootstrap)
    expected = generated.expected_counts(generated.events("metrics", 1, count))
    (broker.home.parent / EXPECTED).write_text(json.dumps(expected))


def check_counts(found: dict[str, int], expected_file: Path) -> None:
    """Stop if a minute that must be closed has another count than was generated."""
    expected = json.loads(expected_file.read_text())
    newest_ms = max(start_ms(minute) for minute in expected)
    closed = {minute for minute in expected if start_ms(minute) <= newest_ms - OPEN_MS}
    wrong = [minute for minute in closed if found.get(minute) != expected[minute]]
    if wrong or found.keys() - expected.keys():
        raise ClientFailed(f"{len(wrong)} of {len(closed)} minutes were not counted as they were generated, such as {wrong[:1]}")  # fmt: skip


def start_ms(minute: str) -> int:
    """Read when a minute starts, out of its name."""
    return int(minute.rpartition("/")[2])


def stream(bench: Bench, broker: Broker, count: int) -> dict[str, Any]:
    """Run the application of Kafka Streams, with a thread for each core."""
    java, compiler, lib = peers.java(), peers.javac(), peers.kafka_streams_lib(KAFKA_VERSION)
    if java is None or compiler is None or lib is None:
        raise Skip(f"no Kafka Streams: {peers.reason()}")
    folder = tempfile.mkdtemp(dir=bench.folder)
    clients.run([compiler, "-d", f"{folder}/classes", "-cp", f"{lib}/*", str(STREAMS_SOURCE)])
    command = [java, "-Xmx2g", "-Dlog4j2.level=ERROR", "-cp", f"{folder}/classes:{lib}/*", "WindowCount", f"127.0.0.1:{broker.port}"]  # fmt: skip
    printed = clients.run([*command, f"{folder}/state", str(CORES), str(count)])
    shutil.rmtree(folder, ignore_errors=True)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found
