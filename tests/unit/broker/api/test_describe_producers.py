from __future__ import annotations

import pytest
from node_kit import NodeKit

from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build, read_header
from barnabas.wire.control_batch import EndMarker
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.create("t")
    return kit


def write(kit, producer_id, sequence, attributes=0):
    batch = build(
        [Record(0, 1000, None, b"v")],
        attributes=attributes,
        producer=Producer(producer_id, 3, sequence),
    )
    kit.node.replicas.get("t", 0).append(memoryview(batch), read_header(batch), 0)


def describe(kit, topic="t", index=0):
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    return kit.ask(request, 0).topics[0].partitions[0]


def states(answer):
    return [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in answer.active_producers
    ]


def test_what_each_producer_did_last(kit):
    write(kit, 7, 41)
    write(kit, 8, 0, TRANSACTIONAL)
    assert states(describe(kit)) == [(7, 3, 41, 1000, -1, -1), (8, 3, 0, 1000, -1, 1)]
    kit.node.replicas.get("t", 0).append_marker(
        EndMarker(commit=True, coordinator_epoch=5), 8, 4, 2
    )
    ended = states(describe(kit))[1]
    assert ended[:3] == (8, 4, -1)
    assert ended[4:] == (5, -1)


@pytest.mark.parametrize(("topic", "index"), [("none", 0), ("t", 1), ("t", -1)])
def test_partitions_that_are_not_there(kit, topic, index):
    answer = describe(kit, topic, index)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_message


def test_very_many_producers(kit):
    for producer_id in range(1200):
        write(kit, producer_id, 0)
    assert [state[0] for state in states(describe(kit))] == list(range(1200))
