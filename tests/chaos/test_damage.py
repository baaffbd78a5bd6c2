"""F12: damaged files on a single node. The start goes on, what is lost is bounded and told, and no bad bytes pass for good ones.

Damage below the recovery point is not looked for at a start, as in Kafka: the bytes were synced, and scanning them all would cost
the time the recovery point saves. It is found when it is first read, before anybody gets it.
"""

import shutil

import pytest
from chaos.wire_kit import BrokerProcess, RawClient, batch, eventually

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches

SEGMENT = 1048576
VALUES = [b"%d " % number for number in range(60)]
SETTINGS = ("log.segment.bytes=1048576",)


def fill(broker):
    with RawClient(broker.bootstrap) as client:
        assert client.create_topic("t").error_code == 0
        for value in VALUES:
            assert client.produce("t", batch(value.ljust(50_000))).error_code == 0


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Two directories with three segments: one left by kill -9, one by a clean stop."""
    home = tmp_path_factory.mktemp("originals")
    with BrokerProcess(home / "crashed", settings=SETTINGS) as broker:
        fill(broker)
        broker.kill()
    with BrokerProcess(home / "stopped", settings=SETTINGS) as broker:
        fill(broker)
        assert broker.terminate() == 0
    return home


@pytest.fixture
def crashed(originals, tmp_path):
    return shutil.copytree(originals / "crashed", tmp_path / "data")


@pytest.fixture
def stopped(originals, tmp_path):
    return shutil.copytree(originals / "stopped", tmp_path / "data")


def segments(data):
    return sorted((data / "t-0").glob("*.log"))


def flip(path, position):
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def forget_recovery_points(data):
    """As if the crash had come before the first checkpoint: everything is scanned."""
    (data / "recovery-point-offset-checkpoint").unlink(missing_ok=True)


def served(data):
    """What a new start serves, checksums verified, and its log; the partition must take new records."""
    with BrokerProcess(data, settings=SETTINGS) as broker, RawClient(broker.bootstrap) as client:
        found = [value.strip() for _, value in client.read_all("t")]
        end = client.end_offset("t")
        assert end == len(found), "the end is where the records end"
        answer = client.produce("t", batch(b"after"))
        assert (answer.error_code, answer.base_offset) == (0, end)
        assert broker.terminate() == 0
        log = broker.log
    with BrokerProcess(data, settings=SETTINGS) as broker, RawClient(broker.bootstrap) as client:
        again = [value.strip() for _, value in client.read_all("t")]
        assert again == [*found, b"after"]
        assert "cut" not in broker.log, "a second start has nothing to repair"
        assert broker.terminate() == 0
    return found, log


def is_beginning(found):
    return found == [value.strip() for value in VALUES[: len(found)]]


def test_nothing_is_lost_by_a_crash_alone(crashed):
    found, log = served(crashed)
    assert found == [value.strip() for value in VALUES]
    assert "cut" not in log


def test_garbage_behind_the_last_batch(crashed):
    with segments(crashed)[-1].open("ab") as file:
        file.write(b"\xde\xad\xbe\xef" * 100)
    found, log = served(crashed)
    assert found == [value.strip() for value in VALUES]
    assert "cut 400 bytes" in log


def test_the_active_segment_ends_in_the_middle_of_a_batch(crashed):
    active = segments(crashed)[-1]
    with active.open("r+b") as file:
        file.truncate(active.stat().st_size - 10)
    found, log = served(crashed)
    assert is_beginning(found)
    assert len(found) == len(VALUES) - 1
    assert "cut" in log


def test_a_page_of_zeros_at_the_end(crashed):
    with segments(crashed)[-1].open("ab") as file:
        file.write(bytes(4096))
    found, log = served(crashed)
    assert found == [value.strip() for value in VALUES]
    assert "cut 4096 bytes" in log


def test_a_page_of_zeros_in_the_middle_of_the_active_segment(crashed):
    active = segments(crashed)[-1]
    with active.open("r+b") as file:
        file.seek(active.stat().st_size // 2)
        file.write(bytes(4096))
    found, log = served(crashed)
    assert is_beginning(found)
    assert len(found) >= len(VALUES) - 22, "only what comes after the damage is lost"
    assert "cut" in log


def test_a_flipped_bit_that_a_scan_comes_by(crashed):
    forget_recovery_points(crashed)
    closed = segments(crashed)[1]
    flip(closed, closed.stat().st_size // 2 + 1000)
    found, log = served(crashed)
    assert is_beginning(found)
    assert 20 < len(found) < len(VALUES)
    assert "cut" in log


def flip_one_bit(data):
    closed = segments(data)[1]
    flip(closed, closed.stat().st_size // 2 + 1000)


def flip_in_the_active_segment(data):
    flip(segments(data)[-1], 1000)


def destroy_a_length(data):
    with segments(data)[1].open("r+b") as file:
        file.seek(8)
        file.write(b"\xff\xff\xff\xff")


def zero_pages(data):
    with segments(data)[0].open("r+b") as file:
        file.seek(200_000)
        file.write(bytes(60_000))


def cut_short(data):
    closed = segments(data)[1]
    with closed.open("r+b") as file:
        file.truncate(closed.stat().st_size - 60_000)


def change_names(data):
    one, two, _ = segments(data)
    other = one.with_suffix(".other")
    one.rename(other)
    two.rename(one)
    other.rename(two)


def read_over_damage(client):
    """Read as a consumer does, which tries again after an error: whatever comes is good; the offsets found."""
    found, offset = [], 0
    while offset < len(VALUES):
        data = client.fetch("t", offset)
        if data.error_code:
            assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            repaired(client, offset)
            continue
        records = memoryview(bytes(data.records))
        for position, header in batches.headers(records):
            assert batches.checksum_matches(records[position:], header)
            read = batches.read_records(records[position : position + header.size], 1 << 20)
            for record in [record for record in read if record.offset < len(VALUES)]:
                assert bytes(record.value) == VALUES[record.offset].ljust(50_000)
                found.append(record.offset)
            offset = header.next_offset
    return found


def repaired(client, offset):
    eventually(lambda: client.fetch("t", offset).error_code == 0, "the damage is taken out")


@pytest.mark.parametrize(
    ("damage", "lost_max"),
    [
        (flip_one_bit, 1),
        (flip_in_the_active_segment, 1),
        (destroy_a_length, 1),
        (zero_pages, 3),
        (cut_short, 2),
        (change_names, 40),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_damage_in_what_was_synced_is_never_served_and_costs_itself_alone(
    stopped, damage, lost_max
):
    damage(stopped)
    with (
        BrokerProcess(stopped, settings=SETTINGS) as broker,
        RawClient(broker.bootstrap) as client,
    ):
        assert client.create_topic("neighbour").error_code == 0
        found = read_over_damage(client)
        assert 1 <= len(VALUES) - len(found) <= lost_max
        assert client.produce("neighbour", batch(b"v")).error_code == 0
        assert client.produce("t", batch(b"after")).base_offset == len(VALUES)
        gone = [number for number in range(len(VALUES)) if number not in found]
        assert f"t-0: offsets {gone[0]} to " in broker.log
        assert list((stopped / "t-0/quarantine").iterdir())
        assert broker.terminate() == 0
    with (
        BrokerProcess(stopped, settings=SETTINGS) as broker,
        RawClient(broker.bootstrap) as client,
    ):
        assert read_over_damage(client) == found
        assert "lost" not in broker.log, "once"
        assert broker.terminate() == 0


@pytest.mark.parametrize("way", ["deleted", "emptied", "garbage", "zeros"])
@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_files_beside_the_log_are_made_anew(request, state, way):
    data = request.getfixturevalue(state)
    for suffix in ("index", "timeindex", "snapshot"):
        files = sorted((data / "t-0").glob(f"*.{suffix}"))
        assert files
        for path in files:
            if way == "deleted":
                path.unlink()
            elif way == "emptied":
                path.write_bytes(b"")
            else:
                path.write_bytes(b"\xff\x01\x80" * 80 if way == "garbage" else bytes(240))
    found, _ = served(data)
    assert found == [value.strip() for value in VALUES]


CHECKPOINTS = (
    "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "t-0/leader-epoch-checkpoint",
)  # fmt: skip


@pytest.mark.parametrize("content", [None, b"", b"garbage\n", b"0\n2147483647\n"])
@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_checkpoints_that_are_damaged(request, state, content):
    data = request.getfixturevalue(state)
    for name in CHECKPOINTS:
        (data / name).unlink(missing_ok=True)
        if content is not None:
            (data / name).write_bytes(content)
    found, _ = served(data)
    assert found == [value.strip() for value in VALUES]
