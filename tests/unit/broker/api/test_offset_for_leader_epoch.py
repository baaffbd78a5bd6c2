"""OffsetForLeaderEpoch: where an epoch's records end, also after a crash that cut some off."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.sim.machine import Crash
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def ask(kit, epoch, current=-1, index=0):
    asked = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=current, leader_epoch=epoch
    )
    topic = OffsetForLeaderTopic(topic="t", partitions=[asked])
    answer = kit.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), 4)
    found = answer.topics[0].partitions[0]
    return ErrorCode(found.error_code), found.leader_epoch, found.end_offset


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", flush_messages="1")
    return kit


def test_the_leaders_epoch_is_known_before_its_first_record(kit):
    assert ask(kit, 0) == (ErrorCode.NONE, 0, 0)
    kit.produce("t", count=3)
    assert ask(kit, 0) == (ErrorCode.NONE, 0, 3)
    assert ask(kit, 1) == ask(kit, -1) == (ErrorCode.NONE, -1, -1)


def test_an_older_epoch_ends_where_the_next_one_began(kit):
    kit.produce("t", count=3)
    kit.crash(Crash.POWER)
    assert ask(kit, 0) == (ErrorCode.NONE, 0, 3)
    assert ask(kit, 1) == (ErrorCode.NONE, 1, 3)
    kit.produce("t", count=2)
    assert ask(kit, 0) == (ErrorCode.NONE, 0, 3)
    assert ask(kit, 1) == (ErrorCode.NONE, 1, 5)


def test_refused(kit):
    assert ask(kit, 0, current=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(kit, 0, index=7)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    kit.produce("t")
    kit.crash()
    assert ask(kit, 0, current=0)[0] == ErrorCode.FENCED_LEADER_EPOCH
