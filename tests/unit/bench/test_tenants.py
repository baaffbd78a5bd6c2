"""Quotas as the benchmark sets and removes them, and what it asks of its greedy clients."""

from pathlib import Path
from types import SimpleNamespace

from bench.admin import Admin
from bench.workloads.tenants import QUOTAS, greedy_clients

import barnabas


def test_quotas_are_set_and_removed():
    with barnabas.Broker() as broker, Admin(int(broker.bootstrap.rpartition(":")[2])) as admin:
        admin.limit("c", {"producer_byte_rate": 5e6})
        (limits,) = [limits for _, limits in broker._broker.node.quotas.table.items()]
        assert limits == {"producer_byte_rate": 5e6}
        admin.limit("c", {"producer_byte_rate": None})
        assert not broker._broker.node.quotas.is_on


def test_the_greedy_ones_say_who_they_are():
    bench = SimpleNamespace(tools=SimpleNamespace(rdkafka_performance=Path("perf")))
    commands = greedy_clients(bench, SimpleNamespace(port=1), "t")
    for command, client_id in zip(commands, QUOTAS, strict=True):
        assert command[-1] == f"client.id={client_id}"
