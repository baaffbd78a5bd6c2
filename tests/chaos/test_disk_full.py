"""F9: a disk without room. Producers are told, readers go on, the broker lives, and all is well once there is room again."""

import contextlib
import subprocess

import pytest
from chaos.wire_kit import BrokerProcess, RawClient, batch, eventually

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest

MIB = 1024 * 1024
FULL = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB, of which a file takes 8 that can be freed."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        (place / "filler").write_bytes(bytes(8 * MIB))
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def start(place):
    """A broker on the small disk, with its log elsewhere."""
    return BrokerProcess(place / "data", log_dir=place.parent)


def fill(client, topic, size):
    """Produce until the disk is full; the acknowledged values."""
    acked = []
    for number in range(10_000):
        value = b"%d " % number
        answer = client.produce(topic, batch(value.ljust(size)))
        if answer.error_code:
            assert ErrorCode(answer.error_code) == FULL
            return acked
        assert answer.base_offset == len(acked)
        acked.append(value.strip())
    raise AssertionError("the disk is never full")


def values(client, topic):
    return [value.strip() for _, value in client.read_all(topic)]


def test_a_full_disk_is_told_and_passes(small_disk):
    with start(small_disk) as broker, RawClient(broker.bootstrap) as client:
        assert client.create_topic("t").error_code == 0
        assert client.create_topic("other").error_code == 0
        acked = fill(client, "t", 500_000)
        acked += fill_rest(client, "t")
        assert values(client, "t") == acked, "reads go on, and nothing half-written is shown"
        for _ in range(20):
            assert client.produce("t", batch(bytes(4096))).error_code == FULL
        assert client.produce("other", batch(bytes(400_000))).error_code == FULL
        assert client.create_topic("late").error_code in (FULL, 0)
        (topic,) = [t for t in client.ask(MetadataRequest(topics=None), 9).topics if t.name == "t"]
        assert topic.partitions[0].error_code == 0, "full is not broken"
        (small_disk / "filler").unlink()
        eventually(lambda: client.produce("t", batch(b"room")).error_code == 0, "room again")
        assert client.produce("other", batch(b"room")).error_code == 0
        assert values(client, "t") == [*acked, b"room"]
        assert client.create_topic("after").error_code == 0
        assert client.produce("after", batch(b"v")).error_code == 0
        assert broker.terminate() == 0, broker.log[-1500:]
    with start(small_disk) as broker, RawClient(broker.bootstrap) as client:
        assert values(client, "t") == [*acked, b"room"]
        assert broker.terminate() == 0, broker.log[-1500:]


def fill_rest(client, topic):
    acked = []
    while True:
        value = b"rest-%d " % len(acked)
        answer = client.produce(topic, batch(value.ljust(3000)))
        if answer.error_code:
            assert ErrorCode(answer.error_code) == FULL
            return acked
        acked.append(value.strip())


def take_the_rest(path):
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


@pytest.mark.parametrize("way_down", ["terminate", "kill"])
def test_start_on_a_full_disk(small_disk, way_down):
    with start(small_disk) as broker, RawClient(broker.bootstrap) as client:
        assert client.create_topic("t").error_code == 0
        acked = fill(client, "t", 500_000) + fill_rest(client, "t")
        getattr(broker, way_down)()
    # Whatever a stop managed to free or write down: the disk is full again before the next start.
    take_the_rest(small_disk / "second")
    with start(small_disk) as broker, RawClient(broker.bootstrap) as client:
        # It comes up and says what it cannot do: recovering a log takes room for its indexes.
        (topic,) = client.ask(MetadataRequest(topics=None), 9).topics
        assert topic.name == "t"
        assert client.produce("t", batch(bytes(100_000))).error_code != 0
        assert "No space left" in broker.log
        broker.terminate()
    (small_disk / "filler").unlink()
    with start(small_disk) as broker, RawClient(broker.bootstrap) as client:
        assert values(client, "t") == acked
        assert client.produce("t", batch(b"room")).error_code == 0
        assert broker.terminate() == 0, broker.log[-1500:]
    with start(small_disk) as broker, RawClient(broker.bootstrap) as client:
        assert values(client, "t") == [*acked, b"room"]
