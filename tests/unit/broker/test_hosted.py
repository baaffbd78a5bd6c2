"""A replica of a topic that was made again under the same name: nobody takes it for one of the new topic."""

import pytest
from fuzz_world import START_MS
from member_kit import ask, new_store, put_topic, start_member

from barnabas.broker.follower_look import note_positions
from barnabas.core.fetch_session import Wanted
from barnabas.model.cluster import Topic
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

T0 = TopicPartition("t", 0)
BY_NAME, BY_ID = 9, 13
AGAIN = bytes(range(16))


@pytest.fixture
def member():
    """It leads, and broker 2 is to follow."""
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    return start_member(store)


@pytest.fixture
def replica(member):
    return member.node.replicas.get(*T0)


@pytest.fixture
def again(member, replica):
    """The broker has heard of the new topic, and has not given the old one up."""
    topic = Topic("t", AGAIN, list(replica.topic.partitions))
    member.node.topics.put(topic)
    return topic


def produce(member, version):
    records = batch.build([Record(0, START_MS, None, b"v")])
    data = PartitionProduceData(index=0, records=records)
    named = {"name": "t"} if version < BY_ID else {"topic_id": AGAIN}
    topic = TopicProduceData(**named, partition_data=[data])
    answer = ask(member, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), version)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.usefixtures("again")
def test_nothing_is_written_to_the_old_one(member, replica, version):
    end_offset = replica.log.log_end_offset
    assert produce(member, version) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.log.log_end_offset == end_offset


def test_nor_read_from_it(member, replica):
    assert produce(member, BY_NAME) is ErrorCode.NONE
    replica.state.high_watermark = 1
    member.node.on_turn_end()
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = Topic("t", AGAIN, list(replica.topic.partitions))
    member.node.topics.put(topic)
    wanted = FetchTopic(topic_id=AGAIN, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
    (found,) = ask(member, request, BY_ID).responses[0].partitions
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not found.records


@pytest.mark.parametrize("topic_id", [bytes(16), b"t".ljust(16, b"-"), AGAIN])
def test_a_followers_position_counts_for_the_topic_that_it_pulls(member, replica, topic_id):
    """Of the session's topic only the id is sure: its name may be another one's by now."""
    state = replica.state
    state.on_end_offset(0)
    wanted = Wanted((topic_id, 0), "t", topic_id, 0)
    wanted.update(0, 1 << 20, state.leader_epoch, replica.log.epochs.latest)
    before = state.followers[2].end_offset
    note_positions(member.node, 2, [wanted])
    has_moved = state.followers[2].end_offset != before
    assert has_moved == (topic_id != AGAIN)
