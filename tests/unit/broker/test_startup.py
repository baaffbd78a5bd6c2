"""Starting: what is found, what is adopted, what is set aside; and stopping so that the next start need not scan."""

import errno
import subprocess
import sys

import pytest
from node_kit import DATA, NodeKit

from barnabas.sim.machine import Crash
from barnabas.sim.world import MS


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=2, retention_ms="1234")
    for index in (0, 1):
        kit.produce("t", index, count=3)
    return kit


def stop(kit):
    """Stop cleanly; it starts again by itself when time goes on."""
    kit.machine.stop_cleanly(1000 * MS)
    kit.run(lambda: kit.machine.is_off)


def ends(kit):
    return [kit.offset("t", -1, index) for index in (0, 1)]


def reports(kit):
    return [replica.log.recovery.scanned_bytes for replica in kit.node.replicas]


def epochs(kit):
    return [partition.leader_epoch for partition in kit.node.topics.by_name["t"].partitions]


def test_a_clean_stop_is_followed_by_a_start_without_a_scan(kit):
    before = kit.node.cluster_id, kit.node.topics.by_name["t"]
    kit.restart()
    assert ends(kit) == [3, 3]
    assert reports(kit) == [0, 0]
    assert epochs(kit) == [0, 0]
    assert (kit.node.cluster_id, kit.node.topics.by_name["t"]) == before


def test_a_crash_is_followed_by_a_scan_and_a_new_leader_epoch(kit):
    kit.crash(Crash.PROCESS)
    assert ends(kit) == [3, 3]
    assert all(size > 0 for size in reports(kit))
    assert epochs(kit) == [1, 1]
    kit.crash(Crash.PROCESS)
    assert epochs(kit) == [2, 2]


def test_a_folder_that_no_topic_knows_is_set_aside(kit):
    stop(kit)
    for path in [path for path in kit.machine.store.tree if "/topics/t" in path]:
        del kit.machine.store.tree[path]
    kit._wait_up()
    names = kit.disk.list(DATA)
    assert (
        sorted(name.rpartition("-")[2] for name in names if name.startswith("t-")) == ["stray"] * 2
    )
    assert not kit.node.topics.by_name


def test_a_new_store_adopts_what_lies_there(kit):
    topic_id, cluster_id = kit.node.topics.by_name["t"].id, kit.node.cluster_id
    stop(kit)
    kit.machine.store.tree.clear()
    kit._wait_up()
    assert ends(kit) == [3, 3]
    assert kit.node.topics.by_name["t"].id == topic_id
    assert kit.node.cluster_id == cluster_id
    assert kit.produce("t").base_offset == 3


def test_a_log_that_cannot_be_opened_leaves_the_others(kit):
    stop(kit)
    kit.disk.fail_path(f"{DATA}/t-0/00000000000000000000.log", errno.ENOENT)
    kit._wait_up()
    assert kit.node.replicas.get("t", 0) is None
    assert kit.produce("t", 1).base_offset == 3


def test_what_only_a_new_store_needs_is_not_loaded_at_every_start():
    code = (
        "import sys, barnabas.broker.startup;"
        "assert 'barnabas.broker.adoption' not in sys.modules, 'a start pays for it'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
