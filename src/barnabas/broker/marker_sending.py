"""Bringing the markers of a transaction to the leaders of its partitions, here and on other brokers.

Job: who leads each partition now, one request under way per broker with the markers of many transactions, and what came of each
partition. Must not know transactions; it tries once, and the transaction's machine decides whether to try again, where leaders
that moved are found anew.

Invariants: UNKNOWN_TOPIC_OR_PARTITION is answered only for a partition that is gone for good: a marker that is not written because
somebody had not heard of a partition would hold its readers up for ever. Nothing is sent for a coordinator that has lost its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker import markers
from barnabas.broker.cluster_view import NOBODY
from barnabas.broker.peer_batches import PeerBatches, Question
from barnabas.broker.tasks import side_by_side
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from barnabas.broker.markers import Answers, End
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task

#: Brokers of Kafka 3.9 know the first only, without the version of the transaction: they take a late marker in an epoch that goes on.
WRITE_TXN_MARKERS_VERSIONS: Final = (1, 2)


class MarkerSending:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Send nothing yet."""
        self._node = node
        self._batches: PeerBatches[End] = PeerBatches(
            node, WRITE_TXN_MARKERS_VERSIONS, _request, _answers
        )

    def send(self, end: End, is_wanted: Callable[[], bool]) -> Task[Answers]:
        """Bring an end to each of its partitions; what came of them."""
        by_leader: dict[int, list[TopicPartition]] = {}
        answers: Answers = []
        for one in end.partitions:
            leader = self._leader_of(one)
            if isinstance(leader, ErrorCode):
                answers.append((one, leader))
            else:
                by_leader.setdefault(leader, []).append(one)
        parts: list[Answers] = yield side_by_side(
            [
                self._bring(leader, end._replace(partitions=some), is_wanted)
                for leader, some in by_leader.items()
            ]
        )
        for part in parts:
            answers += part
        if self._node.is_lone:
            return answers
        return (yield from self._ask_for_gone(answers))

    def on_brokers(self, live: Container[int]) -> None:
        """Give up on brokers that are gone: others lead what they led."""
        self._batches.on_brokers(live)

    def close(self) -> None:
        """Send nothing any more."""
        self._batches.close()

    def _leader_of(self, partition: TopicPartition) -> int | ErrorCode:
        node = self._node
        if node.is_lone:
            return node.broker_id
        topic = node.topics.by_name.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leader = node.cluster.leadership(topic, partition.partition).leader
        return ErrorCode.LEADER_NOT_AVAILABLE if leader == NOBODY else leader

    def _bring(self, leader: int, end: End, is_wanted: Callable[[], bool]) -> Task[Answers]:
        if leader == self._node.broker_id:
            (written,) = yield from markers.write(self._node, [end])
            return written
        question = Question(end.producer.id, len(end.partitions), end, is_wanted)
        try:
            answers: Answers = yield self._batches.asking(leader, question)
        except (OSError, WireError):
            return [(one, ErrorCode.NETWORK_EXCEPTION) for one in end.partitions]
        return answers

    def _ask_for_gone(self, answers: Answers) -> Task[Answers]:
        """Let partitions that somebody does not know be gone only if the store says so."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asked = [one for one, code in answers if code is unknown]
        if not asked:
            return answers
        gone = yield from self._node.members.topics.find_gone(asked)
        return [
            (one, ErrorCode.NOT_LEADER_OR_FOLLOWER if code is unknown and one not in gone else code)
            for one, code in answers
        ]


def _request(ends: list[End]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_marker(end) for end in ends])


def _marker(end: End) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for name, index in end.partitions:
        topic = topics.setdefault(name, WritableTxnMarkerTopic(name=name))
        topic.partition_indexes.append(index)
    return WritableTxnMarker(
        producer_id=end.producer.id,
        producer_epoch=end.producer.epoch,
        transaction_result=end.marker.commit,
        topics=list(topics.values()),
        coordinator_epoch=end.marker.coordinator_epoch,
        transaction_version=end.transaction_version,
    )


def _answers(ends: list[End], response: WriteTxnMarkersResponse) -> list[Answers]:
    """Find what each partition answered; one that is not spoken of is asked again."""
    told = {
        (marker.producer_id, TopicPartition(topic.name, one.partition_index)): one.error_code
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
    }
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    return [
        [(one, ErrorCode(told.get((end.producer.id, one), missing))) for one in end.partitions]
        for end in ends
    ]
