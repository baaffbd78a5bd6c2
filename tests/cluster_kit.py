"""A cluster of real broker processes on a real ZooKeeper, and a load that tells whether anything was lost."""

import contextlib
import hashlib
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from chaos.wire_kit import BrokerProcess, ClosedByPeer, RawClient
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from process_kit import end_thread
from tcp_proxy import TcpProxy

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


class Cluster:
    """Brokers 1 to `count`; each keeps its port and directory over its lives. `{id}` in a setting is the broker's id.

    With `has_proxies` each reaches ZooKeeper through `to_zookeeper[id]`, and is reached by other brokers, not by clients,
    through `to_broker[id]`.
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
        if has_proxies:
            server = zookeeper.partition("/")[0]
            for broker_id in range(1, count + 1):
                self.to_zookeeper[broker_id] = TcpProxy(server)
                self.to_broker[broker_id] = TcpProxy()
        self._ports = {}
        #: Those that do not answer.
        self._silent = set()
        for broker_id in range(1, count + 1):
            self.start(broker_id)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})
        wait_until(lambda: len(self.metadata().brokers) == count, "all brokers are known")

    def start(self, broker_id):
        """Begin a life of a broker."""
        listen = [f"127.0.0.1:{self._ports.get(broker_id, 0)}"]
        settings = [
            f"node.id={broker_id}",
            f"zookeeper.connect={self._zookeeper_of(broker_id)}",
            f"zookeeper.session.timeout.ms={SESSION_MS}",
            *[each.replace("{id}", str(broker_id)) for each in self.settings],
        ]
        proxy = self.to_broker.get(broker_id)
        if proxy is not None:
            listen.append("INTERNAL://127.0.0.1:0")
            settings += [
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
                "inter.broker.listener.name=INTERNAL",
                f"advertised.listeners=INTERNAL://{proxy.address}",
            ]
        broker = BrokerProcess(
            ",".join(map(str, self.directories_of(broker_id))),
            listen=listen,
            settings=settings,
            log_dir=self.folder,
        )
        if proxy is not None:
            proxy.aim(broker.addresses[1])
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

    def ask(self, request, version, broker_id=None):
        """Ask one broker, or any that answers."""
        if broker_id is None:
            broker_id = next(each for each in self.brokers if each not in self._silent)
        with RawClient(self.address_of(broker_id)) as client:
            return client.ask(request, version)

    def ask_controller(self, request, version):
        """Ask whoever is controller, once one is known."""
        wait_until(lambda: self.controller > 0, "there is a controller")
        return self.ask(request, version, self.controller)

    def create(self, topic, assignment, **configs):
        """Create a topic with these replica lists."""
        new = NewTopic(
            topic, len(assignment), replica_assignment=assignment,
            config={name.replace("_", "."): str(value) for name, value in configs.items()},
        )  # fmt: skip
        self.admin.create_topics([new])[topic].result(PATIENCE_S)

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

    def is_healthy(self, topic, replicas=3):
        return all(leader > 0 and len(isr) == replicas for leader, isr in self.partitions(topic))

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
        for proxy in (*self.to_zookeeper.values(), *self.to_broker.values()):
            proxy.close()
        if failure[0] is None:
            for broker in self.brokers.values():
                assert "Traceback" not in broker.log, broker.log[-6000:]


class Load:
    """An idempotent producer with acks=all that sends numbers until told to stop, and what it was told of them."""

    def __init__(self, cluster, topic):
        self._cluster = cluster
        self._topic = topic
        self._partitions = len(cluster.partitions(topic))
        self.acked = {}
        self.failed = []
        self._last_ack = time.monotonic()
        self._longest_gap = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        end_thread(self._thread, "the producer")

    def _run(self):
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True, "linger.ms": 1,
                "message.timeout.ms": PATIENCE_S * 1000, **CLIENT,
            }
        )  # fmt: skip
        number = 0
        while not self._stop.is_set():
            producer.produce(
                self._topic,
                str(number).encode(),
                partition=number % self._partitions,
                callback=self._told,
            )
            number += 1
            producer.poll(0.002)
        producer.flush(PATIENCE_S)

    def _told(self, error, message):
        now = time.monotonic()
        self._longest_gap = max(self._longest_gap, now - self._last_ack)
        self._last_ack = now
        if error is None:
            self.acked[int(message.value())] = (message.partition(), message.offset())
        else:
            self.failed.append((int(message.value()), str(error)))

    def wait_for_more(self, count=100):
        """Wait until so many more are acknowledged."""
        target = len(self.acked) + count
        wait_until(lambda: len(self.acked) >= target, "more is acknowledged")

    def of(self, partition):
        """Offsets of one partition that were acknowledged."""
        return [at[1] for at in list(self.acked.values()) if at[0] == partition]

    def take_longest_gap(self):
        """Return for how many seconds nothing was acknowledged, at most, since this was last asked."""
        gap, self._longest_gap = self._longest_gap, 0.0
        return gap


def read_all(cluster, topic):
    """Every record, as (partition, offset) -> number; in each partition from its start to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            **CLIENT,
        }
    )
    found = {}
    for partition in range(len(cluster.partitions(topic))):
        where = TopicPartition(topic, partition)
        start, end = consumer.get_watermark_offsets(where, timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, partition, start)])
        position = start
        while position < end:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic}-{partition}: nothing at {position} of {end}"
            assert message.error() is None, message.error()
            found[partition, message.offset()] = int(message.value())
            position = message.offset() + 1
    consumer.close()
    return found


def assert_nothing_lost(cluster, topic, load):
    """Every acknowledged record is where it was said to be, once, in order."""
    assert not load.failed, load.failed[:3]
    # Others write numbers below zero.
    found = {at: number for at, number in read_all(cluster, topic).items() if number >= 0}
    lost = {n: at for n, at in load.acked.items() if at[1] >= 0 and found.get(at) != n}
    assert not lost, f"{len(lost)} of {len(load.acked)} lost: {dict(list(lost.items())[:5])}"
    numbers = list(found.values())
    assert len(numbers) == len(set(numbers)), "records are there twice"
    assert set(load.acked) <= set(numbers)
    for partition in {at[0] for at in found}:
        order = [n for at, n in sorted(found.items()) if at[0] == partition]
        assert order == sorted(order), f"{topic}-{partition} is out of order"


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
