"""Moving a partition between directories: nothing is lost at any crash, whatever else happens on the way."""

import errno

import pytest
from node_kit import NodeKit

from barnabas.sim.machine import Crash
from barnabas.sim.world import MS
from barnabas.wire import batch
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

ONE, TWO = "/one", "/two"
SLOW = {"replica_alter_log_dirs_io_max_bytes_per_second": "10"}


def new_kit(*, seed=1, configs=(), **settings):
    """One partition in the first directory, three records in three segments."""
    kit = NodeKit(seed=seed, log_dirs=f"{ONE},{TWO}", **settings)
    kit.create("t", **{"flush_messages": "1", **dict(configs)})
    for _ in range(3):
        assert kit.produce("t").error_code == 0
        kit.node.replicas.get("t", 0).log.roll(0)
    assert kit.produce("t").base_offset == 3
    return kit


def move(kit, path=TWO):
    replica = kit.node.replicas.get("t", 0)
    directory = next(one for one in kit.node.directories if one.path == path)
    kit.machine.enter(lambda: kit.node.moves.request(replica, directory))


def place(kit):
    return kit.node.replicas.get("t", 0).directory.path


def settle(kit):
    """Let moves come to their end."""
    kit.run(lambda: not kit.node.moves.is_moving(("t", 0)))


def offsets(kit):
    found, offset = [], kit.offset("t", -2)
    while offset < kit.offset("t", -1):
        answer = kit.ask(kit.fetch_request("t", offset), 11).responses[0].partitions[0]
        assert answer.error_code == 0
        for _, header in batch.headers(memoryview(bytes(answer.records))):
            found += range(header.base_offset, header.next_offset)
            offset = header.next_offset
    return found


def folders(kit, path):
    return [name for name in kit.disk.list(path) if kit.disk.is_dir(f"{path}/{name}")]


def test_it_is_served_from_the_new_directory_and_the_old_folder_goes():
    kit = new_kit()
    move(kit)
    settle(kit)
    assert place(kit) == TWO
    assert offsets(kit) == [0, 1, 2, 3]
    assert kit.produce("t").base_offset == 4
    assert folders(kit, TWO) == ["t-0"]
    assert [name.endswith("-delete") for name in folders(kit, ONE)] == [True]
    kit.advance(120_000)
    assert folders(kit, ONE) == []
    kit.restart()
    assert offsets(kit) == [0, 1, 2, 3, 4]
    assert kit.node.replicas.get("t", 0).log.recovery.scanned_bytes == 0


def test_records_that_come_meanwhile_move_too():
    kit = new_kit(**SLOW)
    move(kit)
    kit.advance(1000)
    assert kit.produce("t", count=2).base_offset == 4
    kit.node.replicas.get("t", 0).log.roll(0)
    assert kit.produce("t").base_offset == 6
    settle(kit)
    assert place(kit) == TWO
    assert offsets(kit) == list(range(7))
    kit.crash(Crash.POWER)
    assert offsets(kit) == list(range(7))


def test_records_that_are_deleted_meanwhile_do_not_come_back():
    kit = new_kit(**SLOW)
    move(kit)
    kit.advance(10_000)
    asked = DeleteRecordsPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=1000
    )
    assert kit.ask(request, 2).topics[0].partitions[0].error_code == 0
    settle(kit)
    assert place(kit) == TWO
    assert offsets(kit) == [2, 3]
    kit.restart()
    assert offsets(kit) == [2, 3]
    assert not [name for name in kit.disk.list(f"{TWO}/t-0") if name.startswith("0" * 20)]


def test_there_and_back_again():
    kit = new_kit()
    for path in (TWO, ONE, TWO):
        move(kit, path)
        settle(kit)
        assert place(kit) == path
        kit.produce("t")
    move(kit, ONE)
    kit.run(lambda: place(kit) == ONE)
    move(kit, TWO)
    settle(kit)
    assert place(kit) == TWO
    assert offsets(kit) == list(range(7))


def test_a_topic_that_is_deleted_takes_its_copy_with_it():
    kit = new_kit(**SLOW)
    move(kit)
    kit.advance(1000)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert kit.ask(gone, 6).responses[0].error_code == 0
    kit.create("t")
    kit.advance(120_000)
    assert sorted(folders(kit, ONE) + folders(kit, TWO)) == ["t-0"]


def test_a_full_directory_ends_the_move_and_nothing_else():
    kit = new_kit()
    kit.disk.fail_path(TWO, errno.ENOSPC)
    move(kit)
    settle(kit)
    kit.disk.heal()
    assert place(kit) == ONE
    assert kit.produce("t").error_code == 0
    assert all(directory.is_online for directory in kit.node.directories)


def test_a_directory_that_fails_ends_the_move_and_goes_offline():
    kit = new_kit()
    kit.disk.fail_path(TWO, errno.EIO)
    move(kit)
    settle(kit)
    assert place(kit) == ONE
    assert [directory.is_online for directory in kit.node.directories] == [True, False]
    assert kit.produce("t").error_code == 0


def test_a_folder_that_is_in_the_way_ends_the_move_and_nothing_else():
    """An earlier move may have left it."""
    kit = new_kit()
    kit.disk.make_dir(f"{TWO}/t-0")
    move(kit)
    settle(kit)
    assert place(kit) == ONE
    assert all(directory.is_online for directory in kit.node.directories)
    assert kit.produce("t").error_code == 0


def test_a_throttled_move_is_not_waited_for():
    """A deletion, a cut or a stop may need the log: it looks often whether it is still wanted."""
    kit = new_kit(replica_alter_log_dirs_io_max_bytes_per_second="1")
    move(kit)
    kit.advance(1000)
    replica = kit.node.replicas.get("t", 0)
    assert kit.node.claims.is_taken(replica)
    move(kit, ONE)
    kit.advance(200)
    assert not kit.node.claims.is_taken(replica)


def test_a_stop_in_the_middle_is_made_up_for_at_the_next_start():
    kit = new_kit(**SLOW)
    move(kit)
    kit.advance(1000)
    kit.restart()
    assert place(kit) == ONE
    settle(kit)
    assert place(kit) == TWO
    assert offsets(kit) == [0, 1, 2, 3]
    assert folders(kit, TWO) == ["t-0"]


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_at_any_call_of_the_disk_loses_nothing(crash):
    """Records were synced before they were acknowledged, so not even a power loss may take one."""
    for nth in range(1, 1000):
        kit = new_kit(seed=nth)
        kit.machine.crash_at_call(crash, nth, MS)
        move(kit)
        kit.run(lambda kit=kit: kit.machine.is_off or not kit.node.moves.is_moving(("t", 0)))
        is_over = not kit.machine.is_off
        if is_over:
            kit.disk.spare()
            kit.crash(crash)
        else:
            kit._wait_up()
        assert offsets(kit) == [0, 1, 2, 3]
        assert kit.produce("t").base_offset == 4
        settle(kit)
        kit.restart()
        assert offsets(kit) == [0, 1, 2, 3, 4]
        assert (
            len([name for path in (ONE, TWO) for name in folders(kit, path) if name == "t-0"]) == 1
        )
        if is_over:
            break
    assert nth > 30
