"""A cluster: machines that share virtual time, a ZooKeeper and a network.

Job: build them. Decides nothing about what happens to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.sim.machine import Machine
from barnabas.sim.network import Network
from barnabas.sim.store import SimStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.node import Node
    from barnabas.sim.world import Scheduler

#: All times are short, so that a run of some seconds sees sessions expire, replicas fall behind and leaders come home.
SETTINGS: Final = {
    "log.dirs": "/data",
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "1500",
    "controller.socket.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "450",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1000",
    "controlled.shutdown.max.retries": "2",
    "controlled.shutdown.retry.backoff.ms": "200",
    "leader.imbalance.check.interval.seconds": "2",
}


class Cluster:
    """The parts, by the brokers' ids."""

    def __init__(
        self,
        scheduler: Scheduler,
        broker_count: int,
        node_class: type[Node],
        settings: Mapping[str, str],
    ) -> None:
        """Build everything, switched off."""
        self.scheduler = scheduler
        self.store = SimStore()
        self.machines: dict[int, Machine] = {}
        self.networks: dict[int, Network] = {}
        routes: dict[str, Network] = {}
        for broker in range(1, broker_count + 1):
            config = BrokerConfig({**SETTINGS, **settings, "broker.id": str(broker)})
            machine = Machine(
                scheduler, config, node_class, name=f"b{broker}", store=self.store, routes=routes
            )
            self.machines[broker] = machine
            self.networks[broker] = routes[machine.host] = Network(scheduler, machine)
