"""Orders that cannot be meant are refused whole."""

import pytest

from barnabas.broker.order_check import PARTITION_COUNT_MAX, check_order, check_roles
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages import leader_and_isr, update_metadata

KINDS = [
    (leader_and_isr.LeaderAndIsrTopicState, leader_and_isr.LeaderAndIsrPartitionState),
    (update_metadata.UpdateMetadataTopicState, update_metadata.UpdateMetadataPartitionState),
]


def order(kind, name, *indexes):
    topic, partition = kind
    states = [partition(partition_index=index) for index in indexes]
    return topic(topic_name=name, partition_states=states)


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_order(kind):
    check_order(
        [order(kind, "t", 0, PARTITION_COUNT_MAX - 1), order(kind, "__consumer_offsets", 9)]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_without_partitions(kind):
    with pytest.raises(KafkaError, match="Topic t is named without a partition"):
        check_order([order(kind, "t")])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "x" * 250])
def test_names_that_would_leave_the_log_directory(kind, name):
    with pytest.raises(KafkaError) as refusal:
        check_order([order(kind, "t", 0), order(kind, name, 0)])
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [-1, -(2**31), PARTITION_COUNT_MAX, 2**31 - 1])
def test_partitions_that_cannot_be(kind, index):
    with pytest.raises(KafkaError, match=f"cannot have a partition {index}"):
        check_order([order(kind, "t", 0, index)])


@pytest.mark.parametrize("leader", [-2, -1, 1])
def test_who_leads_is_in_sync_or_nobody_leads(leader):
    topic = order(KINDS[0], "t", 0)
    topic.topic_id = bytes(15) + b"x"
    topic.partition_states[0].leader, topic.partition_states[0].isr = leader, [1]
    check_roles([topic])
    topic.partition_states[0].leader = 2
    with pytest.raises(KafkaError, match=r"Broker 2 cannot lead t-0: in sync are \[1\]"):
        check_roles([topic])


def test_a_topic_without_an_id_cannot_be_hosted():
    with pytest.raises(KafkaError, match="Topic t has no id"):
        check_roles([order(KINDS[0], "t", 0)])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_named_twice(kind):
    with pytest.raises(KafkaError, match="A partition of topic t is named twice"):
        check_order([order(kind, "t", 0, 1, 0)])
    with pytest.raises(KafkaError, match="Topic t is named twice"):
        check_order([order(kind, "t", 0), order(kind, "t", 1)])
