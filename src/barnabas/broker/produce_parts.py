"""A Produce request about very many partitions as several about some, and their answers as one.

Job: cut and join. Must not know what is done with a part. Invariants: parts name the partitions in the order of the request,
each once; the answer names topics and partitions as the request does.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from barnabas.broker.pieces import PIECE
from barnabas.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def cut(request: ProduceRequest) -> Iterator[ProduceRequest]:
    """Give requests of some partitions each."""
    topics: list[TopicProduceData] = []
    room = PIECE
    for topic in request.topic_data:
        for start in range(0, len(topic.partition_data), PIECE):
            some = topic.partition_data[start : start + PIECE]
            if len(some) > room:
                yield _part(request, topics)
                topics, room = [], PIECE
            topics.append(
                TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=some)
            )
            room -= len(some)
    yield _part(request, topics)


def _part(request: ProduceRequest, topics: list[TopicProduceData]) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=topics,
    )


def join(request: ProduceRequest, answers: Sequence[ProduceResponse]) -> ProduceResponse:
    """Make one answer of those to all parts."""
    found = (
        partition
        for answer in answers
        for topic in answer.responses
        for partition in topic.partition_responses
    )
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=list(islice(found, len(topic.partition_data))),
            )
            for topic in request.topic_data
        ]
    )
