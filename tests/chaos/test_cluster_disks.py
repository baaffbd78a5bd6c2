"""F10 in a cluster: a disk that fails under one of three replicas. Others lead, and the broker that lost it goes on with what it has."""

import contextlib
import resource
import subprocess

import pytest
from cluster_kit import Cluster, assert_logs_equal, only_in_make_chaos, wait_until
from load_kit import Load, assert_nothing_lost

ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, directories=2) as running:
        running.create("t", ASSIGNMENT, min_insync_replicas=2, flush_messages=1)
        yield running


def test_others_lead_what_a_broker_lost_with_a_disk(cluster, tmp_path):
    folder = cluster.directories_of(1)[1]
    wait_until(
        lambda: len([*folder.parent.glob("broker-1-disk-*/t-*")]) == len(ASSIGNMENT),
        "its logs are made",
    )
    lost = sorted(int(path.name.rpartition("-")[2]) for path in folder.glob("t-*"))
    kept = [index for index in range(4) if index not in lost]
    assert len(lost) == 2
    with Load(cluster, "t") as load:
        load.wait_for_more()
        folder.rename(tmp_path / "away")
        folder.write_text("a file")
        cluster.create("more", [[1, 2, 3]] * 2)
        wait_until(
            lambda: all(1 not in cluster.partitions("t")[index][1] for index in lost),
            "what it lost is out of sync there",
        )
        leaders = cluster.leaders("t")
        assert all(leaders[index] in (2, 3) for index in lost)
        assert all(cluster.partitions("t")[index][1] == [1, 2, 3] for index in kept)
        load.wait_for_more()
        cluster.kill(1)
        folder.unlink()
        (tmp_path / "away").rename(folder)
        cluster.start(1)
        cluster.wait_healthy("t")
        load.wait_for_more()
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")


@only_in_make_chaos
def test_a_disk_without_room_for_a_new_replica(tmp_path, zookeeper):
    """The others have the topic at once; the replica is made when there is room, without a restart."""
    disk = tmp_path / "broker-3-disk-0"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a file system of its own needs the right to mount one")
    try:
        with Cluster(tmp_path, zookeeper) as cluster:
            filler = disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            cluster.create("t", [[1, 2, 3], [3, 2, 1]])
            wait_until(lambda: cluster.is_healthy("t", 2), "two of three are in sync")
            filler.unlink()
            cluster.wait_healthy("t")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_takes_no_more_writes(tmp_path, zookeeper):
    """Every write of one broker fails with an error of the system. Others lead; a new process on the same files catches up."""
    with Cluster(tmp_path, zookeeper) as cluster:
        cluster.create("t", ASSIGNMENT, min_insync_replicas=2)
        with Load(cluster, "t") as load:
            load.wait_for_more()
            broker = cluster.brokers[1]
            segments = cluster.directories_of(1)[0].glob("t-*/*.log")
            largest = max(path.stat().st_size for path in segments)
            resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (largest, largest))
            wait_until(
                lambda: all(
                    leader != 1 and isr == [2, 3] for leader, isr in cluster.partitions("t", 2)
                ),
                "it leads nothing, and is in sync with nobody",
            )
            assert broker.process.poll() is None, "it goes on with what it has, which is nothing"
            load.wait_for_more()
            cluster.kill(1)
            cluster.start(1)
            cluster.wait_healthy("t")
            load.wait_for_more()
        assert_nothing_lost(cluster, "t", load)
        assert_logs_equal(cluster, "t")
