"""F15: thousands of aborted transactions, entangled, with kill -9 among them: readers of committed records get what is committed, and
with each fetch only the names that concern it."""

import json
import subprocess
import sys
from bisect import bisect_left
from contextlib import closing
from operator import attrgetter

from chaos.transaction_kit import RawProducer, fetch, find_coordinators, read_log, split_batches
from chaos.wire_kit import BrokerProcess, RawClient, eventually, reserved_address
from confluent_kafka import Consumer, TopicPartition

LIVES = 3
ROUNDS_PER_LIFE = 250
PRODUCERS = 4
#: Every so many transactions one commits.
COMMITS = 9
VALUE_BYTES = 300
FETCH_BYTES = 4000
#: The end of a fetch is taken from the offset index: what begins within an index interval (4096 bytes) behind the bytes may be named, too.
NAMED_TOO = 16
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=2",
    "log.flush.offset.checkpoint.interval.ms=200",
)


class Storm:
    """Producers that write in turns and end in other turns, so that their transactions overlap."""

    def __init__(self):
        self.committed = []
        self.aborted_count = 0
        self._number = 0

    def rage(self, client, *, is_left_open):
        """One life of it. At the end all have something open, if they are to be cut off."""
        producers = [RawProducer(client, f"p{index}") for index in range(PRODUCERS)]
        for producer in producers:
            producer.init()
        for step in range(ROUNDS_PER_LIFE):
            writing = [(producer, self._write(producer)) for producer in producers]
            at = step % PRODUCERS
            for producer, value in writing[at:] + writing[:at]:
                self._end(producer, value)
        if is_left_open:
            for producer in producers:
                self._write(producer)

    def _write(self, producer):
        self._number += 1
        value = b"%d" % self._number
        producer.produce("t", 0, value.ljust(VALUE_BYTES))
        return value

    def _end(self, producer, value):
        commits = int(value) % COMMITS == 0
        producer.end(committed=commits)
        if commits:
            self.committed.append(value)
        else:
            self.aborted_count += 1


class Follower:
    """A librdkafka consumer that reads what is committed, over all lives."""

    def __init__(self, address):
        self.values = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "g",
                "enable.auto.commit": False,  # it would try to at its close, when no broker is there
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition("t", 0, 0)])

    def read(self):
        messages = self._consumer.consume(1000, 0.1)
        self.values += [m.value().strip() for m in messages if m.error() is None]
        return self.values

    def close(self):
        self._consumer.close()


def test_readers_weather_a_storm_of_aborts(tmp_path):
    data, storm = tmp_path / "data", Storm()
    with reserved_address() as address, closing(Follower(address)) as follower:
        for life in range(LIVES):
            with (
                BrokerProcess(data, listen=(address,), settings=SETTINGS) as broker,
                RawClient(address) as client,
            ):
                if life == 0:
                    assert client.create_topic("t", internal_segment_bytes=100_000).error_code == 0
                    find_coordinators(client, "p0")
                storm.rage(client, is_left_open=life < LIVES - 1)
                eventually(lambda: len(follower.read()) >= len(storm.committed), "the committed")
                assert follower.values == storm.committed
                broker.kill()
        assert not verify(data)["damaged"]
        with BrokerProcess(data, listen=(address,), settings=SETTINGS) as broker:
            with RawClient(address) as client:
                check_fetches(client, storm)
            assert broker.terminate() == 0
    assert verify(data)["findings"] == []
    assert len(list((data / "t-0").glob("*.txnindex"))) > LIVES


def check_fetches(client, storm):
    """What goes with each fetch, held against what the log's own markers say."""
    # The kill may have come between an end and its marker, which a start writes then.
    eventually(lambda: not read_log(client, "t", 0).undecided, "all have ended")
    told = read_log(client, "t", 0)
    assert [value.strip() for value in told.committed] == storm.committed
    assert len(told.aborted) >= storm.aborted_count
    offset = 0
    while offset < told.end_offset:
        found = fetch(client, "t", 0, offset, max_bytes=FETCH_BYTES)
        end_offset = split_batches(found.records)[-1][1].next_offset
        named = [(one.producer_id, one.first_offset) for one in found.aborted_transactions]
        later = told.aborted[bisect_left(told.aborted, offset, key=attrgetter("last_offset")) :]
        needed = {one[:2] for one in later if one.first_offset < end_offset}
        assert len(set(named)) == len(named)
        assert needed <= set(named) <= {one[:2] for one in later}
        assert len(named) <= len(needed) + NAMED_TOO
        offset = end_offset


def verify(data_dir):
    """What the log's own tools say of the files, indexes included."""
    command = [sys.executable, "-m", "barnabas.cli.main", "log", "verify", str(data_dir)]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
