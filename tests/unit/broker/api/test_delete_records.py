"""DeleteRecords: gone for readers at once, and still gone after a crash."""

import pytest
from node_kit import DATA, NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


def delete(kit, offset, name="t", index=0):
    """Ask for it; code and low watermark."""
    asked = DeleteRecordsPartition(partition_index=index, offset=offset)
    topic = DeleteRecordsTopic(name=name, partitions=[asked])
    answer = kit.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    found = answer.topics[0].partitions[0]
    return ErrorCode(found.error_code), found.low_watermark


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", internal_segment_bytes="300", file_delete_delay_ms="1000", flush_messages="1")
    for _ in range(10):
        kit.produce("t", count=3)
    return kit


def logs(kit):
    return [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".log")]


def test_the_log_starts_there_and_whole_segments_go(kit):
    before = logs(kit)
    assert len(before) > 2
    assert delete(kit, 17) == (ErrorCode.NONE, 17)
    assert kit.offset("t", -2) == 17
    assert kit.ask(kit.fetch_request("t", 16), 11).responses[0].partitions[0].error_code == 1
    left = logs(kit)
    assert left == before[-len(left) :]
    assert len(left) < len(before)
    assert [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".deleted")]
    kit.advance(2000)
    assert not [name for name in kit.disk.list(f"{DATA}/t-0") if name.endswith(".deleted")]


def test_everything_up_to_the_high_watermark(kit):
    assert delete(kit, -1) == (ErrorCode.NONE, 30)
    assert kit.offset("t", -2) == kit.offset("t", -1) == 30
    assert kit.produce("t").base_offset == 30


def test_an_offset_already_deleted_changes_nothing(kit):
    delete(kit, 17)
    assert delete(kit, 5) == (ErrorCode.NONE, 17)


@pytest.mark.parametrize("offset", [31, -2, 1 << 40])
def test_out_of_range(kit, offset):
    assert delete(kit, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert kit.offset("t", -2) == 0


def test_unknown_and_compacted(kit):
    assert delete(kit, 0, "nosuch") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(kit, 0, index=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    kit.create("c", cleanup_policy="compact")
    assert delete(kit, 0, "c") == (ErrorCode.POLICY_VIOLATION, -1)


@pytest.mark.parametrize("crash", list(Crash))
def test_an_answered_deletion_outlives_a_crash(kit, crash):
    delete(kit, 17)
    kit.crash(crash)
    assert (kit.offset("t", -2), kit.offset("t", -1)) == (17, 30)


def test_a_new_topic_of_the_same_name_does_not_inherit_the_start(kit):
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest

    delete(kit, 17)
    kit.ask(DeleteTopicsRequest(topic_names=["t"]), 5)
    kit.create("t", flush_messages="1")
    kit.produce("t", count=2)
    kit.crash()
    assert (kit.offset("t", -2), kit.offset("t", -1)) == (0, 2)
