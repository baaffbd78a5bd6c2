"""Load on a real cluster: one who writes numbers, one who reads along, and Jepsen's checks of what both were told.

The history is judged by `barnabas.sim.history`, as that of simulated clusters is: one checker for both.
"""

import contextlib
import threading
import time
from itertools import count

from cluster_kit import CLIENT, PATIENCE_S, wait_until
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from process_kit import end_thread

from barnabas.sim.history import History, Outcome, Poll, Send

#: Some hundred records a second: always some under way, in few requests, for brokers that share two cores with all other tests.
BURST = 12
PAUSE_S = 0.02
#: So that how long a partition was without an acknowledgement says as much of the brokers and as little of the client as can be set.
IMPATIENT = {"retry.backoff.ms": 50, "retry.backoff.max.ms": 100, "reconnect.backoff.max.ms": 100}


class Load:
    """An idempotent producer with acks=all that sends numbers until told to stop, and what it was told of them.

    `timeout_s`: when it gives up a request that nobody answers, and tries again.
    """

    def __init__(self, cluster, topic, timeout_s=60):
        self._cluster = cluster
        self._topic = topic
        self._partitions = len(cluster.partitions(topic))
        self._timeout_s = timeout_s
        self.history = History()
        self.acked = {}
        self.failed = []
        self._last_ack_s = {}
        self._longest_gap_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._reader = _Reader(cluster, topic, self._partitions, self.history)

    def __enter__(self):
        self._thread.start()
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        end_thread(self._thread, "the producer")
        self._reader.finish()

    def _run(self):
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True, "linger.ms": 1,
                "message.timeout.ms": PATIENCE_S * 1000, "socket.timeout.ms": self._timeout_s * 1000,
                **IMPATIENT, **CLIENT,
            }
        )  # fmt: skip
        for number in count():
            if number % BURST == 0:
                producer.poll(0)
                if self._stop.wait(PAUSE_S):
                    break
            producer.produce(
                self._topic,
                str(number).encode(),
                partition=number % self._partitions,
                callback=self._told,
            )
        producer.flush(PATIENCE_S)

    def _told(self, error, message):
        now_s, partition = time.monotonic(), message.partition()
        gap_s = now_s - self._last_ack_s.get(partition, now_s)
        self._longest_gap_s = max(self._longest_gap_s, gap_s)
        self._last_ack_s[partition] = now_s
        number, key = int(message.value()), (self._topic, partition)
        if error is None:
            # None of a repeated batch that the broker knows it has, and no longer where.
            self.acked[number] = (partition, message.offset())
            self.history.add("producer", Send(key, message.value(), message.offset()))
        else:
            self.failed.append((number, str(error)))
            self.history.add("producer", Send(key, message.value()), outcome=Outcome.INFO)

    def wait_for_more(self, more=100):
        """Wait until so many more are acknowledged."""
        target = len(self.acked) + more
        wait_until(lambda: len(self.acked) >= target, "more is acknowledged")

    def wait_for_more_of_each(self, more=20):
        """Wait until so many more of each partition are acknowledged."""
        before = [len(self.of(index)) for index in range(self._partitions)]
        wait_until(
            lambda: all(len(self.of(at)) >= had + more for at, had in enumerate(before)),
            "more of each partition is acknowledged",
        )

    def of(self, partition):
        """Offsets of one partition that were acknowledged, as far as they were told."""
        told = [at[1] for at in list(self.acked.values()) if at[0] == partition]
        return [offset for offset in told if offset is not None]

    def take_longest_gap(self):
        """Return for how many seconds nothing of a partition was acknowledged, at most, since this was last asked."""
        gap_s, self._longest_gap_s = self._longest_gap_s, 0.0
        return gap_s


class _Reader:
    """Reads every partition from its start on, whoever leads, and goes nowhere else."""

    def __init__(self, cluster, topic, partitions, history):
        self._history = history
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap, "group.id": "along", "enable.auto.commit": False,
                "auto.offset.reset": "error", **CLIENT,
            }
        )  # fmt: skip
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self.lost_its_place = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()

    def finish(self):
        self._stop.set()
        end_thread(self._thread, "the consumer")
        self._consumer.close()
        assert not self.lost_its_place, self.lost_its_place[:3]

    def _run(self):
        while not self._stop.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                error = message.error()
                if error is None:
                    note(self._history, "reader", message)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.lost_its_place.append(str(error))


def note(history, process, message):
    """Note a record that was polled, if it is the load's: others write numbers below zero."""
    if int(message.value()) >= 0:
        key = (message.topic(), message.partition())
        history.add(process, Poll(key, ((message.offset(), message.value()),)))


def messages_of(cluster, topic):
    """Every record; in each partition from its start to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            **CLIENT,
        }
    )
    with contextlib.closing(consumer):
        for partition in range(len(cluster.partitions(topic))):
            where = TopicPartition(topic, partition)
            start, end = consumer.get_watermark_offsets(where, timeout=PATIENCE_S)
            consumer.assign([TopicPartition(topic, partition, start)])
            position = start
            while position < end:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, f"{topic}-{partition}: nothing at {position} of {end}"
                assert message.error() is None, message.error()
                yield message
                position = message.offset() + 1


def assert_nothing_lost(cluster, topic, load):
    """Every acknowledged record is where it was said to be, once, in order, and whoever read along saw the same."""
    assert not load.failed, load.failed[:3]
    for message in messages_of(cluster, topic):
        note(load.history, "auditor", message)
    found = load.history.anomalies(all_was_read=True)
    assert not found, f"{len(found)} anomalies: {found[:5]}"
    assert load.acked
