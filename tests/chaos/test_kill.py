"""F1: kill -9, again and again, on the same directory: what was acknowledged is there, in order, once."""

import threading
import time
from itertools import count

import pytest
from chaos.wire_kit import BrokerProcess, RawClient, batch, eventually, reserved_address
from cluster_kit import ROUNDS as LONG_ROUNDS
from confluent_kafka import KafkaException, Producer
from process_kit import end_thread

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest

ROUNDS = 50 if LONG_ROUNDS else 15
ACKED_PER_ROUND = 200
READY_S = 20
TOPIC = "t"
#: Enough for several segments over all rounds.
VALUE_BYTES = 400


class Feed:
    """An idempotent librdkafka producer on a thread of its own, that never stops while brokers come and go."""

    def __init__(self):
        self.acked = []
        self.failed = []
        self._stopping = threading.Event()

    def start(self, bootstrap, first):
        """Produce numbers from `first` on."""
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "message.timeout.ms": 120_000,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(first,), daemon=True)
        self._thread.start()

    def _run(self, first):
        for number in count(first):
            if self._stopping.is_set():
                return
            try:
                self._producer.produce(
                    TOPIC,
                    (b"%d" % number).ljust(VALUE_BYTES),
                    partition=0,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.01)
                continue
            self.last = number
            self._producer.poll(0)
            if number % 50 == 49:
                self._stopping.wait(0.001)

    def _delivered(self, error, message):
        if error is None:
            self.acked.append((message.offset(), int(message.value())))
        else:
            self.failed.append((int(message.value()), error))

    def finish(self):
        """Stop and see everything delivered."""
        self._stopping.set()
        end_thread(self._thread, "the producer")
        assert self._producer.flush(60) == 0

    def abandon(self):
        """Stop; what is under way may or may not have been written."""
        self._stopping.set()
        end_thread(self._thread, "the producer")
        self._producer.purge()
        self._producer.flush(10)


def check_log(client, acked):
    """Every acknowledged record where the producer was told it is; none twice; numbers never go back."""
    found = client.read_all(TOPIC)
    offsets = [offset for offset, _ in found]
    assert offsets == list(range(len(found))), "offsets have gaps"
    values = [int(value) for _, value in found]
    assert len(set(values)) == len(values), "a record is there twice"
    assert values == sorted(values), "records changed their order"
    by_offset = dict(zip(offsets, values, strict=True))
    lost = [(offset, value) for offset, value in acked if by_offset.get(offset) != value]
    assert not lost, f"{len(lost)} acknowledged records are lost or elsewhere, first {lost[:5]}"


@pytest.mark.slow
def test_kill_in_the_middle_of_produce_again_and_again(tmp_path):
    """A new idempotent producer in each round; numbers go on, so that one read tells about all rounds."""
    data, acked, first, slowest_s = tmp_path / "data", [], 0, 0.0
    settings = ("log.segment.bytes=1048576", "log.flush.offset.checkpoint.interval.ms=200")
    for number in range(ROUNDS):
        started_s = time.monotonic()
        with BrokerProcess(data, settings=settings) as broker:
            slowest_s = max(slowest_s, time.monotonic() - started_s)
            with RawClient(broker.bootstrap) as client:
                if number == 0:
                    assert client.create_topic(TOPIC).error_code == 0
                if number % 5 == 0:
                    check_log(client, acked)
            feed = Feed()
            feed.start(broker.bootstrap, first)
            eventually(lambda feed=feed: len(feed.acked) >= ACKED_PER_ROUND, "acknowledgements")
            broker.kill()
            feed.abandon()
            acked += feed.acked
            first = feed.last + 1
    with BrokerProcess(data) as broker, RawClient(broker.bootstrap) as client:
        check_log(client, acked)
        assert broker.terminate() == 0
    assert len(acked) >= ROUNDS * ACKED_PER_ROUND
    assert slowest_s < READY_S


def test_one_producer_outlives_the_brokers(tmp_path):
    """The same producer, its retries and sequences, over ten lives of the broker on the same port."""
    data, feed = tmp_path / "data", Feed()
    with reserved_address() as address:
        with BrokerProcess(data, listen=(address,)) as broker:
            with RawClient(address) as client:
                assert client.create_topic(TOPIC).error_code == 0
            feed.start(address, 0)
            eventually(lambda: len(feed.acked) >= 100, "acknowledgements")
            broker.kill()
        for _ in range(10):
            with BrokerProcess(data, listen=(address,)) as broker:
                goal = len(feed.acked) + 100
                eventually(lambda goal=goal: len(feed.acked) >= goal, "acknowledgements")
                broker.kill()
        with BrokerProcess(data, listen=(address,)) as broker:
            feed.finish()
            assert not feed.failed, feed.failed[:3]
            with RawClient(address) as client:
                check_log(client, feed.acked)
                assert client.end_offset(TOPIC) == len(feed.acked)
            assert broker.terminate() == 0


class Storm:
    """Creates and deletes topics until its connection is lost; remembers what it was told."""

    def __init__(self, bootstrap, round_number):
        self.created, self.deleted, self.unsure = set(), set(), set()
        self.done = 0
        self._bootstrap = bootstrap
        self._round = round_number
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with RawClient(self._bootstrap) as client:
            for number in count():
                name = f"r{self._round}-{number}"
                try:
                    self._one(client, name, number)
                except (AssertionError, OSError):
                    self.unsure.add(name)
                    return
                self.done += 1

    def _one(self, client, name, number):
        topic = CreatableTopic(name=name, num_partitions=number % 3 + 1, replication_factor=1)
        answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert answer.topics[0].error_code == 0
        self.created.add(name)
        if number % 2:
            state = DeleteTopicState(name=name)
            deletion = DeleteTopicsRequest(topics=[state], timeout_ms=10_000)
            self.unsure.add(name)
            assert client.ask(deletion, 6).responses[0].error_code == 0
            self.unsure.discard(name)
            self.created.discard(name)
            self.deleted.add(name)

    def join(self):
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_kill_in_a_storm_of_topics_leaves_each_whole_or_gone(tmp_path):
    data, storms = tmp_path / "data", []
    for round_number in range(8):
        with BrokerProcess(data) as broker:
            check_topics(broker.bootstrap, storms)
            storm = Storm(broker.bootstrap, round_number)
            eventually(lambda storm=storm, least=6 + round_number: storm.done >= least, "topics")
            broker.kill()
            storm.join()
            storms.append(storm)
    with BrokerProcess(data) as broker:
        check_topics(broker.bootstrap, storms)
        assert broker.terminate() == 0
    with BrokerProcess(data) as broker:
        check_topics(broker.bootstrap, storms)
        assert "cut" not in broker.log


def check_topics(bootstrap, storms):
    """A topic that is shown is usable, all its partitions; one that is not can be created anew."""
    with RawClient(bootstrap) as client:
        shown = {each.name: each for each in client.ask(MetadataRequest(topics=None), 9).topics}
        for storm in storms:
            assert storm.created - storm.unsure <= shown.keys(), "a created topic is gone"
            assert not storm.deleted & shown.keys(), "a deleted topic came back"
        for name, topic in shown.items():
            number = int(name.split("-")[1])
            assert len(topic.partitions) == number % 3 + 1, "a topic lost partitions"
            for partition in topic.partitions:
                assert partition.error_code == 0
                answer = client.produce(name, batch(b"v"), partition=partition.partition_index)
                assert answer.error_code == 0, (name, ErrorCode(answer.error_code))


def test_the_feed_needs_a_broker():
    """The checks above can fail: without a broker nothing is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 1, "log_level": 0}
    )
    outcome = []
    try:
        producer.produce(TOPIC, b"v", on_delivery=lambda error, _message: outcome.append(error))
        producer.flush(10)
    except KafkaException as problem:
        outcome.append(problem)
    assert outcome
    assert outcome[0] is not None
