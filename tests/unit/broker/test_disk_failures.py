"""Errors of the disk that pass are told when they begin, and not once for each request that meets them."""

import pytest
from node_kit import NodeKit

from barnabas.broker.coordinators import TOPIC
from barnabas.broker.quiet import QUIET_MS
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages import find_coordinator, offset_commit

FULL = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=2)
    kit.ask(find_coordinator.FindCoordinatorRequest(key="g"), 0)
    return kit


def fill(kit):
    kit.disk.capacity_bytes = kit.disk.used_bytes


def lines(caplog):
    """What was said of partitions; checkpoints find no room, either."""
    told = [record.getMessage() for record in caplog.records]
    return [line for line in told if "cannot append" in line]


def commit(kit):
    partition = offset_commit.OffsetCommitRequestPartition(committed_offset=1)
    topic = offset_commit.OffsetCommitRequestTopic(name="t", partitions=[partition])
    answer = kit.ask(offset_commit.OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    return answer.topics[0].partitions[0].error_code


def test_a_full_disk_is_told_when_it_begins_and_now_and_then(kit, caplog):
    fill(kit)
    assert [kit.produce("t", number % 2).error_code for number in range(10)] == [FULL] * 10
    (line,) = lines(caplog)
    assert "t-0: cannot append for now" in line
    kit.advance(QUIET_MS)
    assert kit.produce("t", 1).error_code == FULL
    _, line = lines(caplog)
    assert "t-1: cannot append for now" in line
    assert line.endswith("(9 more since the last line)")
    kit.disk.capacity_bytes = 1 << 40
    assert kit.produce("t").error_code == 0


def test_commits_that_find_no_room_are_not_told_one_by_one(kit, caplog):
    assert commit(kit) == 0
    fill(kit)
    assert [commit(kit) for _ in range(10)] == [ErrorCode.NOT_COORDINATOR] * 10
    (line,) = lines(caplog)
    assert line.startswith(f"{TOPIC}-")
    kit.disk.capacity_bytes = 1 << 40
    assert commit(kit) == 0
