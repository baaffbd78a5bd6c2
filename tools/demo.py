"""`make demo`: a broker, two pipelines and their load, for a minute, live; then the figures, and where tables and pictures lie.

    python tools/demo.py [--seconds 60] [--rate 300] [FOLDER]

Everything is in FOLDER (build/demo), which is made anew. The parts are those that a user has: `barnabas up`, the templates metrics and logs,
their generate.py and plot.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.pipelines.continuous import Pipeline

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "src/barnabas/pipelines/templates"
TOPICS = ("metrics", "metrics.dlq", "metrics.alerts", "logs", "logs.dlq")
#: Minutes of metrics that are there before the demo begins: a minute is closed when newer ones have come.
HISTORY_MINUTES, HISTORY_PER_SECOND = 30, 15
QUERY = 'level:error AND "time out"'
#: On a busy machine: what was sent may take this much longer to be read.
PATIENCE_S = 60
os.environ.setdefault("BARNABAS_SPARK_ARCHIVE", "off")


def main() -> None:
    """Show it all."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/demo")
    options.add_argument("--seconds", type=int, default=60, help="for how long there is load")
    options.add_argument("--rate", type=int, default=300, help="records a second, of each pipeline")
    chosen = options.parse_args()
    began = time.monotonic()
    shutil.rmtree(chosen.folder, ignore_errors=True)
    chosen.folder.mkdir(parents=True)
    with broker(chosen.folder) as bootstrap:
        say(f"a broker is ready on {bootstrap}")
        for name in ("metrics", "logs"):
            shutil.copytree(TEMPLATES / name, chosen.folder / name, ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
        make_topics(bootstrap)
        say(
            f"{send_history(bootstrap):,} readings of the last {HISTORY_MINUTES} minutes are on the topic metrics"
        )
        show_pipelines(chosen, bootstrap)
    say(f"that took {time.monotonic() - began:.0f} s")


def say(text: str) -> None:
    """Print a line now."""
    print(text, flush=True)


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A broker of its own, on any port."""
    command = [sys.executable, "-m", "barnabas", "up", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "broker")]  # fmt: skip
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = next((each for each in process.stdout if each.startswith("ready")), None)
        if line is None:
            sys.exit(f"the broker has not started: {folder / 'broker.log'}")
        yield line.split()[1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def make_topics(bootstrap: str) -> None:
    """Create what the templates read and write."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(each, 2) for each in TOPICS]).values():
        made.result(30)


def send_history(bootstrap: str) -> int:
    """Metrics of the last half hour, at once."""
    from barnabas.pipelines.feeding import feed

    spec = importlib.util.spec_from_file_location(
        "generate_metrics", TEMPLATES / "metrics/generate.py"
    )
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    count = HISTORY_MINUTES * 60 * HISTORY_PER_SECOND
    now_ms = time.time_ns() // 1_000_000
    clock = itertools.count(now_ms - HISTORY_MINUTES * 60_000, 1000 // HISTORY_PER_SECOND)
    return feed(generate.events(1, count, lambda: next(clock)), bootstrap)


def show_pipelines(chosen: argparse.Namespace, bootstrap: str) -> None:
    """Run both while there is load, then to the end, then tell."""
    from barnabas.cli.pipeline_run import open_spark
    from barnabas.pipelines.continuous import Pipeline
    from barnabas.pipelines.project import Project

    say("Spark starts ...")
    spark = open_spark(Project.open(chosen.folder / "metrics"), None)
    settings = {"barnabas.bootstrap.servers": bootstrap, "spark.sql.shuffle.partitions": "2"}
    pipelines = [Pipeline(chosen.folder / name, spark, settings) for name in ("metrics", "logs")]
    for each in pipelines:
        each.start()
    load = [start_load(chosen, name, bootstrap) for name in ("metrics", "logs")]
    try:
        watch(pipelines, load, chosen.seconds)
    finally:
        for each in load:
            each.terminate()
            each.wait()
        for each in pipelines:
            each.stop()
    say("\nload is over; what is left is read to its end ...")
    for each in pipelines:
        each.run_available()
    tell(chosen.folder, pipelines, bootstrap)
    spark.stop()


def start_load(chosen: argparse.Namespace, name: str, bootstrap: str) -> subprocess.Popen[bytes]:
    """Let a template's generator send, as a user would."""
    command = [sys.executable, "generate.py", "--bootstrap", bootstrap, "--rate", str(chosen.rate), "--seconds", str(chosen.seconds), "--seed", "7"]  # fmt: skip
    return subprocess.Popen(command, cwd=chosen.folder / name, stdout=subprocess.DEVNULL)


def watch(pipelines: list[Pipeline], load: list[subprocess.Popen[bytes]], seconds: int) -> None:
    """Show what every flow does, until there is no more load."""
    from barnabas.cli.pipeline_view import flow_lines

    is_live, end = sys.stdout.isatty(), time.monotonic() + seconds + PATIENCE_S
    told = time.monotonic()
    while any(each.poll() is None for each in load) and time.monotonic() < end:
        time.sleep(1)
        if not is_live and time.monotonic() - told < 10:
            continue
        told = time.monotonic()
        lines = [
            line
            for each in pipelines
            for line in (f"\n{each.project.name}", *flow_lines(each.status()))
        ]
        if is_live:
            print("\033[2J\033[H", end="")
        say("\n".join(["barnabas demo: Ctrl-C ends it", *lines]))


def tell(folder: Path, pipelines: list[Pipeline], bootstrap: str) -> None:
    """The figures, and where things are."""
    metrics, logs = pipelines
    minutes, hours = metrics.table("per_minute"), metrics.table("per_hour")
    events = logs.table("events")
    refused = events.where("_error IS NOT NULL").count()
    by_level = {row["level"]: row["count"] for row in events.where("_error IS NULL").groupBy("level").count().collect()}  # fmt: skip
    readings = minutes.groupBy().sum("readings").collect()[0][0] or 0
    say(
        f"\nmetrics: {readings:,} readings in {minutes.count():,} closed minutes of services, {metrics.table('late').count():,} late; {hours.count():,} hours"
    )
    hours.orderBy("service", "name").where("name = 'errors'").select(
        "service", "hour", "readings", "late", "total", "mean"
    ).show(6, truncate=False)
    say(f"alerts: {count_records(bootstrap, 'metrics.alerts'):,} (barnabas consume metrics.alerts)")
    say(
        f"logs: {sum(by_level.values()):,} events ({', '.join(f'{count:,} {level}' for level, count in sorted(by_level.items()))}), {refused:,} lines refused"
    )
    search(folder / "logs/.barnabas/index")
    for name in ("metrics", "logs"):
        subprocess.run([sys.executable, "plot.py", "."], cwd=folder / name, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    say("\nwhere it lies")
    for what, where in (
        ("tables", "*/.barnabas/storage/continuous/tables"),
        ("pictures", "*/*.png"),
        ("full-text index", "logs/.barnabas/index"),
    ):
        for path in sorted(folder.glob(where)):
            say(f"  {what:16} {path}")


def count_records(bootstrap: str, topic: str) -> int:
    """Read a topic of two partitions to its end."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo"})
    try:
        consumer.assign([TopicPartition(topic, each, 0) for each in (0, 1)])
        count = idle = 0
        while idle < 3:
            message = consumer.poll(0.5)
            if message is None:
                idle += 1
            elif message.error() is None:
                count += 1
        return count
    finally:
        consumer.close()


def search(index: Path) -> None:
    """What `barnabas logs search` finds, and how fast."""
    from barnabas.pipelines.search.finding import LogIndex

    looking = LogIndex(str(index))
    looking.search(QUERY)
    began = time.perf_counter()
    found = looking.search(QUERY, limit=3)
    took_ms = (time.perf_counter() - began) * 1000
    say(
        f"barnabas logs search '{QUERY}' --index {index}: {found.total:,} of {looking.search('*').total:,} events in {took_ms:.1f} ms"
    )
    for event in found.events:
        say(f"  {event.texts['source']}: {event.texts['message'][:90]}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.suppress(KeyboardInterrupt):
        main()
