"""Compaction: how fast a log of keyed records is cleaned, what that costs, and whether producers notice.

Both brokers write what a cleaning took into their logs; the figures are read from there. A topic is written without
compaction first, so that the whole of it is cleaned at once when its policy changes.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from bench import clients, measure
from bench.admin import BrokerFailed
from bench.figures import BARNABAS, KAFKA, Figure
from bench.frames import Batch
from bench.plan import Step
from bench.workloads.units import GB, MILLION

if TYPE_CHECKING:
    from bench.brokers import Broker
    from bench.plan import Bench

LARGEST = 10**9
"""Of the log that is cleaned alone; the one beside producers is twice as large."""
BYTES_PER_KEY = 1_000
"""A million keys in 1 GB: at 550 bytes for a record, about every second one is outdated."""
SEGMENTS = 10
SMALLEST_SEGMENT = 2**20
SETTINGS = {"log.cleaner.backoff.ms": "100"}
"""The usual 15 s are waited at most before a cleaner looks for work: nothing to be measured."""
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
LOAD = Batch(10, 1024)
RECORDS_PER_S = 10_000
DEPTH = 64
IDLE_S = 5.0
LIMIT_S = 600
POLL_S = 0.05
FASTEST_MB_S, NOTICED = 100, 2

OURS = re.compile(r"(\S+): compacted (\d+) bytes \(\d+ records\) to (\d+) \(\d+\) in (\d+) ms")
THEIRS = re.compile(
    r"cleaned log (\S+) \(dirty section = \[[^]]*\]\)\s+"
    r"([\d.,]+) MB of log processed in ([\d.,]+) seconds .*?End size: ([\d.,]+) MB",
    re.DOTALL,
)


class Cleaning(NamedTuple):
    """What a broker said of one: bytes of input and of what stayed, and seconds."""

    read: float
    written: float
    seconds: float


def compaction(s: float) -> list[Step]:
    """One step: a broker of its own, whose logs are cleaned one after the other."""
    return [Step("compaction", "keyed log", compaction_figures(), run, 35 + 10 * s, runs=1)]


def compaction_figures() -> tuple[Figure, ...]:
    """Rates are of input. The cleaner is one thread of Apache Kafka, one process of Barnabas."""
    return (
        Figure("compaction.rate", "cleaned, of input", "MB/s", True, FASTEST_MB_S, own=True),
        Figure("compaction.cpu", "… CPU, broker and cleaner", "s/GB"),
        Figure("compaction.kept", "… stays", "%"),
        Figure("compaction.idle", "produce p99 at 10,000 records/s, no cleaning", "µs"),
        Figure("compaction.beside", "… beside a cleaning", "µs"),
        Figure("compaction.noticed", "… as a multiple", "", False, NOTICED, own=True),
    )


def run(bench: Bench, name: str) -> dict[str, float]:
    """A small log first, which warms a JVM; then one alone, and one beside producers."""
    size = min(LARGEST, bench.scale.records_1k * 1024)
    with bench.fresh(name, SETTINGS) as broker:
        broker.start()
        bench.warm(broker)
        for topic, share in (("warm", 0.25), ("alone", 1), ("beside", 2)):
            write_keyed(bench, broker, topic, int(size * share))
        clean(broker, "warm")
        alone, cpu_s = clean_watched(bench, broker, "alone")
        idle, beside = latencies(bench, broker, 2 * alone.seconds)
        broker.kill()
    broker.wipe()
    return {
        "compaction.rate": alone.read / alone.seconds / MILLION,
        "compaction.cpu": cpu_s / alone.read * GB,
        "compaction.kept": 100 * alone.written / alone.read,
        "compaction.idle": idle,
        "compaction.beside": beside,
        "compaction.noticed": beside / idle,
    }


def write_keyed(bench: Bench, broker: Broker, topic: str, size: int) -> None:
    """Make a topic of closed segments that nothing cleans yet."""
    segment = max(SMALLEST_SEGMENT, size // SEGMENTS)
    with broker.admin() as admin:
        admin.create({topic: 1}, {"cleanup.policy": "delete", "segment.bytes": str(segment)})
    keys = max(1, size // BYTES_PER_KEY)
    clients.rdload(bench.tools, broker, "keyed", topic, bytes=size, keys=keys)


def clean(broker: Broker, topic: str) -> Cleaning:
    """Let a topic be cleaned and wait until the broker says what that took."""
    begin(broker, topic)
    return finished(broker, topic)


def begin(broker: Broker, topic: str) -> None:
    """Change the policy; the cleaner finds the topic within its back-off."""
    with broker.admin() as admin:
        admin.set_topic(topic, COMPACT)


def finished(broker: Broker, topic: str) -> Cleaning:
    """Wait for the line in the broker's log."""
    deadline = time.monotonic() + LIMIT_S
    while (found := cleanings(broker.name, broker.log_text()).get(f"{topic}-0")) is None:
        if time.monotonic() > deadline:
            raise BrokerFailed(f"{topic} was not cleaned in {LIMIT_S} s: {broker.last_words()}")
        time.sleep(POLL_S)
    return found


def cleanings(name: str, text: str) -> dict[str, Cleaning]:
    """Read what a broker's log says of every partition that was cleaned; the first cleaning of each."""
    found: dict[str, Cleaning] = {}
    for match in (OURS if name == BARNABAS else THEIRS).finditer(text):
        partition, *texts = match.groups()
        numbers = [float(text.replace(",", "")) for text in texts]
        found.setdefault(partition, READERS[name](*numbers))
    return found


READERS = {
    BARNABAS: lambda read, written, ms: Cleaning(read, written, ms / 1000),
    KAFKA: lambda read, seconds, written: Cleaning(
        read * clients.MIB, written * clients.MIB, seconds
    ),
}


def clean_watched(bench: Bench, broker: Broker, topic: str) -> tuple[Cleaning, float]:
    """Clean, and give the CPU seconds too: of the broker, and of a cleaner that is a process of its own."""
    before = measure.children_cpu_seconds(broker.pid)
    with bench.watch(broker, f"compaction.{topic}") as watch:
        done = clean(broker, topic)
    return done, watch.cpu_s + measure.children_cpu_seconds(broker.pid) - before


def latencies(bench: Bench, broker: Broker, expected_s: float) -> tuple[float, float]:
    """p99 of Produce requests at a fixed rate to another topic: while nothing is cleaned, and while something is."""
    with bench.topic(broker, 16) as places:
        options = {
            "produce": bench.produce_file(places, LOAD),
            "rate": RECORDS_PER_S / LOAD.records,
            "depth": DEPTH,
        }
        seconds = min(IDLE_S, 3 * bench.scale.seconds)
        idle = clients.load(bench.tools, broker, "requests", **options, seconds=seconds)
        begin(broker, "beside")
        busy = clients.load(bench.tools, broker, "requests", **options, seconds=expected_s)
        finished(broker, "beside")
    return idle["latency_us"]["p99"], busy["latency_us"]["p99"]
