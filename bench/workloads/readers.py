"""W6, W7: many readers of the same records, and one that is far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import clients, machine
from bench.clients import Sending
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Skip, Step
from bench.workloads.units import GB

if TYPE_CHECKING:
    from bench.plan import Bench


GOING_ON = Batch(5, 1024)
"""What the writer beside a backlog sends each millisecond, as a linger of 1 ms would make it of 5,000 records/s."""
GOING_ON_S = 600


def w6(s: float) -> list[Step]:
    """One producer as fast as it goes, eight connections that each read everything."""
    figures = (
        Figure("w6.consume", "fan-out 1 → 8, read in sum", "MB/s", True, 1.0),
        Figure("w6.cpu", "broker CPU, fan-out, written and read", "s/GB", False, 1.0),
    )
    return [Step("w6", "fan-out 1 → 8", figures, run_w6, 1.5 + 1.5 * s)]


def run_w6(bench: Bench, name: str) -> dict[str, float]:
    """The readers wait at the end of the logs when the producer starts."""
    broker, how = bench.broker(name), Sending(bench.scale.records_1k, 1024)
    with bench.topic(broker, 16) as places:
        fetch, topic = bench.fetch_file(places), places[0].topic
        drain = {"fetch": fetch, "connections": 8, "records": how.records, "seconds": 600}
        with bench.watch(broker, "w6") as watch:
            writing = clients.producing(bench.tools, broker, topic, how)
            with clients.beside(writing) as producer:
                done = clients.load(bench.tools, broker, "drain", **drain)
                producer.wait(60)
    moved = done["bytes"] + how.records * how.size
    rate = done["bytes"] / done["seconds"] / 1e6
    return {"w6.consume": rate, "w6.cpu": watch.cpu_s / moved * GB}


def w7(s: float, *, cold: bool) -> list[Step]:
    """A reader that starts far behind while records keep coming; also with nothing of the backlog in memory."""
    warm = Step("w7", "backlog", backlog_figures("w7", "backlog"), run_w7, 2.5 + 2.5 * s)
    figures = backlog_figures("w7.cold", "backlog read from disk")
    return [warm, Step("w7", "cold backlog", figures, run_w7_cold, 4 + 3 * s)] if cold else [warm]


def backlog_figures(key: str, label: str) -> tuple[Figure, ...]:
    """How fast, and what it costs the broker."""
    return (
        Figure(f"{key}.consume", f"{label} drained while producing", "MB/s", True, 1.0),
        Figure(f"{key}.cpu", f"broker CPU, {label} drained", "s/GB", False, 1.0),
    )


def run_w7(bench: Bench, name: str) -> dict[str, float]:
    """With the backlog in the page cache, as far as it fits."""
    return drain_backlog(bench, name, "w7")


def run_w7_cold(bench: Bench, name: str) -> dict[str, float]:
    """With the page cache emptied before, which only root may do."""
    if not machine.may_empty_page_cache():
        raise Skip("only root may empty the page cache")
    return drain_backlog(bench, name, "w7.cold", cold=True)


def drain_backlog(bench: Bench, name: str, key: str, *, cold: bool = False) -> dict[str, float]:
    """5,000 records/s go on being written, by the load generator: librdkafka's program takes most of a core to keep that pace."""
    broker, count = bench.broker(name), bench.scale.backlog
    with bench.topic(broker, 16) as places:
        topic = places[0].topic
        clients.produce(bench.tools, broker, topic, Sending(count, 1024))
        if cold:
            machine.empty_page_cache()
        file = bench.produce_file(places, GOING_ON)
        pace = {"connections": 1, "depth": 16, "rate": 1_000, "seconds": GOING_ON_S}
        with (
            clients.beside(clients.loadgen(bench.tools, broker, "requests", produce=file, **pace)),
            bench.watch(broker, key) as watch,
        ):
            done = clients.consume(bench.tools, broker, topic, 16, count)
    return {f"{key}.consume": done.mb_s, f"{key}.cpu": watch.cpu_s / done.payload * GB}
