"""A cluster of real broker processes on a real ZooKeeper; `load_kit` puts load on it and tells whether anything was lost."""

import contextlib
import hashlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from chaos.wire_kit import BrokerProcess, ClosedByPeer, RawClient
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tcp_proxy import TcpProxy

from barnabas.runtime.lasting_port import lasting_port
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

#: How long `make chaos` goes on; 0 in `make test`, which has only what is quick and finds most.
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "0"))
only_in_make_chaos = pytest.mark.skipif(not ROUNDS, reason="it takes long: make chaos")

SESSION_MS = 2000
PATIENCE_S = 60
#: Without this librdkafka may give up a broker that it cannot reach for a while, and wait a minute.
CLIENT = {"metadata.recovery.strategy": "none", "log_level": 2}


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Ask until it is so."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def brokers_known(admin):
    """Tell how many brokers a client knows of. One that has just started sends clients away until the controller has spoken to it."""
    try:
        return len(admin.list_topics(timeout=PATIENCE_S).brokers)
    except KafkaException:
        return 0


class Cluster:
    """Brokers 1 to `count`; each keeps its port and directory over its lives. `{id}` in a setting is the broker's id.

    With `has_proxies` each reaches ZooKeeper through `to_zookeeper[id]`, and is reached by other brokers through `to_broker[id]`, by
    clients that were told of it through `to_client[id]`. What the tests themselves ask goes straight.
    """

    def __init__(
        self, folder, zookeeper, count=3, settings=(), *, directories=1, has_proxies=False
    ):
        self.folder = Path(folder)
        self._directories = directories
        self.zookeeper = zookeeper
        self.settings = settings
        self.brokers = {}
        self.to_zookeeper = {}
        self.to_broker = {}
        self.to_client = {}
        if has_proxies:
            server = zookeeper.partition("/")[0]
            for broker_id in range(1, count + 1):
                self.to_zookeeper[broker_id] = TcpProxy(server)
                self.to_broker[broker_id] = TcpProxy()
                self.to_client[broker_id] = TcpProxy()
        self._ports = {}
        #: Those that do not answer.
        self._silent = set()
        for broker_id in range(1, count + 1):
            self.start(broker_id)
        wait_until(
            lambda: all(len(self.metadata(broker_id=each).brokers) == count for each in self.answering),
            "all brokers know of each other",
        )  # fmt: skip

    def start(self, broker_id):
        """Begin a life of a broker."""
        listen = [f"127.0.0.1:{self._ports.get(broker_id) or lasting_port('127.0.0.1')}"]
        settings = [
            f"node.id={broker_id}",
            f"zookeeper.connect={self._zookeeper_of(broker_id)}",
            f"zookeeper.session.timeout.ms={SESSION_MS}",
            "offsets.topic.num.partitions=5",
            *[each.replace("{id}", str(broker_id)) for each in self.settings],
        ]
        proxy = self.to_broker.get(broker_id)
        if proxy is not None:
            listen.append("INTERNAL://127.0.0.1:0")
            settings += [
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
                "inter.broker.listener.name=INTERNAL",
                f"advertised.listeners=PLAINTEXT://{self.to_client[broker_id].address},INTERNAL://{proxy.address}",
            ]
        broker = BrokerProcess(
            ",".join(map(str, self.directories_of(broker_id))),
            listen=listen,
            settings=settings,
            log_dir=self.folder,
        )
        if proxy is not None:
            proxy.aim(broker.addresses[1])
            self.to_client[broker_id].aim(broker.bootstrap)
        self._ports[broker_id] = int(broker.bootstrap.rpartition(":")[2])
        self.brokers[broker_id] = broker
        self._silent.discard(broker_id)
        return broker

    def directories_of(self, broker_id):
        """Where a broker has its logs."""
        return [
            self.folder / f"broker-{broker_id}-disk-{number}" for number in range(self._directories)
        ]

    def _zookeeper_of(self, broker_id):
        proxy = self.to_zookeeper.get(broker_id)
        if proxy is None:
            return self.zookeeper
        return proxy.address + "/" + self.zookeeper.partition("/")[2]

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def address_of(self, broker_id):
        return f"127.0.0.1:{self._ports[broker_id]}"

    def kill(self, broker_id):
        """No goodbye."""
        self._silent.add(broker_id)
        self.brokers[broker_id].kill()

    def stop(self, broker_id):
        """Ask it to stop; it hands over what it leads."""
        self._silent.add(broker_id)
        assert self.brokers[broker_id].terminate() == 0

    def pause(self, broker_id):
        self._silent.add(broker_id)
        self.brokers[broker_id].process.send_signal(signal.SIGSTOP)

    def wipe(self, broker_id):
        """Give one that was killed an empty disk."""
        for directory in self.directories_of(broker_id):
            shutil.rmtree(directory)

    def resume(self, broker_id):
        self.brokers[broker_id].process.send_signal(signal.SIGCONT)
        self._silent.discard(broker_id)

    @property
    def answering(self):
        """Brokers that answer. What the controller tells reaches one after the other: who asks any of them waits for all."""
        return [broker_id for broker_id in self.brokers if broker_id not in self._silent]

    def ask(self, request, version, broker_id=None):
        """Ask one broker, or any that answers."""
        if broker_id is None:
            broker_id = self.answering[0]
        with RawClient(self.address_of(broker_id)) as client:
            return client.ask(request, version)

    def ask_controller(self, request, version):
        """Ask whoever is controller, once one is known."""
        wait_until(lambda: self.controller > 0, "there is a controller")
        return self.ask(request, version, self.controller)

    def admin(self):
        """Make one that has never heard of brokers' former lives."""
        return AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})

    def create(self, topic, assignment, **configs):
        """Create a topic with these replica lists; return when everybody knows who leads, and who leads serves it."""
        new = NewTopic(
            topic, len(assignment), replica_assignment=assignment,
            config={name.replace("_", "."): str(value) for name, value in configs.items()},
        )  # fmt: skip
        admin = self.admin()
        admin.create_topics([new])[topic].result(PATIENCE_S)
        # That was the controller's answer: the others hear of it, and take their roles, a moment later.
        wait_until(lambda: self._is_served(topic, len(assignment)), f"all know {topic}")

    def _is_served(self, topic, count):
        for each in self.answering:
            leaders = self.leaders(topic, each)
            if len(leaders) < count or -1 in leaders:
                return False
            if each in leaders:
                with RawClient(self.address_of(each)) as client:
                    led = [index for index, leader in enumerate(leaders) if leader == each]
                    if any(client.end_offset(topic, index) < 0 for index in led):
                        return False
        return True

    def metadata(self, topic=None, broker_id=None):
        topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answers = []

        def ask():
            # One that has just started sends clients away until the controller has spoken to it.
            with contextlib.suppress(ClosedByPeer):
                answers.append(self.ask(request, 12, broker_id))
            return answers

        wait_until(ask, "the controller has told it who is there")
        return answers[0]

    @property
    def controller(self):
        return self.metadata().controller_id

    def partitions(self, topic, broker_id=None):
        """Leader and in-sync set of each partition, in order, as one broker sees it, or any."""
        found = self.metadata(topic, broker_id).topics[0].partitions
        return [
            (each.leader_id, sorted(each.isr_nodes))
            for each in sorted(found, key=lambda p: p.partition_index)
        ]

    def leaders(self, topic, broker_id=None):
        return [leader for leader, _ in self.partitions(topic, broker_id)]

    def replicas(self, topic, broker_id=None):
        """Who has each partition, in order; the first is preferred."""
        found = self.metadata(topic, broker_id).topics[0].partitions
        return [each.replica_nodes for each in sorted(found, key=lambda p: p.partition_index)]

    def is_healthy(self, topic, replicas=3):
        """Tell whether every broker that answers says so. One that does not know the topic yet has no partitions to tell of."""
        views = (self.partitions(topic, each) for each in self.answering)
        return all(
            view and all(leader > 0 and len(isr) == replicas for leader, isr in view)
            for view in views
        )

    def wait_healthy(self, topic, replicas=3):
        wait_until(lambda: self.is_healthy(topic, replicas), f"{topic} is healthy")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        for broker in self.brokers.values():
            if broker.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    broker.process.send_signal(signal.SIGCONT)
                broker.kill()
        for proxies in (self.to_zookeeper, self.to_broker, self.to_client):
            for proxy in proxies.values():
                proxy.close()
        if failure[0] is None:
            for broker in self.brokers.values():
                assert "Traceback" not in broker.log, broker.log[-6000:]


def assert_logs_equal(cluster, topic):
    """Every broker of a topic at rest has the same bytes: batches, epochs, offsets."""
    wait_until(lambda: len(_digests(cluster, topic)) == 1, f"the logs of {topic} are equal")


def _digests(cluster, topic):
    """One for each way in which brokers have the topic."""
    return {
        tuple(
            (
                folder.name,
                hashlib.sha256(
                    b"".join(map(Path.read_bytes, sorted(folder.glob("*.log"))))
                ).hexdigest(),
            )
            for folder in sorted(_folders(cluster, broker_id, topic), key=lambda path: path.name)
        )
        for broker_id in cluster.brokers
    }


def _folders(cluster, broker_id, topic):
    found = [path for each in cluster.directories_of(broker_id) for path in each.glob(f"{topic}-*")]
    return [path for path in found if not path.name.endswith(("-delete", "-stray"))]
