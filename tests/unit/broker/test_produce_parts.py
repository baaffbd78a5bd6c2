"""A long Produce request is cut into parts that name everything once, in order, and answered as one."""

from barnabas.broker.pieces import PIECE
from barnabas.broker.produce_parts import cut, join
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


def request(*counts):
    topics = [
        TopicProduceData(
            name=f"t{number}",
            topic_id=number.to_bytes(16),
            partition_data=[PartitionProduceData(index=n, records=b"") for n in range(count)],
        )
        for number, count in enumerate(counts)
    ]
    return ProduceRequest(transactional_id="x", acks=-1, timeout_ms=7, topic_data=topics)


def answer(part):
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, base_offset=data.index)
                    for data in topic.partition_data
                ],
            )
            for topic in part.topic_data
        ]
    )


def named(message):
    return [(t.name, data.index) for t in message.topic_data for data in t.partition_data]


def test_every_partition_is_in_one_part_and_in_its_place():
    whole = request(3, 2 * PIECE + 10, 0, 1, PIECE)
    parts = list(cut(whole))
    assert [one for part in parts for one in named(part)] == named(whole)
    assert all(0 < len(named(part)) <= PIECE for part in parts)
    assert {(part.transactional_id, part.acks, part.timeout_ms) for part in parts} == {("x", -1, 7)}


def test_topics_of_one_partition_share_parts():
    parts = list(cut(request(*[1] * (PIECE + 1))))
    assert [len(named(part)) for part in parts] == [PIECE, 1]


def test_the_answer_names_what_the_request_does():
    whole = request(3, 2 * PIECE + 10, 0, 1, PIECE)
    joined = join(whole, [answer(part) for part in cut(whole)])
    assert [(one.name, one.topic_id) for one in joined.responses] == [
        (one.name, one.topic_id) for one in whole.topic_data
    ]
    assert [
        (topic.name, one.index) for topic in joined.responses for one in topic.partition_responses
    ] == named(whole)
