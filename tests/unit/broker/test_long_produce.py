"""Produce requests about very many partitions: written some at a time, answered as if it had been at once."""

import itertools

import pytest
from node_kit import NodeKit

from barnabas.broker.api.produce import MANY
from barnabas.broker.node import DECODED_AT_ONCE
from barnabas.broker.pieces import PIECE, Pieces
from barnabas.model.errors import ErrorCode
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COUNT = 4 * PIECE + 7
VALUE = bytes(DECODED_AT_ONCE // COUNT)


@pytest.fixture
def kit():
    kit = NodeKit()
    kit.topic_id = kit.create("t", partitions=3)
    return kit


@pytest.fixture
def pauses(kit, monkeypatch):
    """How much has been written at each pause."""
    written = [0]
    pause = Pieces.pause

    def note(pieces, done):
        written.append(end(kit))
        pause(pieces, done)

    monkeypatch.setattr(Pieces, "pause", note)
    return written


def end(kit):
    return sum(kit.node.replicas.get("t", index).log.log_end_offset for index in range(3))


def data(indexes, records=None):
    records = bytes(build([Record(0, 1000, b"k", VALUE)])) if records is None else records
    return [PartitionProduceData(index=index, records=records) for index in indexes]


def request(*topics, acks=-1, transactional_id=None):
    topics = [TopicProduceData(name=name, partition_data=partitions) for name, partitions in topics]
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics
    )


def told(answer):
    return [
        (topic.name, one.index, one.error_code, one.base_offset)
        for topic in answer.responses
        for one in topic.partition_responses
    ]


def test_it_is_more_than_is_handled_at_once():
    assert COUNT > MANY


@pytest.mark.parametrize("version", [8, 9])
def test_many_batches_are_written_in_pieces_and_in_order(kit, pauses, version):
    indexes = [number % 3 for number in range(COUNT)]
    answer = kit.ask(request(("t", data(indexes)), ("none", data([5]))), version)
    assert told(answer) == [
        *(("t", number % 3, 0, number // 3) for number in range(COUNT)),
        ("none", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    steps = [later - earlier for earlier, later in itertools.pairwise(pauses)]
    assert sum(steps) == COUNT
    assert max(steps) <= PIECE


def test_many_topics_by_id(kit):
    topics = [
        TopicProduceData(topic_id=topic_id, partition_data=data([0]))
        for topic_id in [kit.topic_id, b"\7" * 16] * COUNT
    ]
    answer = kit.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 13)
    ids = [topic.topic_id for topic in answer.responses]
    assert ids == [kit.topic_id, b"\7" * 16] * COUNT
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_ID] * COUNT
    assert end(kit) == COUNT


def test_a_few_large_batches_are_written_at_once(kit, pauses):
    records = bytes(build([Record(0, 1000, b"k", bytes(DECODED_AT_ONCE))]))
    answer = kit.ask(request(("t", data([0, 1, 2], records))), 9)
    assert told(answer) == [("t", index, 0, 0) for index in range(3)]
    assert pauses == [0]


def test_batches_that_are_opened_in_the_background_keep_their_places(kit):
    slow = bytes(build([Record(n, 1000, b"k", b"v", ((f"h{n}", b""),)) for n in range(11_000)]))
    partitions = data([0] * COUNT)
    partitions[1] = PartitionProduceData(index=1, records=slow)
    answer = kit.ask(request(("t", partitions)), 9)
    offsets = [offset for _, index, code, offset in told(answer) if not code and index == 0]
    assert offsets == list(range(COUNT - 1))
    assert told(answer)[1] == ("t", 1, 0, 0)


def test_without_acks_everything_is_written_and_a_failure_ends_the_link(kit):
    client = kit.new_client()
    partitions = data([9, *[0] * COUNT])
    client.send(request(("t", partitions), acks=0), 9)
    kit.run(lambda: client.is_closed)
    assert end(kit) == COUNT


def test_without_acks_there_is_no_answer(kit):
    client = kit.new_client()
    client.send(request(("t", data([0] * COUNT)), acks=0), 9)
    kit.run(lambda: end(kit) == COUNT)
    kit.advance(100)
    assert not client.is_closed
    assert client.answers == []


def test_acks_that_are_none_are_refused_for_all(kit):
    answer = kit.ask(request(("t", data([0] * COUNT)), acks=7), 9)
    assert {one[2] for one in told(answer)} == {ErrorCode.INVALID_REQUIRED_ACKS}
    assert len(told(answer)) == COUNT


def transactional(producer):
    records = [Record(0, 1000, b"k", VALUE)]
    return bytes(build(records, attributes=TRANSACTIONAL, producer=producer))


def begin(kit):
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    kit.run(lambda: kit.ask(asked, 4).coordinators[0].error_code == 0)
    answer = kit.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    return Producer(answer.producer_id, answer.producer_epoch, 0)


def test_batches_of_a_transaction_are_asked_about(kit):
    batch = transactional(begin(kit))
    answer = kit.ask(request(("t", data([0] * COUNT, batch)), transactional_id="x"), 12)
    assert set(told(answer)) == {("t", 0, 0, 0)}, "the same sequence again and again"
    assert len(told(answer)) == COUNT
    assert end(kit) == 1


def test_batches_of_two_producers_are_refused_also_when_they_are_far_apart(kit):
    producer = begin(kit)
    partitions = data([0] * COUNT, transactional(producer))
    partitions[-1].records = transactional(Producer(producer.id + 1, 0, 0))
    answer = kit.ask(request(("t", partitions), transactional_id="x"), 12)
    assert {one[2] for one in told(answer)} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert end(kit) == 0
