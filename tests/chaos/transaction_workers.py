"""Clients that work in transactions until they are told to stop, whatever happens to brokers, and what must hold of their work."""

import threading
import uuid
from itertools import count

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TIMEOUT_S = 60


class Worker:
    """Runs one transaction after another on a thread of its own; after an error that it cannot abort, as a new producer."""

    def __init__(self, address, name):
        self.address = address
        self.name = name
        self.done = 0
        self.failure = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        return self

    def finish(self):
        self._stopping.set()
        self._thread.join(2 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        assert self.failure is None, self.failure

    def _run(self):
        try:
            while not self._stopping.is_set():
                try:
                    self._live()
                except KafkaException:
                    continue  # the transaction's fate is open: the next producer of this name decides it
        except BaseException as failure:  # told by `finish`
            self.failure = failure
            raise

    def _live(self):
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "transactional.id": self.name,
                "transaction.timeout.ms": 10_000,
                # While no broker answers, librdkafka 2.16 begins anew from its bootstrap servers, and may then wait a minute
                # for the connection of a broker that it has given up, before it looks for a group's coordinator again.
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        while not self._stopping.is_set():
            try:
                self.step(producer)
            except KafkaException as problem:
                if not problem.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(TIMEOUT_S)
            else:
                self.done += 1


class Teller(Worker):
    """Moves money: one record on each account, or none; every fourth time it thinks better of it."""

    def __init__(self, address, name):
        super().__init__(address, name)
        self.committed, self.aborted = set(), set()
        self._numbers = count()

    def step(self, producer):
        number = next(self._numbers)
        tag = f"{self.name}:{number}"
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("accounts", tag, partition=partition)
        if number % 4 == 3:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            self.aborted.add(tag)
        else:
            producer.commit_transaction(TIMEOUT_S)
            self.committed.add(tag)


class Copier(Worker):
    """Reads, transforms, writes; the offsets are part of the transaction."""

    def step(self, producer):
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        try:
            place = TopicPartition("in", 0)
            (known,) = consumer.committed([place], TIMEOUT_S)
            if known.error is not None:
                raise KafkaException(known.error)
            first = max(known.offset, 0)
            consumer.assign([TopicPartition("in", 0, first)])
            messages = [one for one in consumer.consume(20, 1) if one.error() is None]
            if not messages:
                return
            producer.begin_transaction()
            for message in messages:
                producer.produce("out", message.value(), partition=0)
            position = TopicPartition("in", 0, messages[-1].offset() + 1)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([position], metadata, TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S)
        finally:
            consumer.close()


def read_committed(address, topic, partition):
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append(message.value().decode())
    assert message is not None, "the end was not reached: a transaction hangs"
    consumer.close()
    return found


def send_inputs(address, count):
    """Give the copier something to copy."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(count):
        producer.produce("in", str(number), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def check(address, tellers, inputs):
    """All of each transaction or nothing, once, and what was told stays true."""
    one, other = (read_committed(address, "accounts", partition) for partition in (0, 1))
    assert sorted(one) == sorted(other), "a transfer is torn"
    assert len(set(one)) == len(one), "a transfer is there twice"
    for teller in tellers:
        assert teller.committed <= set(one), "a committed transfer is lost"
        assert not teller.aborted & set(one), "an aborted transfer is seen"
        assert teller.aborted
    copies = [int(value) for value in read_committed(address, "out", 0)]
    assert copies == list(range(inputs)), "an input is lost, or there twice"
