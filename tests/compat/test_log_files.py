"""Apache Kafka and our log over each other's files: its checker reads ours, ours reads its, and the bytes agree.

See test_dump_log.py for the files of a running broker of ours.
"""

import random
import shutil
import subprocess

import peers
import pytest
from compat.apache_kafka import Kafka, kafka_lib
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient, NewTopic

import barnabas
from barnabas.model.config import build_log_config
from barnabas.runtime.disk import RealDisk
from barnabas.storage.log import Log
from barnabas.wire.batch import Producer, Record, build, headers, read_header, read_records
from barnabas.wire.compression import Codec

pytestmark = pytest.mark.java

RELEASE = "4.3.1"
NOW = 1_700_000_000_000
RECORDS = 3000
#: The smallest segments that Kafka allows: several rolls with few records.
SETTINGS = {"segment.bytes": 1 << 20, "index.interval.bytes": 4096}
#: Topic -> how its client batches.
TOPICS = {
    "large-batches": {"batch.size": 60_000, "linger.ms": 50},
    "lone-records": {"batch.num.messages": 1},
    "zstd": {"compression.type": "zstd", "batch.size": 20_000, "linger.ms": 20},
    "gzip-idempotent": {"compression.type": "gzip", "enable.idempotence": True, "linger.ms": 5},
}


# A directory that Apache Kafka wrote


def timestamp_of(number):
    """Timestamps that mostly rise, stand still and sometimes fall back: each matters to the time index."""
    return NOW + number // 3 * 10 - (500 if number % 100 == 0 else 0)


def produce(bootstrap, topic, options):
    client = Client({"bootstrap.servers": bootstrap, "enable.idempotence": False, **options})
    noise = random.Random(7)  # does not compress, so that every topic rolls
    for number in range(RECORDS):
        value = noise.randbytes(200 + number % 1700)
        client.produce(topic, value, b"k", partition=0, timestamp=timestamp_of(number))
        client.poll(0)
        if number % 500 == 0:
            # The first by itself: a fresh topic's leader may refuse it, and later ones would overtake it.
            assert client.flush(60) == 0
    assert client.flush(60) == 0


@pytest.fixture(scope="module")
def kafka_directory(tmp_path_factory):
    """The log directory of an Apache Kafka that was stopped cleanly after writing TOPICS."""
    with Kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        bootstrap = f"127.0.0.1:{kafka.port}"
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        settings = {name: str(value) for name, value in SETTINGS.items()}
        topics = [NewTopic(name, 1, 1, config=settings) for name in TOPICS]
        for future in admin.create_topics(topics, request_timeout=90).values():
            future.result(120)
        for topic, options in TOPICS.items():
            produce(bootstrap, topic, options)
    assert (kafka.data / ".kafka_cleanshutdown").exists(), kafka.log.read_text()[-3000:]
    return kafka.data


def batches_in(directory):
    """Every batch in the folder's logs, in order."""
    for path in sorted(directory.glob("*.log")):
        data = memoryview(path.read_bytes())
        end = 0
        for position, header in headers(data):
            end = position + header.size
            yield bytearray(data[position:end]), header
        assert end == len(data), f"{path} does not end with a batch"


def segment_files(directory):
    """Name -> bytes of everything that belongs to segments."""
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in suffixes}


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_batches_give_the_same_files(kafka_directory, tmp_path, topic):
    theirs, disk = kafka_directory / f"{topic}-0", RealDisk()
    log = Log.open(disk, str(tmp_path), build_log_config(SETTINGS), now_ms=NOW, clean=True)
    for batch, header in batches_in(theirs):
        log.append(memoryview(batch), header, header.partition_leader_epoch, NOW)
    log.close(clean=True)
    disk.close()
    assert log.segment_count > 2
    their_files, our_files = segment_files(theirs), segment_files(tmp_path)
    assert sorted(our_files) == sorted(their_files)
    assert [name for name in our_files if our_files[name] != their_files[name]] == []
    name = "leader-epoch-checkpoint"
    assert (tmp_path / name).read_bytes() == (theirs / name).read_bytes()


@pytest.mark.parametrize("clean", [True, False], ids=["as it was closed", "with a full check"])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_directory_of_kafkas_opens_and_reads(kafka_directory, tmp_path, topic, clean):
    theirs = kafka_directory / f"{topic}-0"
    copy, disk = tmp_path / "copy", RealDisk()
    shutil.copytree(theirs, copy)
    log = Log.open(disk, str(copy), build_log_config(SETTINGS), now_ms=NOW, clean=clean)
    assert log.recovery.cut_bytes == 0
    assert log.recovery.rebuilt_indexes == []
    records = read_all(log)
    assert [record.offset for record in records] == list(range(RECORDS))
    assert [record.timestamp for record in records] == [timestamp_of(n) for n in range(RECORDS)]
    for wanted in (NOW - 1000, NOW + 5000, NOW + 5010, timestamp_of(RECORDS - 1)):
        first = next(record for record in records if record.timestamp >= wanted)
        found = log.offset_for_timestamp(wanted)
        assert (found.timestamp, found.offset) == (first.timestamp, first.offset)
    assert log.offset_for_timestamp(NOW + 10**9) is None
    log.close(clean=True)
    disk.close()
    their_files, our_files = segment_files(theirs), segment_files(copy)
    assert [name for name in our_files if our_files[name] != their_files[name]] == []


def test_a_broker_takes_over_a_directory_of_kafkas(kafka_directory, tmp_path):
    """All of it: the topics with their ids, every record, and room for more; twice, and Kafka's checker agrees."""
    copy = tmp_path / "data"
    shutil.copytree(kafka_directory, copy)
    for more in range(2):
        with barnabas.Broker(data_dir=str(copy)) as broker:
            listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10)
            # Reading with a group makes one more.
            assert sorted(listed.topics.keys() - {"__consumer_offsets"}) == sorted(TOPICS)
            for topic in TOPICS:
                assert consume_all(broker.bootstrap, topic) == list(range(RECORDS + more))
                client = Client({"bootstrap.servers": broker.bootstrap})
                client.produce(topic, b"one more", partition=0)
                assert client.flush(10) == 0
    for topic in TOPICS:
        theirs, ours = (d / f"{topic}-0" / "partition.metadata" for d in (kafka_directory, copy))
        assert ours.read_bytes() == theirs.read_bytes()
        dump("--deep-iteration", files=sorted((copy / f"{topic}-0").glob("*.log")))


def consume_all(bootstrap, topic):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    offsets = []
    while (message := consumer.poll(30)) is not None:
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        offsets.append(message.offset())
    consumer.close()
    return offsets


def read_all(log):
    offset, records = log.log_start_offset, []
    end = log.log_end_offset
    while part := log.read(offset, 1 << 20, end_offset=end, min_one=True, nowait=False):
        data = memoryview(part.read())
        for position, header in headers(data):
            records += read_records(data[position : position + header.size], 1 << 30)
            offset = header.next_offset
    return records


# A directory that we wrote


def dump(*options, files):
    """Run Kafka's checker; return what it says."""
    tool = "org.apache.kafka.tools.DumpLogSegments"
    command = [
        peers.java(),
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{kafka_lib()}/*",
        tool,
        *options,
    ]
    command += ["--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def odd_batches():
    """Batches of every codec and of many sizes, with and without producers and timestamps."""
    for number in range(400):
        start = NOW + number * 7 if number % 50 else -1
        records = [
            Record(at, start + at if start >= 0 else -1, b"k", bytes([at]) * (number * 5))
            for at in range(1 + number % 13)
        ]
        producer = Producer(1000 + number % 3, 0, number // 3) if number % 2 == 0 else Producer()
        yield build(records, codec=Codec(number % 5), producer=producer)


def write_directory(folder, settings):
    disk = RealDisk()
    log = Log.open(disk, str(folder), build_log_config(settings), now_ms=NOW, clean=True)
    for number, batch in enumerate(odd_batches()):
        view = memoryview(batch)
        log.append(view, read_header(view), number // 100, NOW)
    log.close(clean=True)
    disk.close()
    return log


@pytest.mark.parametrize(
    "settings",
    [
        {"internal.segment.bytes": 100_000},
        {"internal.segment.bytes": 20_000, "index.interval.bytes": 0},
        {"segment.index.bytes": 64, "index.interval.bytes": 1000},
    ],
    ids=["rolls by size", "an index entry for every batch", "rolls by full index"],
)
def test_kafkas_checker_finds_no_fault(tmp_path, settings):
    kafka_lib()
    log = write_directory(tmp_path, settings)
    assert log.segment_count > 3
    every = sorted(tmp_path.glob("0*"))
    said = dump("--deep-iteration", files=[path for path in every if path.suffix == ".log"])
    offsets = [int(line.split()[2]) for line in said.splitlines() if line.startswith("| offset: ")]
    assert offsets == list(range(log.log_end_offset))
    assert "isvalid: true" in said
    assert "isvalid: false" not in said
    indexes = [path for path in every if path.suffix in {".index", ".timeindex"}]
    sane = dump("--index-sanity-check", files=indexes)
    outcomes = sane.count(" passed sanity check.") + sane.count(" is empty.")
    assert outcomes == 2 * log.segment_count
    checked = sane + dump("--deep-iteration", files=indexes)
    for complaint in ("ismatch", "not be found", "Found timestamp", "ut of order"):
        assert complaint not in checked
    snapshots = [path for path in every if path.suffix == ".snapshot"]
    assert "producerId: 1002" in dump(files=snapshots)
