from __future__ import annotations

import random

import pytest

from barnabas.model.config.log_config import build_log_config
from barnabas.model.ids import TopicId, TopicPartition
from barnabas.sim.disk import SimDisk
from barnabas.storage.directory import (
    CLEAN_SHUTDOWN_CONTENT,
    LogDirectory,
    WrongTopic,
    parse_folder,
    read_identity,
)
from barnabas.storage.meta_properties import CorruptMetaProperties, ForeignDirectory
from barnabas.storage.partition_metadata import CorruptPartitionMetadata

CLUSTER = "a6dZrxC77yTLAp_zLsUmmA"
ORDERS = TopicPartition("orders.eu-west", 0)
ORDERS_ID = TopicId(bytes.fromhex("ef4eaef0e40a444db1d6cee64a9fc9df"))
OTHER_ID = TopicId(bytes.fromhex("4fd6dda0627743be874857ed6437737b"))
CONFIG = build_log_config()


class SeededRng:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(1))


def directory_on(disk: SimDisk, path: str = "/data") -> LogDirectory:
    return LogDirectory(disk, SeededRng(), path)


def put(disk: SimDisk, path: str, content: bytes) -> None:
    disk.make_dir(path.rpartition("/")[0])
    disk.write_file_atomically(path, content)


def kafkas(disk: SimDisk) -> LogDirectory:
    """The files of a directory that Apache Kafka 4.3.1 left, as far as they matter here."""
    put(
        disk,
        "/data/meta.properties",
        b"#\n#Sun Nov 15 22:30:04 UTC 2026\nnode.id=1\ndirectory.id=XMBlz_6EGANfXL4kKMNBxg\n"
        b"version=1\ncluster.id=a6dZrxC77yTLAp_zLsUmmA\n",
    )
    put(disk, "/data/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":12}')
    put(disk, "/data/.lock", b"")
    put(disk, "/data/bootstrap.checkpoint", b"\0\1\2")
    put(disk, "/data/cleaner-offset-checkpoint", b"")
    put(disk, "/data/log-start-offset-checkpoint", b"0\n1\norders.eu-west 0 100\n")
    points = b"0\n2\norders.eu-west 1 0\norders.eu-west 0 6000\n"
    put(disk, "/data/recovery-point-offset-checkpoint", points)
    put(disk, "/data/replication-offset-checkpoint", points)
    put(
        disk,
        "/data/__cluster_metadata-0/partition.metadata",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
    )
    for partition in (0, 1):
        put(
            disk,
            f"/data/orders.eu-west-{partition}/partition.metadata",
            b"version: 0\ntopic_id: 706u8OQKRE2x1s7mSp_J3w",
        )
    return directory_on(disk)


# Opening


def test_new_directory_is_made_and_named(disk: SimDisk) -> None:
    directory = directory_on(disk, "/var/data/")
    contents = directory.open(CLUSTER, 3)
    assert contents.partitions == []
    assert not directory.was_clean
    meta = read_identity(disk, "/var/data")
    assert meta is not None
    assert (meta.version, meta.cluster_id, meta.node_id) == (1, CLUSTER, 3)
    assert meta.directory_id == directory.directory_id
    assert len(meta.directory_id or b"") == 16
    assert disk.list("/var/data") == ["meta.properties"]


def test_directory_keeps_its_id(disk: SimDisk) -> None:
    first = directory_on(disk)
    first.open(CLUSTER, 3)
    again = LogDirectory(disk, SeededRng(99), "/data")
    again.open(CLUSTER, 3)
    assert again.directory_id == first.directory_id


def test_directory_id_never_looks_like_an_option() -> None:
    class DashFirst:
        def __init__(self) -> None:
            self.drawn = 0

        def random_bytes(self, size: int) -> bytes:
            self.drawn += 1
            return (b"\xf8" if self.drawn == 1 else b"\x01") * size

    rng = DashFirst()
    directory = LogDirectory(SimDisk(random.Random(1)), rng, "/data")
    directory.open(CLUSTER, 3)
    assert rng.drawn == 2


def test_kafkas_directory_opens(disk: SimDisk) -> None:
    directory = kafkas(disk)
    contents = directory.open(CLUSTER, 1)
    assert directory.was_clean
    assert [(found.topic_partition, found.topic_id) for found in contents.partitions] == [
        (ORDERS, ORDERS_ID),
        (TopicPartition("orders.eu-west", 1), ORDERS_ID),
    ]
    assert contents.internal == ["/data/__cluster_metadata-0"]
    assert contents.problems == []
    assert contents.unknown == []
    assert directory.recovery_points[ORDERS] == 6000
    assert directory.log_start_offsets == {ORDERS: 100}
    assert directory.high_watermarks[ORDERS] == 6000
    assert directory.directory_id is not None
    # The mark counts once, and all that is not ours stays.
    left = disk.list("/data")
    assert ".kafka_cleanshutdown" not in left
    assert {"bootstrap.checkpoint", ".lock", "cleaner-offset-checkpoint"} <= set(left)


def test_zookeeper_era_directory_stays_one(disk: SimDisk) -> None:
    content = b"#\n#Sun Nov 15 22:30:04 UTC 2026\ncluster.id=x\nversion=0\nbroker.id=2\n"
    put(disk, "/data/meta.properties", content)
    directory = directory_on(disk)
    directory.open("x", 2)
    assert directory.directory_id is None
    assert disk.read_file("/data/meta.properties") == content


def test_missing_directory_id_is_added(disk: SimDisk) -> None:
    put(disk, "/data/meta.properties", b"node.id=2\nversion=1\ncluster.id=x\n")
    directory = directory_on(disk)
    directory.open("x", 2)
    meta = read_identity(disk, "/data")
    assert meta is not None
    assert meta.directory_id == directory.directory_id is not None


@pytest.mark.parametrize(("cluster", "broker"), [("other", 1), (CLUSTER, 2)])
def test_foreign_directory_is_not_touched(disk: SimDisk, cluster: str, broker: int) -> None:
    directory = kafkas(disk)
    before = disk.contents()
    with pytest.raises(ForeignDirectory):
        directory.open(cluster, broker)
    assert disk.contents() == before


def test_unreadable_meta_properties_stops(disk: SimDisk) -> None:
    put(disk, "/data/meta.properties", b"version=9\n")
    with pytest.raises(CorruptMetaProperties, match=r"^/data: version 9"):
        directory_on(disk).open(CLUSTER, 1)


def test_clean_mark_is_gone_for_good(disk: SimDisk) -> None:
    for seed in range(30):
        disk = SimDisk(random.Random(seed))
        directory = kafkas(disk)
        directory.open(CLUSTER, 1)
        assert directory.was_clean
        disk.crash()
        again = directory_on(disk)
        again.open(CLUSTER, 1)
        assert not again.was_clean


def test_corrupt_checkpoint_is_reported_and_not_used(disk: SimDisk) -> None:
    directory = kafkas(disk)
    put(disk, "/data/recovery-point-offset-checkpoint", b"0\n3\norders.eu-west 0 6000\n")
    contents = directory.open(CLUSTER, 1)
    assert directory.recovery_points == {}
    assert directory.log_start_offsets == {ORDERS: 100}
    (problem,) = contents.problems
    assert problem.startswith("/data/recovery-point-offset-checkpoint is not used: 3 entries")


def test_folders_are_told_apart(disk: SimDisk) -> None:
    unique = "0123456789abcdef0123456789abcdef"
    for name in (
        "a-b-0",
        f"a-b-1.{unique}-delete",
        f"a-b-2.{unique}-future",
        f"a-b-3.{unique}-stray",
        f"x-x.{unique}-delete",
        "not-delete",
        "remote-log-index-cache",
        "lost+found",
        "a-01",
    ):
        disk.make_dir(f"/data/{name}")
    disk.write_file_atomically("/data/file-0", b"")
    contents = directory_on(disk).open(CLUSTER, 1)
    assert [found.topic_partition for found in contents.partitions] == [TopicPartition("a-b", 0)]
    assert contents.partitions[0].topic_id is None
    assert contents.deleted == [f"/data/a-b-1.{unique}-delete"]
    assert contents.future == [f"/data/a-b-2.{unique}-future"]
    assert contents.stray == [f"/data/a-b-3.{unique}-stray"]
    assert contents.unknown == [
        "/data/a-01",
        "/data/lost+found",
        "/data/not-delete",
        "/data/remote-log-index-cache",
        f"/data/x-x.{unique}-delete",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", ("a", 0)),
        ("a-b-17", ("a-b", 17)),
        ("a--5", ("a-", 5)),
        ("a-2147483647", ("a", 2147483647)),
        ("a-2147483648", None),
        ("a-01", None),
        ("a-", None),
        ("-0", None),
        ("a", None),
        ("a-x", None),
        ("a b-0", None),
        ("..-0", None),
    ],
)
def test_parse_folder(name: str, expected: tuple[str, int] | None) -> None:
    assert parse_folder(name) == expected


# Logs


def test_new_log(disk: SimDisk) -> None:
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    log = directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.directory == "/data/orders.eu-west-0"
    content = disk.read_file("/data/orders.eu-west-0/partition.metadata")
    assert content == b"version: 0\ntopic_id: 706u8OQKRE2x1s7mSp_J3w"
    log.close(clean=True)
    disk.crash()
    (found,) = directory_on(disk).open(CLUSTER, 1).partitions
    assert (found.topic_partition, found.topic_id) == (ORDERS, ORDERS_ID)


def test_log_opens_with_what_the_checkpoints_say(disk: SimDisk) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    log = directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000)
    assert log.log_start_offset == 100
    log.close(clean=True)


def test_log_of_another_topic_is_refused(disk: SimDisk) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    with pytest.raises(WrongTopic, match="706u8OQKRE2x1s7mSp_J3w, not T9bdoGJ3Q76HSFftZDdzew"):
        directory.open_log(ORDERS, OTHER_ID, CONFIG, 1000)


def test_folder_that_says_nothing_is_claimed(disk: SimDisk) -> None:
    disk.make_dir("/data/orders.eu-west-0")
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000).close(clean=True)
    (found,) = directory_on(disk).open(CLUSTER, 1).partitions
    assert found.topic_id == ORDERS_ID


def test_folder_that_says_nonsense_is_not_served(disk: SimDisk) -> None:
    directory = kafkas(disk)
    put(disk, "/data/orders.eu-west-0/partition.metadata", b"nonsense")
    contents = directory.open(CLUSTER, 1)
    assert contents.partitions[0].topic_id is None
    assert contents.problems[0].startswith("/data/orders.eu-west-0 does not say whose it is: ")
    with pytest.raises(CorruptPartitionMetadata):
        directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000)


@pytest.mark.parametrize(
    "left", [b"nonsense", b"version: 0\ntopic_id: T9bdoGJ3Q76HSFftZDdzew", b"version: 1"]
)
def test_damaged_id_is_known_by_its_sum(disk: SimDisk, left: bytes) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    log = directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000)
    log.assign_epoch(3)
    log.close(clean=True)
    put(disk, "/data/orders.eu-west-0/partition.metadata", left)
    again = directory_on(disk)
    again.open(CLUSTER, 1)
    assert again.was_of(ORDERS, ORDERS_ID)
    assert not again.was_of(ORDERS, OTHER_ID)
    again.open_log(ORDERS, ORDERS_ID, CONFIG, 1000).close(clean=True)
    assert again.holds(ORDERS, ORDERS_ID)


@pytest.mark.parametrize("left", [b"", bytes(43)])
def test_what_a_power_loss_left_of_the_id_is_written_again(disk: SimDisk, left: bytes) -> None:
    directory = kafkas(disk)
    put(disk, "/data/orders.eu-west-0/partition.metadata", left)
    assert directory.open(CLUSTER, 1).problems == []
    directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000).close(clean=True)
    (found, *_) = directory_on(disk).open(CLUSTER, 1).partitions
    assert found.topic_id == ORDERS_ID


# Setting aside


def test_rename_for_delete(disk: SimDisk) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    log = directory.open_log(ORDERS, ORDERS_ID, CONFIG, 1000)
    log.close(clean=False)
    path = directory.rename_for_delete(ORDERS)
    assert path.startswith("/data/orders.eu-west-0.")
    assert len(path.removeprefix("/data/orders.eu-west-0.").removesuffix("-delete")) == 32
    disk.crash()
    contents = directory_on(disk).open(CLUSTER, 1)
    assert contents.deleted == [path]
    assert ORDERS not in [found.topic_partition for found in contents.partitions]


def test_only_a_topics_own_folder_is_renamed_for_its_deletion(disk: SimDisk) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    assert directory.set_own_aside(ORDERS, OTHER_ID, is_stray=False) is None
    assert directory.has_folder(ORDERS)
    path = directory.set_own_aside(ORDERS, ORDERS_ID, is_stray=False)
    assert path is not None
    assert path.endswith("-delete")
    assert disk.is_dir(path)
    assert directory.set_own_aside(ORDERS, ORDERS_ID, is_stray=False) is None


@pytest.mark.parametrize("content", [b"", b"no properties"])
def test_a_folder_that_does_not_say_whose_it_is_is_renamed_for_a_deletion(
    disk: SimDisk, content: bytes
) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    disk.write_file_atomically(f"/data/{ORDERS}/partition.metadata", content)
    assert directory.set_own_aside(ORDERS, ORDERS_ID, is_stray=False) is not None


def test_recreated_topic_starts_at_zero(disk: SimDisk) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    directory.rename_for_delete(ORDERS)
    assert ORDERS not in directory.recovery_points
    log = directory.open_log(ORDERS, OTHER_ID, CONFIG, 1000)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    log.close(clean=True)


def test_stale_checkpoint_does_not_reach_a_new_folder(disk: SimDisk) -> None:
    directory = kafkas(disk)
    disk.remove_tree("/data/orders.eu-west-0")
    directory.open(CLUSTER, 1)
    log = directory.open_log(ORDERS, OTHER_ID, CONFIG, 1000)
    assert log.log_start_offset == 0
    log.close(clean=True)


def test_long_names_are_cut(disk: SimDisk) -> None:
    key = TopicPartition("t" * 249, 12345)
    disk.make_dir(f"/data/{key}")
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    name = directory.rename_for_delete(key).removeprefix("/data/")
    assert len(name) == 255
    assert name.startswith("t" * 209 + "-12345.")
    assert directory_on(disk).open(CLUSTER, 1).deleted == [f"/data/{name}"]


def test_rename_stray(disk: SimDisk) -> None:
    directory = kafkas(disk)
    directory.open(CLUSTER, 1)
    path = directory.rename_stray(ORDERS)
    assert path.endswith("-stray")
    contents = directory_on(disk).open(CLUSTER, 1)
    assert contents.stray == [path]
    assert disk.exists(f"{path}/partition.metadata")


# Checkpoints and the clean mark


def test_checkpoints_come_back(disk: SimDisk) -> None:
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    directory.write_checkpoints({ORDERS: 7}, {}, {ORDERS: 9})
    directory.mark_clean()
    disk.crash()
    assert disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\norders.eu-west 0 7\n"
    assert disk.read_file("/data/.kafka_cleanshutdown") == CLEAN_SHUTDOWN_CONTENT
    again = directory_on(disk)
    again.open(CLUSTER, 1)
    assert again.was_clean
    assert again.recovery_points == {ORDERS: 7}
    assert again.log_start_offsets == {}
    assert again.high_watermarks == {ORDERS: 9}


def test_unchanged_checkpoints_are_not_written(disk: SimDisk) -> None:
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    directory.write_checkpoints({ORDERS: 7}, {}, {ORDERS: 9})
    before = disk.calls
    directory.write_checkpoints({ORDERS: 7}, {}, {ORDERS: 9})
    assert disk.calls == before
    directory.write_checkpoints({ORDERS: 8}, {}, {ORDERS: 9})
    assert disk.calls == before + 1


def test_checkpoint_that_failed_is_written_again(disk: SimDisk) -> None:
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    directory.write_checkpoints({ORDERS: 7}, {}, {})
    disk.fail_call(1)
    with pytest.raises(OSError, match="recovery-point"):
        directory.write_checkpoints({ORDERS: 8}, {}, {})
    directory.write_checkpoints({ORDERS: 7}, {}, {})
    disk.crash()
    assert disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\norders.eu-west 0 7\n"


# Every call failing once (SQLite's method)


def a_life(disk: SimDisk) -> None:
    directory = directory_on(disk)
    directory.open(CLUSTER, 1)
    gone = TopicPartition("gone", 0)
    for key, topic_id in ((ORDERS, ORDERS_ID), (gone, OTHER_ID)):
        directory.open_log(key, topic_id, CONFIG, 1000).close(clean=True)
    disk.remove_tree(directory.rename_for_delete(gone))
    directory.write_checkpoints({ORDERS: 0}, {}, {ORDERS: 0})
    directory.mark_clean()


@pytest.mark.parametrize("power_loss", [False, True])
def test_every_call_fails_once(power_loss: bool) -> None:
    nth, failed = 0, True
    while failed:
        nth += 1
        disk = SimDisk(random.Random(nth))
        disk.fail_call(nth)
        try:
            a_life(disk)
            failed = False
        except OSError:
            if power_loss:
                disk.crash()
            else:
                disk.process_crash()
            a_life(disk)
        disk.heal()
        directory = directory_on(disk)
        contents = directory.open(CLUSTER, 1)
        assert directory.was_clean
        assert [found.topic_id for found in contents.partitions] == [ORDERS_ID]
        assert contents.problems == []
    assert nth > 30
