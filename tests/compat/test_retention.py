"""Retention held against Apache Kafka: after the same records both keep the same segments."""

import time

import pytest
from cluster_kit import wait_until
from compat.apache_kafka import Kafka
from compat.test_cli import Tool
from compat.wire_client import WireClient
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

import barnabas
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import Record, build
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PATIENCE_S = 90
HOUR_MS = 3_600_000
OFTEN = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.cleaner.backoff.ms": "300",
}
#: Batches of five records close the segment before: their times are further apart than this.
ROLLS = {"segment.ms": "1", "retention.ms": str(HOUR_MS)}

#: Topic -> its settings, the age of each batch in milliseconds, the base offsets of the segments that stay.
HISTORIES = {
    "old-and-young": (ROLLS, [3 * HOUR_MS, 2 * HOUR_MS, 60_000, 30_000], [10, 15]),
    "all-old": (ROLLS, [5 * HOUR_MS, 4 * HOUR_MS, 3 * HOUR_MS], [15]),
    "one-old-segment": ({**ROLLS, "segment.ms": "100000000"}, [3 * HOUR_MS, 2 * HOUR_MS], [10]),
    "one-segment-with-a-young-end": (
        {**ROLLS, "segment.ms": "100000000"}, [3 * HOUR_MS, 2 * HOUR_MS, 1000], [0],
    ),
    "from-the-future": (ROLLS, [3 * HOUR_MS, -HOUR_MS // 2, -HOUR_MS // 2 - 1000], [5, 10]),
    "an-old-one-behind-the-future": (
        {**ROLLS, "segment.ms": "100000000", "internal.segment.bytes": "1100"},
        [3 * HOUR_MS, -HOUR_MS // 2, 3 * HOUR_MS, 3 * HOUR_MS], [5, 10, 15],
    ),
    "for-ever": ({**ROLLS, "retention.ms": "-1"}, [3 * HOUR_MS, 2 * HOUR_MS], [0, 5]),
    "by-size": (
        {**ROLLS, "retention.ms": "-1", "retention.bytes": "2500"},
        [5000, 4000, 3000, 2000, 1000], [10, 15, 20],
    ),
    "by-size-nothing": (
        {**ROLLS, "retention.ms": "-1", "retention.bytes": "0"}, [3000, 2000, 1000], [15],
    ),
    "by-both": (
        {**ROLLS, "retention.bytes": "3500"},
        [5 * HOUR_MS, 4 * HOUR_MS, 3 * HOUR_MS, 3000, 2000, 1000], [15, 20, 25],
    ),
    "compacted-only": (
        {**ROLLS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"},
        [3 * HOUR_MS, 2 * HOUR_MS], [0, 5],
    ),
    "no-policy": ({**ROLLS, "cleanup.policy": ""}, [3 * HOUR_MS, 2 * HOUR_MS], [0, 5]),
}  # fmt: skip
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
#: Made last: once its segments have gone, the others have been looked at.
LAST = "last"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    settings = [f"{name}={value}" for name, value in OFTEN.items()]
    with Kafka(tmp_path_factory.mktemp("kafka"), *settings) as kafka:
        kafka.wait_ready()
        yield kafka


def _produce(topic, number, timestamp):
    """One batch of five records, about a kilobyte."""
    records = [Record(at, timestamp, b"%d" % (number * 5 + at), b"x" * 180, ()) for at in range(5)]
    data = PartitionProduceData(index=0, records=build(records))
    return ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def _code(response):
    return response.responses[0].partition_responses[0].error_code


class Side:
    """One of the two brokers."""

    def __init__(self, bootstrap, data, now_ms, config_home):
        self.tool = Tool(bootstrap, config_home)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.bootstrap = bootstrap
        self.data = data
        self.now_ms = now_ms

    def write(self, topic, settings, ages_ms):
        """Write everything before anything may go."""
        held_back = {**settings, "retention.ms": "-1", "retention.bytes": "-1"}
        self.admin.create_topics([NewTopic(topic, 1, config=held_back)])[topic].result(60)
        client = WireClient(self.bootstrap)
        for number, age_ms in enumerate(ages_ms):
            request = _produce(topic, number, self.now_ms - age_ms)
            while (code := _code(client.ask(request, 9))) in UNKNOWN:
                continue  # a broker that has not heard yet what it leads
            assert code == ErrorCode.NONE
        client.close()
        assert self.bounds(topic) == (0, 5 * len(ages_ms))

    def let_go(self, topic, settings):
        wanted = {name: settings.get(name, "-1") for name in ("retention.ms", "retention.bytes")}
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in wanted.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def bases(self, topic):
        return sorted(int(path.stem) for path in (self.data / f"{topic}-0").glob("*.log"))

    def bounds(self, topic):
        found = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            answer = self.admin.list_offsets({TopicPartition(topic, 0): spec})
            found += [future.result(60).offset for future in answer.values()]
        return tuple(found)

    def show(self):
        """What our tool says of the files, without what is not the same on both sides."""
        described = self.tool.json("topic", "describe", *HISTORIES, "--storage")
        stored = {topic["topic"]: topic["partitions"][0]["storage"] for topic in described}
        for one in stored.values():
            del one["directory"]
        return stored

    def wait_for(self, topic, bases):
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.bases(topic)) != bases:
            assert time.monotonic() < deadline, f"{topic}: {found}, not {bases}, in {self.data}"
            self.bounds(topic)

    def play(self):
        for topic, (settings, ages_ms, _) in HISTORIES.items():
            self.write(topic, settings, ages_ms)
            self.let_go(topic, settings)
        self.write(LAST, ROLLS, [3 * HOUR_MS, 2 * HOUR_MS])
        self.let_go(LAST, ROLLS)
        self.wait_for(LAST, [10])


def test_both_keep_the_same_segments(kafka, tmp_path):
    now_ms = time.time_ns() // 1_000_000
    with barnabas.Broker(data_dir=str(tmp_path / "data"), settings=OFTEN) as broker:
        theirs = Side(kafka.address, kafka.data, now_ms, tmp_path)
        ours = Side(broker.bootstrap, tmp_path / "data", now_ms, tmp_path)
        for side in (theirs, ours):
            side.play()
        for topic, (_, ages_ms, bases) in HISTORIES.items():
            for side in (theirs, ours):
                side.wait_for(topic, bases)
            assert ours.bounds(topic) == theirs.bounds(topic) == (bases[0], 5 * len(ages_ms))
        assert ours.show() == theirs.show()


class OpenTransaction:
    """A producer that has written records of several ages in one transaction, and not ended it."""

    def __init__(self, side, topic, ages_ms):
        held_back = {**ROLLS, "retention.ms": "-1"}
        side.admin.create_topics([NewTopic(topic, 1, config=held_back)])[topic].result(60)
        self.side, self.topic = side, topic
        self.producer = Producer({"bootstrap.servers": side.bootstrap, "transactional.id": topic})
        self.producer.init_transactions(PATIENCE_S)
        self.producer.begin_transaction()
        for age_ms in ages_ms:
            for number in range(5):
                timestamp = side.now_ms - age_ms
                self.producer.produce(topic, str(number), partition=0, timestamp=timestamp)
            assert self.producer.flush(PATIENCE_S) == 0

    def stable_end(self):
        asked = {TopicPartition(self.topic, 0): OffsetSpec.latest()}
        answer = self.side.admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        return [future.result(60).offset for future in answer.values()]

    def committed(self):
        """The offsets of all that a reader of committed records finds."""
        settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.partition.eof": True}
        reader = Consumer({"bootstrap.servers": self.side.bootstrap, **settings})
        reader.assign([TopicPartition(self.topic, 0, 0)])
        found = []
        while (message := reader.poll(PATIENCE_S)).error() is None:
            found.append(message.offset())
        reader.close()
        return found


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_open_transaction_keeps_no_segment_and_its_end_counts_for_the_rest(
    kafka, tmp_path, is_commit
):
    now_ms = time.time_ns() // 1_000_000
    topic = f"open-{is_commit}"
    with barnabas.Broker(data_dir=str(tmp_path / "data"), settings=OFTEN) as broker:
        theirs = Side(kafka.address, kafka.data, now_ms, tmp_path)
        ours = Side(broker.bootstrap, tmp_path / "data", now_ms, tmp_path)
        for side in (theirs, ours):
            ages_ms = [3 * HOUR_MS, 2 * HOUR_MS, 60_000, 30_000]
            transaction = OpenTransaction(side, topic, ages_ms)
            side.let_go(topic, ROLLS)
            side.wait_for(topic, [10, 15])
            assert transaction.stable_end() == [10]
            producer = transaction.producer
            (producer.commit_transaction if is_commit else producer.abort_transaction)(PATIENCE_S)
            # Its end is decided by then; the marker is written after that.
            wait_until(lambda: transaction.stable_end() == [21], "it has ended")  # noqa: B023 - it is called in this turn
            assert transaction.committed() == (list(range(10, 20)) if is_commit else [])
