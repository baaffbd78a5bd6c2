"""CreatePartitions: only ever more, one change after another."""

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def request(name, count, assignments=None, validate_only=False):
    given = None
    if assignments is not None:
        given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)


def code(answer):
    return ErrorCode(answer.results[0].error_code)


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t", partitions=2)
    return kit


def test_more_partitions_take_records_and_outlive_a_restart(kit):
    assert code(kit.ask(request("t", 4), 3)) == ErrorCode.NONE
    assert kit.produce("t", index=3).base_offset == 0
    assert code(kit.ask(request("t", 5, [[1]]), 3)) == ErrorCode.NONE
    kit.restart()
    assert kit.offset("t", -1, index=3) == 1
    assert kit.produce("t", index=4).error_code == 0


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("t", 2), ErrorCode.INVALID_PARTITIONS),
        (("t", 1), ErrorCode.INVALID_PARTITIONS),
        (("t", -1), ErrorCode.INVALID_PARTITIONS),
        (("nosuch", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 20_000), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_refused(kit, asked, expected):
    assert code(kit.ask(request(*asked), 3)) == expected
    assert code(kit.ask(request(*asked, validate_only=True), 3)) == expected
    assert kit.produce("t", index=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_validate_only_changes_nothing(kit):
    assert code(kit.ask(request("t", 3, validate_only=True), 3)) == ErrorCode.NONE
    assert kit.produce("t", index=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_two_at_the_same_time_both_count():
    for seed in range(10):
        kit = NodeKit(seed)
        kit.create("t")
        one, other = kit.new_client(), kit.new_client()
        one.send(request("t", 3), 3)
        other.send(request("t", 5), 3)
        kit.run(lambda one=one, other=other: one.answers and other.answers)
        assert code(other.answers[0]) == ErrorCode.NONE
        assert kit.produce("t", index=4).error_code == 0


def test_growing_and_deleting_at_the_same_time():
    for seed in range(20):
        kit = NodeKit(seed)
        kit.create("t")
        one, other = kit.new_client(), kit.new_client()
        one.send(request("t", 3), 3)
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        kit.run(lambda one=one, other=other: one.answers and other.answers)
        assert other.answers[0].responses[0].error_code == 0
        assert kit.produce("t", index=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kit.create("t", partitions=3)
        assert kit.produce("t", index=2).base_offset == 0
        assert len(kit.node.replicas) == 3
