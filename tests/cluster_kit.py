"""A cluster of real broker processes on a real ZooKeeper, and a load that tells whether anything was lost."""

import contextlib
import signal
import threading
import time
from pathlib import Path

from chaos.wire_kit import BrokerProcess, RawClient
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

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
    """Brokers 1 to `count`; each keeps its port and directory over its lives."""

    def __init__(self, folder, zookeeper, count=3, settings=()):
        self.folder = Path(folder)
        self.zookeeper = zookeeper
        self.settings = settings
        self.brokers = {}
        self._ports = {}
        #: Those that do not answer.
        self._silent = set()
        for broker_id in range(1, count + 1):
            self.start(broker_id)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})
        wait_until(lambda: len(self.metadata().brokers) == count, "all brokers are known")

    def start(self, broker_id):
        """Begin a life of a broker."""
        listen = f"127.0.0.1:{self._ports.get(broker_id, 0)}"
        settings = [
            f"node.id={broker_id}",
            f"zookeeper.connect={self.zookeeper}",
            f"zookeeper.session.timeout.ms={SESSION_MS}",
            *self.settings,
        ]
        broker = BrokerProcess(
            self.folder / f"broker-{broker_id}", listen=(listen,), settings=settings
        )
        self._ports[broker_id] = int(broker.bootstrap.rpartition(":")[2])
        self.brokers[broker_id] = broker
        self._silent.discard(broker_id)
        return broker

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

    def resume(self, broker_id):
        self.brokers[broker_id].process.send_signal(signal.SIGCONT)
        self._silent.discard(broker_id)

    def ask(self, request, version, broker_id=None):
        """Ask one broker, or any that answers."""
        if broker_id is None:
            broker_id = next(each for each in self.brokers if each not in self._silent)
        with RawClient(self.address_of(broker_id)) as client:
            return client.ask(request, version)

    def create(self, topic, assignment, **configs):
        """Create a topic with these replica lists."""
        new = NewTopic(
            topic, len(assignment), replica_assignment=assignment,
            config={name.replace("_", "."): str(value) for name, value in configs.items()},
        )  # fmt: skip
        self.admin.create_topics([new])[topic].result(PATIENCE_S)

    def metadata(self, topic=None):
        topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
        return self.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)

    @property
    def controller(self):
        return self.metadata().controller_id

    def partitions(self, topic):
        """Leader and in-sync set of each partition, in order."""
        found = sorted(self.metadata(topic).topics[0].partitions, key=lambda p: p.partition_index)
        return [(each.leader_id, sorted(each.isr_nodes)) for each in found]

    def leaders(self, topic):
        return [leader for leader, _ in self.partitions(topic)]

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
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

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
    found = read_all(cluster, topic)
    lost = {n: at for n, at in load.acked.items() if at[1] >= 0 and found.get(at) != n}
    assert not lost, f"{len(lost)} of {len(load.acked)} lost: {dict(list(lost.items())[:5])}"
    numbers = list(found.values())
    assert len(numbers) == len(set(numbers)), "records are there twice"
    assert set(load.acked) <= set(numbers)
    for partition in {at[0] for at in found}:
        order = [n for at, n in sorted(found.items()) if at[0] == partition]
        assert order == sorted(order), f"{topic}-{partition} is out of order"
