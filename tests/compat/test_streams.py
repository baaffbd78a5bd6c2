"""Kafka Streams with `exactly_once_v2`: a word count whose broker and whose own process are killed (-9) again and again.

Every count of every word is written, so the output tells all: for each word 1, 2, 3, ... up to its number in the input, once each. The
application is java/streams/WordCount.java.
"""

import subprocess
import threading
import uuid
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import peers
import pytest
from chaos.wire_kit import BrokerProcess, RawClient, eventually, reserved_address
from compat.conftest import needed
from confluent_kafka import Consumer, Producer, TopicPartition

# Many starts of Java on a machine with much else to do.
pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

RELEASE = "4.3.1"
SOURCE = Path(__file__).parent / "java/streams/WordCount.java"
PARTITIONS = 2
WORDS = ("the", "messenger", "ran", "and", "castle", "letter", "snow", "road", "door")
#: What dies in each round, when some more words were counted.
DEATHS = ("broker", "application", "both", "application", "broker", "both")
COUNTED_PER_ROUND = 200
DEADLINE_S = 90
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    # Fewer logs to open at each start.
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
)


class Application:
    """The word count as a process, on a state directory that outlives it."""

    def __init__(self, home, classes):
        self._home = home
        self._class_path = f"{classes}:{needed(peers.kafka_streams_lib(RELEASE))}/*"

    def start(self, address):
        # The JVM lives for seconds: the quick compiler is enough, and leaves the other core to the broker.
        command = [needed(peers.java()), "-XX:TieredStopAtLevel=1", "-Xmx256m"]
        command += ["-cp", self._class_path, "WordCount", address, str(self._home / "state")]
        with (self._home / "application.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self):
        self.check()
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def check(self):
        """It runs until it is killed."""
        log = self._home / "application.log"
        assert self._process.poll() is None, log.read_text()[-4000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(DEADLINE_S)


class Typist:
    """Writes lines on a thread of its own, without an end; knows how often each word came."""

    def __init__(self, address):
        self.words = Counter()
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for number in count():
            line = [WORDS[number * step % len(WORDS)] for step in (1, 2, 5)]
            self._producer.produce("lines", " ".join(line), partition=number % PARTITIONS)
            self.words.update(line)
            self._producer.poll(0)
            if self._stopping.wait(0.01):
                return

    def finish(self):
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        assert self._producer.flush(DEADLINE_S) == 0


class Reader:
    """Reads what is committed of `counts`, in order."""

    def __init__(self, address):
        self.counts = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition("counts", index, 0) for index in range(PARTITIONS)])

    def read(self):
        """How many counts there are by now; each must be the next one of its word."""
        for message in self._consumer.consume(1000, 0.1):
            if message.error() is None:
                word, found = message.key().decode(), int.from_bytes(message.value())
                assert found == self.counts.get(word, 0) + 1, f"{word}: {found} after {self.counts}"
                self.counts[word] = found
        return sum(self.counts.values())

    def close(self):
        self._consumer.close()


@pytest.fixture
def application(tmp_path):
    needed(peers.java())
    jars = needed(peers.kafka_streams_lib(RELEASE))
    command = [needed(peers.javac()), "-d", str(tmp_path / "classes"), "-cp", f"{jars}/*"]
    subprocess.run([*command, str(SOURCE)], check=True, timeout=120)
    with Application(tmp_path, tmp_path / "classes") as made:
        yield made


def test_a_word_count_outlives_its_broker_and_itself(tmp_path, application):
    with reserved_address() as address, ExitStack() as lives:

        def start_broker():
            life = BrokerProcess(tmp_path / "data", listen=(address,), settings=SETTINGS)
            return lives.enter_context(life)

        broker = start_broker()
        with RawClient(address) as client:
            for topic in ("lines", "counts"):
                assert client.create_topic(topic, partitions=PARTITIONS).error_code == 0
        typist, reader = Typist(address), Reader(address)
        application.start(address)
        for death in DEATHS:
            # More than was there before: this life has counted, too.
            wait_for_counts(application, reader, typist.words.total() + COUNTED_PER_ROUND)
            if death != "broker":
                application.kill()
            if death != "application":
                broker.kill()
                broker = start_broker()
            if death != "broker":
                application.start(address)
        typist.finish()
        wait_for_counts(application, reader, typist.words.total())
        assert reader.counts == typist.words
        reader.close()
        check_from_the_start(address, typist.words)
        assert broker.terminate() == 0


def wait_for_counts(application, reader, goal):
    def is_reached():
        application.check()
        return reader.read() >= goal

    eventually(is_reached, f"{goal} counts", DEADLINE_S)


def check_from_the_start(address, words):
    """The log says the same to one who was not there before."""
    reader = Reader(address)
    eventually(lambda: reader.read() >= words.total(), "all counts")
    assert reader.counts == words
    reader.close()
