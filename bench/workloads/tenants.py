"""Tenants: whether a quiet client notices greedy ones that have a quota.

One that writes and reads a little, at a fixed rate: alone, beside a producer and a consumer that take what they get, and beside the same two once each of them
has a quota. The figure is the p99 from when a record was due until its reader has it; what counts is its ratio to the quiet client alone, in the same run.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import clients
from bench.clients import Sending
from bench.figures import Figure
from bench.frames import Batch
from bench.plan import Step

if TYPE_CHECKING:
    from bench.brokers import Broker
    from bench.plan import Bench

QUIET = Batch(1, 1024)
QUIET_PER_S = 500
QUIET_CONNECTIONS = 4
PRODUCER, CONSUMER = "greedy-producer", "greedy-consumer"
QUOTAS = {
    PRODUCER: {"producer_byte_rate": 5e6},
    CONSUMER: {"consumer_byte_rate": 5e6},
}
ENDLESS = 10**9
"""Records: the greedy ones are stopped when enough was measured."""
NOTICED = 2.0


def tenants(s: float) -> list[Step]:
    """Three times the same load, on a broker that is theirs alone."""
    figures = (
        Figure("tenants.alone", "a quiet client alone, p99", "µs"),
        Figure("tenants.greedy", "… beside greedy ones without quotas, p99", "µs", detail=True),
        Figure("tenants.quotas", "… beside greedy ones with quotas, p99", "µs"),
        Figure("tenants.noticed", "p99 with quotas, over alone", "x", target=NOTICED, own=True),
    )
    return [Step("tenants", "quiet beside greedy", figures, run, 12 + 8 * s)]


def run(bench: Bench, name: str) -> dict[str, float]:
    """Measure alone, then beside the greedy ones; quotas are set while they run."""
    broker = bench.broker(name)
    with bench.topic(broker, 4) as greedy:
        alone = p99(bench, broker, "tenants.alone")
        topic = greedy[0].topic
        clients.produce(bench.tools, broker, topic, Sending(bench.scale.records_1k, 1024))
        with ExitStack() as stack:
            for command in greedy_clients(bench, broker, topic):
                stack.enter_context(clients.beside(command))
            beside = p99(bench, broker, "tenants.greedy")
            with broker.admin() as admin:
                for client_id, limits in QUOTAS.items():
                    admin.limit(client_id, limits)
            held = p99(bench, broker, "tenants.quotas")
        with broker.admin() as admin:
            for client_id, limits in QUOTAS.items():
                admin.limit(client_id, dict.fromkeys(limits))
    return {
        "tenants.alone": alone,
        "tenants.greedy": beside,
        "tenants.quotas": held,
        "tenants.noticed": held / alone,
    }


def greedy_clients(bench: Bench, broker: Broker, topic: str) -> list[list[str]]:
    """Give the commands of a producer and a consumer that take what they get."""
    writing = clients.producing(bench.tools, broker, topic, Sending(ENDLESS, 1024))
    reading = clients.consuming(bench.tools, broker, topic, 4, ENDLESS)
    return [
        [*writing, "-X", f"client.id={PRODUCER}"],
        [*reading, "-X", f"client.id={CONSUMER}"],
    ]


def p99(bench: Bench, broker: Broker, label: str) -> float:
    """Follow what the quiet client writes to a topic of its own; the first part is not counted."""
    seconds = 2 * bench.scale.seconds
    with bench.topic(broker, 4) as places:
        options = {
            "produce": bench.produce_file(places, QUIET),
            "fetch": bench.fetch_file(places),
            "rate": QUIET_PER_S,
            "producers": QUIET_CONNECTIONS,
            "seconds": seconds,
            "warmup": min(0.5, seconds / 4),
        }
        with bench.watch(broker, label):
            done = clients.load(bench.tools, broker, "follow", **options)
    found: float = done["end_to_end_us"]["p99"]
    return found
