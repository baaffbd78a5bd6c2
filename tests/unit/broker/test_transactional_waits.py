"""A Produce that waits for the coordinator of its transaction: what it writes to may be gone, another's or forbidden by then."""

from random import Random

import pytest
from fuzz import good_request
from fuzz_world import START_MS, FuzzLink, FuzzNode

from barnabas.broker.config_changes import on_topic_changed
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch, frame
from barnabas.wire.batch import Producer, Record
from barnabas.wire.control_batch import EndMarker
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

#: Both add partitions to the transaction; the later one names topics by id.
BY_NAME, BY_ID = 12, 13


class Asking:
    """A request under way; what it waits for happens in `end`."""

    def __init__(self, host, request, version):
        self.host, self.request, self.version = host, request, version
        self.link = FuzzLink()
        self.parts = host.node.on_request(
            self.link, memoryview(bytearray(good_request(request, version, 1)))
        )

    def end(self):
        self.host.events.settle()
        found = self.link.answers[0] if self.parts is None else b"".join(map(bytes, self.parts))
        header = frame.response_header(1, self.request.API_KEY, self.version)
        _, kind = frame.message_types(self.request.API_KEY)
        return kind.decode(found, self.version, 4 + len(header))


@pytest.fixture
def host():
    """The coordinator's log is synced with every record, so whoever asks waits."""
    host = FuzzNode(Random(1))
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    assert Asking(host, asked, 4).end().coordinators[0].error_code == 0
    host.producer = Asking(
        host, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4
    ).end()
    assert host.producer.error_code == 0
    topic = host.node.topics.by_name["__transaction_state"]
    on_topic_changed(host.node, topic.name, {**topic.overrides, "flush.messages": "1"})
    create(host)
    return host


def create(host):
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    return Asking(host, request, 7).end().topics[0].topic_id


def produce(host, version):
    producer = Producer(host.producer.producer_id, host.producer.producer_epoch, 0)
    records = batch.build(
        [Record(0, START_MS, b"k", b"v")], producer=producer, attributes=batch.TRANSACTIONAL
    )
    named = {"name": "t"} if version < BY_ID else {"topic_id": host.node.topics.by_name["t"].id}
    topic = TopicProduceData(
        **named, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    request = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1000, topic_data=[topic])
    return Asking(host, request, version)


def code_of(asking):
    (topic,) = asking.end().responses
    return ErrorCode(topic.partition_responses[0].error_code)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_it_writes_if_nothing_has_changed(host, version):
    asking = produce(host, version)
    assert asking.parts is None
    assert not asking.link.answers
    assert code_of(asking) is ErrorCode.NONE
    assert host.ends()["t-0"] == 1


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_topic_that_is_made_again_meanwhile_gets_nothing(host, version):
    asking = produce(host, version)
    later, host.events._later = host.events._later, type(host.events._later)()
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert Asking(host, request, 6).end().responses[0].error_code == 0
    create(host)
    assert not asking.link.answers
    host.events._later = later
    assert (
        code_of(asking)
        is {
            BY_NAME: ErrorCode.INVALID_TXN_STATE,
            BY_ID: ErrorCode.UNKNOWN_TOPIC_ID,
        }[version]
    )
    assert host.ends()["t-0"] == 0


def test_a_replica_that_follows_meanwhile_gets_nothing(host):
    asking = produce(host, BY_NAME)
    replica = host.node.replicas.get("t", 0)
    replica.follow(
        leader=2, leader_epoch=replica.state.leader_epoch + 1, partition_epoch=1,
        replicas=(1, 2), in_sync=(2,),
    )  # fmt: skip
    assert code_of(asking) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.ends()["t-0"] == 0


def test_a_marker_that_comes_meanwhile_makes_the_guard_worthless(host):
    """The transaction that was asked about has ended."""
    asking = produce(host, BY_NAME)
    replica = host.node.replicas.get("t", 0)
    marker = EndMarker(False, 0)
    producer = host.producer
    assert (
        replica.append_marker(marker, producer.producer_id, producer.producer_epoch + 1, 2)
        is ErrorCode.NONE
    )
    assert code_of(asking) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert host.ends()["t-0"] == 1
