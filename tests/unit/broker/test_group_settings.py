"""What the broker is set to holds for its groups."""

import pytest
from node_kit import NodeKit

from barnabas.wire.messages import (
    consumer_group_heartbeat,
    find_coordinator,
    join_group,
    offset_commit,
)

NONE, METADATA_TOO_LARGE, INVALID_SESSION_TIMEOUT, UNSUPPORTED_VERSION = 0, 12, 26, 35
MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, UNSUPPORTED_ASSIGNOR = 79, 81, 112


@pytest.fixture
def make():
    def make(**settings):
        kit = NodeKit(group_initial_rebalance_delay_ms="0", **settings)
        kit.create("t", partitions=2)
        kit.ask(find_coordinator.FindCoordinatorRequest(key="g"), 0)
        return kit

    return make


def join(kit, session_timeout_ms=10_000, instance=None):
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=bytes(10))
    request = join_group.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=20_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return kit.ask(request, 9).error_code


def consume(kit, member_id, **fields):
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        rebalance_timeout_ms=20_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        **fields,
    )
    return kit.ask(request, 1)


def commit(kit, text):
    partition = offset_commit.OffsetCommitRequestPartition(
        committed_offset=1, committed_metadata=text
    )
    topic = offset_commit.OffsetCommitRequestTopic(name="t", partitions=[partition])
    answer = kit.ask(offset_commit.OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    return answer.topics[0].partitions[0].error_code


def test_group_max_size(make):
    kit = make(group_max_size="1")
    assert join(kit, instance="first") == NONE
    assert join(kit, instance="second") == GROUP_MAX_SIZE_REACHED
    assert join(kit) == GROUP_MAX_SIZE_REACHED


def test_group_consumer_max_size(make):
    kit = make(group_consumer_max_size="1")
    assert consume(kit, "first").error_code == NONE
    assert consume(kit, "second").error_code == GROUP_MAX_SIZE_REACHED


def test_bounds_of_the_session_time_out(make):
    kit = make(group_min_session_timeout_ms="7000", group_max_session_timeout_ms="9000")
    codes = [join(kit, session) for session in (6999, 7000, 9000, 9001)]
    out = INVALID_SESSION_TIMEOUT
    assert codes == [out, MEMBER_ID_REQUIRED, MEMBER_ID_REQUIRED, out]


def test_times_of_the_consumer_protocol(make):
    kit = make(group_consumer_heartbeat_interval_ms="6000")
    assert consume(kit, "m").heartbeat_interval_ms == 6000
    kit.advance(44_000)
    assert consume(kit, "m", member_epoch=0).error_code == NONE
    kit.advance(46_000)
    assert kit.node.coordinators.find("g").shard.groups["g"].is_empty


def test_assignors(make):
    kit = make(group_consumer_assignors="range")
    assert consume(kit, "m", server_assignor="uniform").error_code == UNSUPPORTED_ASSIGNOR
    assert consume(kit, "m", server_assignor="range").error_code == NONE


def test_protocols(make):
    kit = make(group_coordinator_rebalance_protocols="classic")
    assert consume(kit, "m").error_code == UNSUPPORTED_VERSION
    assert join(kit, instance="i") == NONE


def test_offset_metadata_max_bytes(make):
    kit = make(offset_metadata_max_bytes="4")
    assert [commit(kit, text) for text in ("four", "fives")] == [NONE, METADATA_TOO_LARGE]
