"""F10: a disk that fails beside one that does not. Its directory goes offline, visibly; the other serves on."""

import contextlib
import subprocess

import pytest
from chaos.wire_kit import BrokerProcess, RawClient, batch

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.metadata import MetadataRequest

FAILED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def disks(tmp_path):
    """A directory, and another one on a file system of its own."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(two)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system of its own needs the right to mount one")
    try:
        yield one, two
    finally:
        subprocess.run(["umount", "-l", str(two)], check=True)


def remount(place, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


def start(disks):
    one, two = disks
    return BrokerProcess(f"{one},{two / 'logs'}", log_dir=one.parent)


def directories(client):
    results = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    return [result.error_code for result in results]


def produce_all(client):
    return [client.produce("t", batch(b"v"), partition=index).error_code for index in range(4)]


def leaders(client):
    (topic,) = [t for t in client.ask(MetadataRequest(topics=None), 9).topics if t.name == "t"]
    return [partition.leader_id for partition in topic.partitions]


def test_a_disk_that_is_read_only_when_the_broker_starts(disks):
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert client.create_topic("t", partitions=4).error_code == 0
        assert produce_all(client) == [0, 0, 0, 0]
        assert directories(client) == [0, 0]
        node = leaders(client)[0]
        assert broker.terminate() == 0
    remount(disks[1], "ro")
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert directories(client) == [0, FAILED]
        assert produce_all(client) == [0, FAILED, 0, FAILED]
        assert leaders(client) == [node, -1, node, -1]
        assert client.create_topic("late", partitions=2).error_code == 0
        assert f"log directory {disks[1] / 'logs'} is offline" in broker.log
        assert broker.terminate() == 0
    remount(disks[1], "rw")
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert directories(client) == [0, 0]
        assert produce_all(client) == [0, 0, 0, 0]
        assert [len(client.read_all("t", index)) for index in range(4)] == [3, 2, 3, 2]
        assert broker.terminate() == 0


def test_a_disk_that_is_not_mounted_when_the_broker_starts(disks):
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert client.create_topic("t", partitions=4).error_code == 0
        assert produce_all(client) == [0, 0, 0, 0]
        assert broker.terminate() == 0
    # What is seen then is the empty folder below.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disks[1])], check=True)
    try:
        with start(disks) as broker, RawClient(broker.bootstrap) as client:
            assert directories(client) == [0, FAILED]
            assert produce_all(client) == [0, FAILED, 0, FAILED]
            assert f"{disks[1] / 'logs'} has no meta.properties" in broker.log
            assert broker.terminate() == 0
        assert [path.name for path in (disks[1] / "logs").iterdir()] == [".lock"]
    finally:
        subprocess.run(["umount", str(disks[1])], check=True)
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert produce_all(client) == [0, 0, 0, 0]
        assert [len(client.read_all("t", index)) for index in range(4)] == [3, 2, 3, 2]
        assert broker.terminate() == 0


def test_a_full_disk_beside_one_with_room(disks):
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        with contextlib.suppress(OSError), (disks[1] / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        assert client.create_topic("t", partitions=4).error_code == 0
        assert produce_all(client) == [0, 0, 0, 0]
        assert directories(client) == [0, 0]
        assert broker.terminate() == 0
    assert not list((disks[1] / "logs").glob("t-*"))


def test_a_directory_that_is_no_directory_when_the_broker_starts(tmp_path):
    two = tmp_path / "two"
    two.mkdir()
    (two / "logs").write_text("a file")
    with start((tmp_path / "one", two)) as broker, RawClient(broker.bootstrap) as client:
        assert directories(client) == [0, FAILED]
        assert client.create_topic("t", partitions=4).error_code == 0
        assert produce_all(client) == [0, 0, 0, 0]
        assert broker.terminate() == 0


def test_a_folder_that_is_taken_away_while_the_broker_runs(tmp_path):
    """Its partitions fail when they need a new file; those of the other directory do not."""
    disks = tmp_path / "one", tmp_path / "two"
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert client.create_topic("t", partitions=4, **{"flush.messages": "1"}).error_code == 0
        (disks[1] / "logs").rename(tmp_path / "away")
        (disks[1] / "logs").write_text("a file")
        assert client.create_topic("u", partitions=2).error_code == FAILED
        assert directories(client) == [0, FAILED]
        assert produce_all(client) == [0, FAILED, 0, FAILED]
        assert client.create_topic("u", partitions=2).error_code == 0
        assert broker.terminate() == 0
    (disks[1] / "logs").unlink()
    (tmp_path / "away").rename(disks[1] / "logs")
    with start(disks) as broker, RawClient(broker.bootstrap) as client:
        assert produce_all(client) == [0, 0, 0, 0]
        assert broker.terminate() == 0
