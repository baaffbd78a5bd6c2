"""AlterReplicaLogDirs: who is moved, who is refused, and why."""

import errno

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest

ONE, TWO = "/one", "/two"


def new_kit(**settings):
    kit = NodeKit(log_dirs=f"{ONE},{TWO}", **settings)
    kit.create("t", partitions=2)
    kit.produce("t", 0, count=3)
    return kit


@pytest.fixture
def kit():
    return new_kit()


@pytest.fixture
def slow_kit():
    """One whose moves wait after each piece."""
    return new_kit(replica_alter_log_dirs_io_max_bytes_per_second="10")


def alter(kit, path, topic="t", partitions=(0,)):
    """Ask; the codes by partition."""
    asked = AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[asked])])
    (result,) = kit.ask(request, 2).results
    assert result.topic_name == topic
    return {one.partition_index: one.error_code for one in result.partitions}


def directory_of(kit, index=0, topic="t"):
    return kit.node.replicas.get(topic, index).directory.path


def futures(kit):
    results = kit.ask(DescribeLogDirsRequest(topics=None), 4).results
    return {
        (result.log_dir, topic.name, one.partition_index): one
        for result in results
        for topic in result.topics
        for one in topic.partitions
        if one.is_future_key
    }


def test_a_partition_moves(kit):
    assert directory_of(kit) == ONE
    assert alter(kit, TWO) == {0: ErrorCode.NONE}
    kit.run(lambda: directory_of(kit) == TWO)
    assert kit.produce("t").base_offset == 3
    assert kit.offset("t", -1) == 4


def test_what_is_on_its_way_is_shown(slow_kit):
    kit = slow_kit
    alter(kit, TWO)
    kit.advance(100)
    kit.produce("t", 0, count=2)
    shown = futures(kit)
    assert list(shown) == [(TWO, "t", 0)]
    assert shown[TWO, "t", 0].offset_lag == 2
    assert shown[TWO, "t", 0].partition_size > 0
    kit.run(lambda: not futures(kit))
    assert directory_of(kit) == TWO


def test_an_unknown_directory(kit):
    assert alter(kit, "/three") == {0: ErrorCode.LOG_DIR_NOT_FOUND}
    assert alter(kit, "") == {0: ErrorCode.LOG_DIR_NOT_FOUND}


def test_a_directory_that_is_offline(kit):
    kit.disk.fail_path(TWO, errno.EIO)
    kit.produce("t", 1)
    assert alter(kit, TWO) == {0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_partition_that_is_offline(kit):
    kit.disk.fail_path(TWO, errno.EIO)
    kit.produce("t", 1)
    assert alter(kit, ONE, partitions=[0, 1]) == {0: 0, 1: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_name_that_is_too_long_for_a_copy(kit):
    assert alter(kit, TWO, topic="x" * 249) == {0: ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_what_is_not_there_is_made_where_it_was_wished(kit):
    assert set(alter(kit, TWO, topic="u", partitions=[0, 1, 2]).values()) == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    kit.create("u", partitions=4)
    assert [directory_of(kit, index, "u") for index in range(4)] == [TWO, TWO, TWO, ONE]


def test_where_it_is_already_nothing_happens(kit):
    assert alter(kit, ONE) == {0: ErrorCode.NONE}
    assert not futures(kit)


def test_a_move_is_called_off_by_wishing_it_back(slow_kit):
    kit = slow_kit
    alter(kit, TWO)
    kit.advance(100)
    assert futures(kit)
    assert alter(kit, ONE) == {0: ErrorCode.NONE}
    assert not futures(kit)
    kit.advance(20_000)
    assert directory_of(kit) == ONE
    assert not [name for name in kit.disk.list(TWO) if name.endswith("-future")]
