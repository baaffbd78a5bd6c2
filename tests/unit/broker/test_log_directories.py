"""Several log directories, one of which fails: its partitions answer an error, the others serve."""

import errno

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.sim.world import MS
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ONE, TWO = "/one", "/two"
FAILED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def kit():
    """Four partitions: the even ones in the first directory, the odd ones in the second."""
    kit = NodeKit(log_dirs=f"{ONE},{TWO}")
    kit.create("t", partitions=4)
    for index in range(4):
        assert kit.produce("t", index).base_offset == 0
    return kit


def codes(kit):
    return [kit.produce("t", index).error_code for index in range(4)]


def directories(kit):
    results = kit.ask(DescribeLogDirsRequest(topics=None), 4).results
    return {result.log_dir: result.error_code for result in results}


def leaders(kit):
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    partitions = kit.ask(request, 9).topics[0].partitions
    return [(p.error_code, p.leader_id, p.offline_replicas) for p in partitions]


def path_of(index, directory):
    return f"{directory}/t-{index}/00000000000000000000.log"


def test_new_partitions_go_where_the_fewest_are(kit):
    kit.create("u", partitions=2)
    places = {replica.key: replica.directory.path for replica in kit.node.replicas}
    assert sorted(places.values()) == [ONE] * 3 + [TWO] * 3
    assert [places[("t", index)] for index in range(4)] == [ONE, TWO, ONE, TWO]


def test_an_error_takes_the_whole_directory_offline_and_no_other(kit):
    kit.disk.fail_path(path_of(1, TWO), errno.EIO)
    assert kit.produce("t", 1).error_code == FAILED
    kit.disk.heal()
    assert codes(kit) == [0, FAILED, 0, FAILED]
    assert directories(kit) == {ONE: 0, TWO: FAILED}
    gone = (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
    assert leaders(kit) == [(0, 1, []), gone, (0, 1, []), gone]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_what_passes_takes_nothing_offline(kit, code):
    kit.disk.fail_path(path_of(1, TWO), code)
    assert kit.produce("t", 3).error_code == 0
    kit.disk.heal()
    assert codes(kit) == [0] * 4


def test_a_file_that_is_gone_takes_its_partition_only(kit):
    kit.disk.fail_path(path_of(1, TWO), errno.ENOENT)
    assert kit.produce("t", 1).error_code == FAILED
    assert codes(kit) == [0, FAILED, 0, 0]


def test_a_start_brings_it_back(kit):
    kit.disk.fail_path(path_of(1, TWO), errno.EIO)
    assert kit.produce("t", 1).error_code == FAILED
    kit.disk.heal()
    kit.restart()
    assert codes(kit) == [0] * 4
    ends = [kit.offset("t", -1, index) for index in range(4)]
    assert ends in ([2, 2, 2, 2], [2, 3, 2, 2]), "what was refused may be there or not"


def test_a_directory_that_cannot_be_opened_is_offline_and_its_partitions_are_not_made_anew(kit):
    kit.disk.fail_path(TWO, errno.EIO)
    kit.crash(Crash.PROCESS)
    assert codes(kit) == [0, FAILED, 0, FAILED]
    assert directories(kit) == {ONE: 0, TWO: FAILED}
    kit.disk.heal()
    kit.advance(20_000)
    assert codes(kit) == [0, FAILED, 0, FAILED], "not before the next start"
    assert not [name for name in kit.disk.list(ONE) if name in ("t-1", "t-3")]
    kit.restart()
    assert codes(kit) == [0] * 4


def test_a_log_that_cannot_be_read_at_the_start_takes_its_directory_offline(kit):
    kit.disk.fail_path(path_of(3, TWO), errno.EIO)
    kit.crash(Crash.PROCESS)
    assert codes(kit) == [0, FAILED, 0, FAILED]
    assert directories(kit) == {ONE: 0, TWO: FAILED}


def test_new_topics_go_to_the_directories_that_are_left(kit):
    kit.disk.fail_path(TWO, errno.EIO)
    assert kit.produce("t", 1).error_code == FAILED
    kit.create("u", partitions=3)
    assert {replica.directory.path for replica in kit.node.replicas.of_topic("u")} == {ONE}


def test_the_directory_that_is_left_stops_cleanly(kit):
    kit.disk.fail_path(TWO, errno.EIO)
    assert kit.produce("t", 1).error_code == FAILED
    kit.restart()
    was_clean = {directory.path: directory.was_clean for directory in kit.node.directories}
    assert was_clean == {ONE: True, TWO: False}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT])
def test_checkpoints_that_cannot_be_written_take_the_directory_offline(kit, code):
    # ENOENT: somebody took the directory away, and what goes on being written to its open files is lost.
    kit.disk.fail_path(f"{TWO}/recovery-point-offset-checkpoint", code)
    kit.disk.fail_path(f"{TWO}/replication-offset-checkpoint", code)
    assert codes(kit) == [0] * 4
    kit.advance(70_000)
    assert codes(kit) == [0, FAILED, 0, FAILED]
    assert directories(kit) == {ONE: 0, TWO: FAILED}


def test_without_any_directory_the_start_fails(kit):
    kit.disk.fail_path(ONE, errno.EIO)
    kit.disk.fail_path(TWO, errno.EIO)
    kit.machine.crash(Crash.PROCESS, 1000)
    kit.run(lambda: kit.machine.failed_starts)
    assert "no log directory can be used" in str(kit.machine.last_failure)


@pytest.mark.parametrize("room", range(0, 200, 20))
def test_a_full_disk_does_not_keep_a_broker_from_starting(kit, room):
    kit.disk.capacity_bytes -= kit.disk.free_bytes - room
    kit.crash(Crash.PROCESS)
    kit.disk.capacity_bytes += 1_000_000
    kit.advance(20_000)
    assert codes(kit) == [0] * 4
    assert [kit.offset("t", -1, index) for index in range(4)] == [2] * 4


def test_a_partition_that_was_begun_anew_meanwhile_costs_a_disk_that_comes_back_no_record(
    kit, caplog
):
    away, back = f"{TWO}/t-1", f"{TWO}/away"
    change_while_off(kit, lambda: kit.disk.rename(away, back))
    assert "1 partitions have no folder in log.dirs and begin anew, empty: t-1;" in caplog.text
    for _ in range(3):  # reaches further than what was there
        assert kit.produce("t", 1, timestamp=2).error_code == 0
    there = kit.node.replicas.get("t", 1).directory.path
    change_while_off(kit, lambda: kit.disk.rename(back, f"{TWO if there == ONE else ONE}/t-1"))
    assert kit.offset("t", -1, 1) == 3
    strays = [
        f"{path}/{name}"
        for path in (ONE, TWO)
        for name in kit.disk.list(path)
        if name.startswith("t-1.") and name.endswith("-stray")
    ]
    assert len(strays) == 1
    assert kit.disk.open(f"{strays[0]}/00000000000000000000.log").size()


def test_two_folders_of_one_partition_do_not_hide_those_of_others(kit):
    def copy():
        kit.disk.make_dir(f"{TWO}/t-0")
        for name in kit.disk.list(f"{ONE}/t-0"):
            content = kit.disk.read_file(f"{ONE}/t-0/{name}")
            kit.disk.write_file_atomically(f"{TWO}/t-0/{name}", content)

    change_while_off(kit, copy)
    assert [kit.offset("t", -1, index) for index in range(4)] == [1, 1, 1, 1]
    places = [kit.node.replicas.get("t", index).directory.path for index in range(4)]
    assert places[1:] == [TWO, ONE, TWO]


def change_while_off(kit, change):
    """Kill the process, let somebody do this to its files, and start it again."""
    kit.machine.crash(Crash.PROCESS, MS)
    kit.disk.is_off = False
    change()
    kit.run(lambda: kit.machine.is_up)
    kit.client = kit.new_client()
