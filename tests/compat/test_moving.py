"""Moving in from Apache Kafka and out again: a real broker's directory, with all that can be in it, and the same records after."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time

import pytest
from compat.apache_kafka import READY_TIMEOUT_S, Kafka, kafka_lib
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

import barnabas
from barnabas.storage.names import LOG, offset_of
from barnabas.wire.batch import headers

pytestmark = pytest.mark.java

CODECS = ("gzip", "snappy", "lz4", "zstd")
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
SETTINGS = (
    "log.cleaner.backoff.ms=100",
    "log.initial.task.delay.ms=100",
    "offsets.topic.num.partitions=5",
    "transaction.state.log.num.partitions=5",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)
COMMITTED = 300
COORDINATOR_TO_COME = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "_WAIT_COORD",
)
LEVELS = ("read_uncommitted", "read_committed")


def admin_of(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create(bootstrap, *topics):
    admin = admin_of(bootstrap)
    for future in admin.create_topics(list(topics), request_timeout=90).values():
        future.result(120)


def fill(kafka):
    """Everything that a directory can have: four codecs, a compacted log, transactions, a group."""
    bootstrap = kafka.wait_ready()
    create(
        bootstrap,
        NewTopic("plain", 3, 1),
        NewTopic("compacted", 1, 1, config=COMPACTED),
        NewTopic("transactions", 2, 1, config={"retention.ms": "86400000"}),
        *(NewTopic(codec, 1, 1, config={"segment.bytes": str(1 << 20)}) for codec in CODECS),
    )
    for codec in CODECS:
        write(bootstrap, codec, 3000, compression=codec, size=600)
    write(bootstrap, "plain", 900, extra=[("h", b"1"), ("h", None)])
    for turn in range(4):
        write(bootstrap, "compacted", 2000, keys=50, size=400, turn=turn)
    write_transactions(bootstrap)
    commit(bootstrap)
    wait_for_compaction(kafka)


def client(bootstrap, **options):
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, **options})


def write(bootstrap, topic, count, *, compression="none", size=20, keys=None, turn=0, extra=()):
    producer = client(bootstrap, **{"compression.type": compression})
    for number in range(count):
        key = b"k%d" % (number % keys if keys else number)
        value = None if keys and number % 7 == turn else (b"%d-%d-" % (turn, number)) * (size // 8)
        producer.produce(topic, value, key, headers=list(extra))
        producer.poll(0)
    assert producer.flush(60) == 0


def write_transactions(bootstrap):
    producer = client(bootstrap, **{"transactional.id": "mover"})
    producer.init_transactions(60)
    for number in range(12):
        producer.begin_transaction()
        for partition in range(2):
            for _ in range(5):
                producer.produce("transactions", b"%d" % number, b"k", partition=partition)
        producer.flush(30)
        (producer.commit_transaction if number % 3 else producer.abort_transaction)(30)


def commit(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    position = TopicPartition("plain", 0, COMMITTED)
    patiently(lambda: consumer.commit(offsets=[position], asynchronous=False))
    consumer.close()


def patiently(call):
    """Ask until the group's coordinator is there: a broker that has just started may not have it yet."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException as problem:
            error = problem.args[0]
            assert error.name() in COORDINATOR_TO_COME, error
            assert time.monotonic() < deadline, error


def wait_for_compaction(kafka):
    """Wait until the cleaner has been through the first segments."""
    checkpoint = kafka.data / "cleaner-offset-checkpoint"
    while not (checkpoint.exists() and "compacted 0 " in checkpoint.read_text()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert kafka.process.wait(0.1) is None


def read_all(bootstrap, level):
    """Every record: (topic, partition) -> offsets, times, keys, values, headers."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": level,
            "log_level": 0,
        }
    )
    topics = admin_of(bootstrap).list_topics(timeout=30).topics
    left = [
        (name, partition)
        for name, topic in sorted(topics.items())
        for partition in topic.partitions
        if not name.startswith("__")
    ]
    found = {key: [] for key in left}
    consumer.assign([TopicPartition(*key, 0) for key in left])
    while left:
        message = consumer.poll(30)
        assert message is not None, f"nothing more of {left}"
        key = (message.topic(), message.partition())
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left.remove(key)
            continue
        found[key].append(
            (
                message.offset(),
                message.timestamp(),
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    consumer.close()
    return found


def describe(bootstrap):
    """Ids and own settings of all topics, and where the group stands."""
    admin = admin_of(bootstrap)
    names = [name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")]
    described = admin.describe_topics(TopicCollection(names))
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    settings = admin.describe_configs(resources)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    positions = [TopicPartition("plain", 0)]
    (committed,) = patiently(lambda: consumer.committed(positions, timeout=30))
    consumer.close()
    return {
        "ids": {name: str(future.result(30).topic_id) for name, future in described.items()},
        "settings": {
            resource.name: {
                name: entry.value
                for name, entry in future.result(30).items()
                if entry.source == 1  # the topic's own
            }
            for resource, future in settings.items()
        },
        "committed": committed.offset,
    }


class Original:
    """Directories that one Apache Kafka left, and what it had served from them."""

    def __init__(self, home):
        with Kafka(home, *SETTINGS) as kafka:
            self.kafka = kafka
            fill(kafka)
            self.description = describe(kafka.address)
            self.records = {level: read_all(kafka.address, level) for level in LEVELS}
            kafka.kill()
            self.killed = home / "killed"
            shutil.copytree(kafka.data, self.killed)
            kafka.start()
            kafka.wait_ready()
        self.stopped = kafka.data
        assert (self.stopped / ".kafka_cleanshutdown").exists()

    def check(self, bootstrap, more=()):
        """Compare with what another broker serves; `more` are records that it got since."""
        assert describe(bootstrap) == self.description
        for level in LEVELS:
            served = read_all(bootstrap, level)
            extra = {key: served[key].pop() for key in more}
            assert served == self.records[level], level
            assert {record[3] for record in extra.values()} <= {b"one more"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    kafka_lib()
    return Original(tmp_path_factory.mktemp("original"))


@pytest.fixture(params=["stopped", "killed"])
def directory(request, original):
    return getattr(original, request.param)


def tool(*words, code=0):
    command = [sys.executable, "-m", "barnabas.cli.main", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def state_of(folder):
    """Names, sizes and times of everything in it."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_verify_finds_nothing_wrong(directory):
    found = json.loads(tool("log", "verify", directory, "-o", "json"))
    assert [one for one in found["findings"] if one["severity"] == "damage"] == []
    assert sum(one["records"] for one in found["partitions"]) > 10_000


def test_dump_reads_every_file(directory):
    lines = tool("log", "dump", directory, "--records", "-o", "json").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row for row in rows if row["kind"] == "damage"] == []
    decoded = {row["decoded"]["type"] for row in rows if "decoded" in row}
    assert {"TopicRecord", "PartitionRecord", "ConfigRecord", "OffsetCommit"} <= decoded
    assert "TransactionLog" in decoded
    own = [row for row in rows if row["kind"] == "record" and "/__" in row["file"]]
    assert [row for row in own if "decoded" not in row] == []


DUMPED = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*producerId: (-?\d+) .*"
    r"isTransactional: (\w+) isControl: (\w+) .*position: (\d+) .* size: (\d+) .*"
    r"compresscodec: (\w+) crc: (\d+) isvalid: true"
)


def kafka_dump(kafka_tool, *files):
    """What Apache Kafka's own tool says of log files; it complains of nothing."""
    name = "org.apache.kafka.tools.DumpLogSegments"
    shown = kafka_tool(name, "--deep-iteration", "--files", ",".join(map(str, files))).stdout
    assert "isvalid: false" not in shown
    assert "ismatch" not in shown
    return [list(found.groups()) for found in map(DUMPED.search, shown.splitlines()) if found]


@pytest.mark.parametrize("topic", ["zstd", "transactions", "compacted"])
def test_dump_says_what_kafkas_own_tool_says(original, kafka_tool, topic):
    logs = sorted((original.stopped / f"{topic}-0").glob("*.log"))
    rows = [
        json.loads(line)
        for log in logs
        for line in tool("log", "dump", log, "-o", "json").splitlines()
    ]
    names = ("base_offset", "last_offset", "records", "producer_id", "transactional", "control")
    names += ("position", "bytes", "codec", "crc")
    ours = [[str(row[name]).lower() for name in names] for row in rows]
    assert ours == kafka_dump(kafka_tool, *logs) != []


def test_a_damaged_directory_is_repaired(original, kafka_tool, tmp_path):
    """Both read on behind what was lost: our broker with a client, and Kafka's tool over the files."""
    copy = tmp_path / "data"
    shutil.copytree(original.stopped, copy)
    expected = original.records["read_uncommitted"]
    damaged = {}
    for codec in CODECS:
        log = sorted((copy / f"{codec}-0").glob("*.log"))[0]
        content = bytearray(log.read_bytes())
        found = [(at, header) for at, header in headers(memoryview(bytes(content)))]
        position, header = found[len(found) // 2]
        content[position + header.size // 2] ^= 0xFF
        log.write_bytes(content)
        damaged[codec, 0] = range(header.base_offset, header.next_offset)
    tool("log", "verify", copy, code=1)
    tool("log", "repair", copy, "--yes")
    tool("log", "verify", copy)
    for codec in CODECS:
        kafka_dump(kafka_tool, *sorted((copy / f"{codec}-0").glob("*.log")))
    with barnabas.Broker(data_dir=str(copy)) as broker:
        served = read_all(broker.bootstrap, "read_uncommitted")
    for key, records in expected.items():
        lost = damaged.get(key, ())
        assert served[key] == [record for record in records if record[0] not in lost], key


def test_a_plain_start_serves_it(original, directory, tmp_path):
    copy = tmp_path / "data"
    shutil.copytree(directory, copy)
    with barnabas.Broker(data_dir=str(copy)) as broker:
        original.check(broker.bootstrap)


@pytest.mark.parametrize(("how", "left"), [("--copy", "stopped"), ("--link", "killed")])
def test_an_import_serves_it_and_leaves_the_source(original, tmp_path, how, left):
    directory = getattr(original, left)
    before, target = state_of(directory), tmp_path / "new"
    report = json.loads(tool("import-kafka", directory, "--data-dir", target, how, "-o", "json"))
    assert report["notes"] == []
    with barnabas.Broker(data_dir=str(target)) as broker:
        original.check(broker.bootstrap)
        produce_one(broker.bootstrap)
    with barnabas.Broker(data_dir=str(target)) as broker:
        original.check(broker.bootstrap, more=[("plain", 0), ("zstd", 0)])
    assert state_of(directory) == before


def produce_one(bootstrap):
    producer = client(bootstrap)
    for topic in ("plain", "zstd"):
        producer.produce(topic, b"one more", partition=0)
    assert producer.flush(30) == 0


def test_only_some_topics(original, tmp_path):
    target = tmp_path / "new"
    tool("import-kafka", original.stopped, "--data-dir", target, "--topics", "tra*")
    with barnabas.Broker(data_dir=str(target)) as broker:
        served = read_all(broker.bootstrap, "read_uncommitted")
    expected = original.records["read_uncommitted"]
    assert served == {key: expected[key] for key in expected if key[0] == "transactions"}


def test_a_running_kafka_is_left_alone(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    with Kafka(home) as kafka:
        kafka.wait_ready()
        tool("import-kafka", kafka.data, "--data-dir", tmp_path / "new", code=1)
        tool("log", "repair", kafka.data, "--yes", code=1)
    assert not (tmp_path / "new").exists()


def test_in_place_and_back_to_kafka(original, tmp_path):
    """Kafka opens the directory again that we wrote to: topics it knew as they are, new ones by exchanging files."""
    home = tmp_path / "home"
    shutil.copytree(original.stopped.parent, home)
    kafka = Kafka(home, *SETTINGS)
    tool("import-kafka", kafka.data, "--in-place")
    with barnabas.Broker(data_dir=str(kafka.data)) as broker:
        original.check(broker.bootstrap)
        produce_one(broker.bootstrap)
        create(broker.bootstrap, NewTopic("ours", 1, 1))
        write(broker.bootstrap, "ours", 500, compression="lz4")
        ours = read_all(broker.bootstrap, "read_uncommitted")["ours", 0]
    aside = tmp_path / "ours-0"
    shutil.move(kafka.data / "ours-0", aside)
    kafka.start()
    try:
        bootstrap = kafka.wait_ready()
        original.check(bootstrap, more=[("plain", 0), ("zstd", 0)])
        create(bootstrap, NewTopic("ours", 1, 1))
        kafka.stop()
        exchange(aside, kafka.data / "ours-0")
        kafka.start()
        bootstrap = kafka.wait_ready()
        assert read_all(bootstrap, "read_uncommitted")["ours", 0] == ours
    finally:
        kafka.stop()


def exchange(ours, theirs):
    """Put our files into a folder of Kafka's; whose it is stays."""
    for path in theirs.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in ours.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, theirs)
    assert any(offset_of(path.name, LOG) is not None for path in theirs.iterdir())


def test_a_directory_of_3_9(tmp_path):
    """The older KRaft: its metadata log has older versions of the same records."""
    kafka_lib("3.9.2")
    with Kafka(tmp_path, release="3.9.2") as kafka:
        bootstrap = kafka.wait_ready()
        create(bootstrap, NewTopic("plain", 2, 1, config={"retention.ms": "86400000"}))
        write(bootstrap, "plain", 900, compression="zstd")
        commit(bootstrap)
        expected = (describe(bootstrap), read_all(bootstrap, "read_uncommitted"))
    target = tmp_path / "new"
    tool("import-kafka", kafka.data, "--data-dir", target)
    with barnabas.Broker(data_dir=str(target)) as broker:
        served = broker.bootstrap
        assert (describe(served), read_all(served, "read_uncommitted")) == expected
