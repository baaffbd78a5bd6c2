"""Asking a broker how far its logs go, and whether it leads them, whatever the store says.

Job: two ListOffsets requests, and what their answers mean. Must not know what follows from it (`core/controller/election.py`).
Apache Kafka's brokers answer them as ours do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.channel import Unreachable
from barnabas.core.controller.view import LogEnd
from barnabas.model.cluster import ANY_REPLICA
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.channel import Channel
    from barnabas.broker.tasks import Task
    from barnabas.wire.messages.list_offsets import ListOffsetsPartitionResponse

    Answers = dict[TopicPartition, ListOffsetsPartitionResponse]

LIST_OFFSETS_VERSION: Final = 7
_LATEST: Final = -1


def ask_ends(
    channel: Channel, own_id: int, some: Iterable[TopicPartition]
) -> Task[dict[TopicPartition, LogEnd]]:
    """Ask about these; the answer lacks those of which the broker cannot tell, and all if it cannot be reached."""
    topics: dict[str, ListOffsetsTopic] = {}
    for key in some:
        topic = topics.setdefault(key.topic, ListOffsetsTopic(name=key.topic))
        asked = ListOffsetsPartition(partition_index=key.partition, timestamp=_LATEST)
        topic.partitions.append(asked)
    # Only who leads answers a follower. Asked first: one that is written to meanwhile has more than it tells, not less.
    led = yield from _ask(channel, own_id, list(topics.values()))
    found = yield from _ask(channel, ANY_REPLICA, list(topics.values()))
    return {
        key: LogEnd(answer.leader_epoch, leads=not led[key].error_code, end_offset=answer.offset)
        for key, answer in found.items()
        if key in led and not answer.error_code
    }


def _ask(channel: Channel, replica_id: int, topics: list[ListOffsetsTopic]) -> Task[Answers]:
    request = ListOffsetsRequest(replica_id=replica_id, topics=topics)
    try:
        response = yield channel.asking(request, LIST_OFFSETS_VERSION)
    except Unreachable:
        return {}
    return {
        TopicPartition(topic.name, answer.partition_index): answer
        for topic in response.topics
        for answer in topic.partitions
    }
