"""Three brokers as one: the clusters that replication is measured on.

To a client a cluster is a broker that names others. Barnabas's has a ZooKeeper of its own, whose CPU and memory count like the brokers';
Apache Kafka's are combined KRaft nodes, each voter in the quorum. The session of a broker is as long in both.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tools import peers

from barnabas.runtime.zookeeper_server import make_ensemble
from bench import measure
from bench.admin import Admin, BrokerFailed
from bench.brokers import ApacheKafka, Barnabas, Broker, new_cluster_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from barnabas.runtime.zookeeper_server import ZooKeeperEnsemble

SIZE = 3
SESSION_MS = 6_000
"""How long a broker may be silent until others lead; Apache Kafka's own default is 9 s, Barnabas's 18 s as with Kafka 3.9."""
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
HEALTHY_LIMIT_S = 60
POLL_S = 0.05


class Cluster(Broker):
    """Brokers 1 to 3; as a broker it is the first of them."""

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None) -> None:
        """Start nothing yet."""
        super().__init__(home, settings)
        self.brokers: Sequence[Broker] = []
        self.is_warm = False

    def make(self) -> Sequence[Broker]:
        """Configure the brokers, and what they need to run."""
        raise NotImplementedError

    @property
    def others(self) -> list[int]:
        """Processes besides the brokers."""
        return []

    def start(
        self, ready: Callable[[Admin], bool] = lambda admin: admin.brokers() >= SIZE
    ) -> float:
        """Start all, and wait until each knows of all."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.brokers = self.make()
        self.port = self.brokers[0].port
        started = [broker.launch() for broker in self.brokers]
        for broker in self.brokers:
            broker.wait_until(ready, started[0])
        return time.monotonic() - started[0]

    @property
    def pid(self) -> int:
        """The first broker."""
        return self.brokers[0].pid

    @property
    def pids(self) -> list[int]:
        """All brokers, and what they need."""
        return [*(broker.pid for broker in self.brokers), *self.others]

    def memory(self) -> measure.Memory:
        """Resident memory of the brokers in sum."""
        found = [broker.memory() for broker in self.brokers]
        return measure.Memory(sum(one.now for one in found), sum(one.peak for one in found))

    def memory_of_others(self) -> float:
        """Resident memory of what the brokers need."""
        return sum(measure.memory(pid).now for pid in self.others)

    def admin(self) -> Admin:
        """Connect to the controller, which alone makes topics."""
        with Admin(self.port) as first:
            controller = first.controller()
        return Admin(self.brokers[controller - 1].port)

    def make_topic(self, name: str, replicas: Sequence[Sequence[int]]) -> None:
        """Make a topic with these replicas, and wait until all are in sync and every partition is writable."""
        with self.admin() as admin:
            admin.assign(name, replicas)
        self.wait_healthy(name, len(replicas[0]))
        for number, broker in enumerate(self.brokers, 1):
            led = {(name, i) for i, brokers in enumerate(replicas) if brokers[0] == number}
            if led:
                with Admin(broker.port) as admin:
                    admin.prime_places(led)

    def wait_healthy(self, name: str, in_sync: int) -> None:
        """Wait until every broker says that so many are in sync for each partition of a topic."""
        deadline = time.monotonic() + HEALTHY_LIMIT_S
        for broker in self.brokers:
            while not self._sees(broker, name, in_sync):
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{name} has not {in_sync} replicas in sync")
                time.sleep(POLL_S)

    def _sees(self, broker: Broker, name: str, in_sync: int) -> bool:
        with suppress(OSError, BrokerFailed), Admin(broker.port) as admin:
            return admin.in_sync(name) >= in_sync
        return False

    def stop(self) -> None:
        """Stop at once: what it stored is not needed."""
        self.kill()

    def kill(self) -> None:
        """Stop all."""
        for broker in self.brokers:
            broker.kill()


class BarnabasCluster(Cluster):
    """Three Barnabas brokers and a ZooKeeper."""

    name = "barnabas"
    _zookeeper: ZooKeeperEnsemble | None = None

    def make(self) -> Sequence[Broker]:
        """Start ZooKeeper."""
        jars = peers.zookeeper_lib()
        if jars is None:
            raise BrokerFailed(f"no ZooKeeper: {peers.reason()}")
        self._zookeeper = make_ensemble(
            str(self.home / "zookeeper"), ("127.0.0.1", 0), jars=str(jars)
        )
        self._zookeeper.start()
        common = {
            **REPLICATED,
            "zookeeper.connect": self._zookeeper.connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            **self.settings,
        }
        return [
            Barnabas(self.home / str(number), {"node.id": str(number), **common})
            for number in range(1, SIZE + 1)
        ]

    @property
    def others(self) -> list[int]:
        """ZooKeeper."""
        assert self._zookeeper is not None
        return [server.process.pid for server in self._zookeeper.servers if server.process]

    def kill(self) -> None:
        """Stop ZooKeeper, too."""
        super().kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()


class KafkaCluster(Cluster):
    """Three combined nodes of Apache Kafka."""

    name = "kafka"

    def make(self) -> Sequence[Broker]:
        """Let every node know the controllers of all."""
        nodes = [ApacheKafka(self.home / str(number)) for number in range(1, SIZE + 1)]
        voters = ",".join(
            f"{number}@127.0.0.1:{node.other_port}" for number, node in enumerate(nodes, 1)
        )
        cluster_id = new_cluster_id()
        for number, node in enumerate(nodes, 1):
            node.cluster_id = cluster_id
            node.settings = {
                **REPLICATED,
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "broker.session.timeout.ms": str(SESSION_MS),
                **self.settings,
            }
        return nodes


CLUSTERS: dict[str, type[Cluster]] = {"barnabas": BarnabasCluster, "kafka": KafkaCluster}
