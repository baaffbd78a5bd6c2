"""Hosts the group machines on the partitions of `__consumer_offsets`, as `shard_host` does with any.

What is particular to groups: the topics and settings that their rules read, offsets of topics that go, and offsets that are
committed in a transaction: they are written under its producer's name, and count when its marker comes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import group_records, known_topics, shard_loading, topic_creation
from barnabas.broker.consumer_embedding import ConsumerEmbedding
from barnabas.broker.consumer_protocol import read_topics
from barnabas.broker.group_settings import NodeGroupSettings
from barnabas.broker.group_topics import GroupTopics
from barnabas.broker.pieces import PIECE
from barnabas.broker.shard_host import UNUSABLE, ShardHost
from barnabas.broker.tasks import drive
from barnabas.core.group.offset_requests import CommitReply
from barnabas.core.group.offsets import NO_PRODUCER
from barnabas.core.group.shard import GroupShard
from barnabas.core.txn.requests import PartitionsRequest
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import Producer, put_head
from barnabas.wire.compression import Codec

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.shard_host import Hosted
    from barnabas.broker.tasks import Task
    from barnabas.core.group.offset_requests import CommitRequest
    from barnabas.core.group.result import Result
    from barnabas.model.cluster import Topic
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.control_batch import EndMarker

log = logging.getLogger(__name__)

TOPIC: Final = "__consumer_offsets"
#: From this version of TxnOffsetCommit on clients know TRANSACTION_ABORTABLE; and their commits begin transactions.
_ABORTABLE_SINCE: Final = 4
_ADDS_SINCE: Final = 5
_EPOCH_RISES: Final = 2
#: Pause before the store is asked again about topics that are being deleted, or after it did not answer. It is doubled up to the maximum.
_LOOK_AGAIN_MS: Final = 1_000
_LOOK_AGAIN_MS_MAX: Final = 60_000


class Coordinators(ShardHost[GroupShard]):
    """The group shards of one node."""

    def __init__(self, node: Node) -> None:
        """Host nothing yet."""
        super().__init__(
            node, TOPIC, "offsets.topic.num.partitions", "offsets.topic.replication.factor"
        )
        self.group_settings = NodeGroupSettings(node)
        self._topics = GroupTopics(node)
        self._embedded = ConsumerEmbedding()
        self._codec = Codec(node.config.get_int("offsets.topic.compression.codec"))

    def serves(self, protocol: str) -> bool:
        """Tell whether groups may use this protocol."""
        return protocol in self.group_settings.all.rebalance_protocols

    def end_transaction(
        self, partition: int, marker: EndMarker, producer: Producer, transaction_version: int
    ) -> ErrorCode:
        """Write the marker that ends a transaction, and let its offsets count, or forget them."""
        try:
            hosted = self.find_partition(partition)
        except KafkaError:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # not loaded: as in Kafka, to be tried again
        replica = hosted.replica
        code = replica.append_marker(marker, producer.id, producer.epoch, transaction_version)
        if not code:
            hosted.shard.replay_end_marker(producer.id, is_commit=marker.commit)
        return code

    def commit_many(
        self, request: CommitRequest, unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ) -> Task[CommitReply]:
        """Have a group keep many offsets, if they can be written at all. KafkaError if they could not be.

        Offsets of topics that were deleted since the request was judged are refused as `unknown`: a new topic of that name would inherit them.
        """
        hosted = self.find(request.group_id)
        known = self._node.topics.by_id
        gone = [topic for topic in request.topics if topic.topic_id not in known]
        if gone:
            there = [topic for topic in request.topics if topic.topic_id in known]
            request = replace(request, topics=there)
        too_large = self._is_too_large(hosted, request)
        if too_large:
            request = replace(request, topics=[])  # whether the member may is told first
        reply: CommitReply = yield self.asking(
            hosted,
            lambda shard, ticket, now_ms, wall_ms: shard.commit(ticket, request, now_ms, wall_ms),
        )
        if too_large and not reply.error_code:
            log.error("%s: a commit of too many offsets", hosted.replica.key)
            raise KafkaError(UNUSABLE[ErrorCode.MESSAGE_TOO_LARGE], "")
        if gone and not reply.error_code:
            reply.topics += [
                (topic.name, [(one.partition, unknown) for one in topic.partitions])
                for topic in gone
            ]
        return reply

    def _is_too_large(self, hosted: Hosted[GroupShard], request: CommitRequest) -> bool:
        """Tell of offsets that fit into no batch, without the time that encoding takes; what compresses well may always fit."""
        size = group_records.least_size(request)
        return self._codec is Codec.NONE and size > hosted.replica.config.max_message_bytes

    def commit_in_transaction(
        self,
        request: CommitRequest,
        transactional_id: str,
        version: int,
        unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> Task[CommitReply]:
        """Have a group keep offsets that count when the transaction does, if that knows of them.

        Clients of transaction version 2 make the group's partition part of the transaction by this (KIP-890).
        """
        if not request.group_id:
            return CommitReply(ErrorCode.INVALID_GROUP_ID)
        assert request.producer is not None
        producer = Producer(*request.producer)
        partition = TopicPartition(TOPIC, self.partition_for(request.group_id))
        producers = self.find(request.group_id).replica.log.producers
        _, header = put_head(b"", 0, self._node.world.clock.now_ms(), producer=producer)
        adds = version >= _ADDS_SINCE
        guard = None
        if producers.needs_verification(header):
            now_ms = self._node.world.clock.now_ms()
            guard = producers.begin_verification(header, now_ms, bumps_epochs=adds)
            asked = PartitionsRequest(
                transactional_id, *producer[:2], (partition,), _EPOCH_RISES if adds else 0
            )
            code = yield from self._verify(asked, version)
            if code:
                return CommitReply(code)
        hosted = self.find(request.group_id)
        # Nothing comes between this and the append: the transaction cannot end in the meantime.
        code = hosted.replica.log.producers.check_coordinated(header, guard)
        if code:
            return CommitReply(code)
        return (yield from self.commit_many(request, unknown))

    def _verify(self, asked: PartitionsRequest, version: int) -> Task[ErrorCode]:
        """Ask the transaction coordinator; the answer is in words that the client knows."""
        adds = version >= _ADDS_SINCE
        if not adds and not self._node.config.get_bool("transaction.partition.verification.enable"):
            return ErrorCode.NONE
        (code,) = yield from self._node.transactions.admission.ask(asked, adds=adds)
        if code is ErrorCode.NETWORK_EXCEPTION:
            return (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )  # clients ask the same group coordinator again
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
            return ErrorCode.INVALID_TXN_STATE
        return code

    # What `ShardHost` asks

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            self.group_settings.all,
            topics=self._topics,
            new_uuid=self._new_uuid,
            read_topics=read_topics,
            embedded=self._embedded,
            overrides=self.group_settings.overrides,
        )

    def _topic_settings(self, _replication_factor: int) -> list[tuple[str, str]]:
        return [
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(self._node.config.get_int("offsets.topic.segment.bytes"))),
        ]

    def _required_acks(self) -> int:
        return self._node.config.get_int("offsets.commit.required.acks")

    def _encode(self, result: Result, now_ms: int) -> tuple[memoryview, BatchHeader]:
        producer = None if result.producer is None else Producer(*result.producer)
        return group_records.encode_batch(result.records, now_ms, self._codec, producer)

    def _replay(self, shard: GroupShard, result: Result, offset: int) -> None:
        replay = shard.replay
        producer_id = NO_PRODUCER if result.producer is None else result.producer[0]
        for record in result.records:
            replay(record, offset, producer_id)
            offset += 1

    def _load(self, replica: Replica, shard: GroupShard) -> Task[None]:
        size = self._node.config.get_int("offsets.load.buffer.size")

        def replay(offset: int, producer_id: int, record: Any) -> None:  # noqa: ANN401
            if isinstance(record, bool):
                shard.replay_end_marker(producer_id, is_commit=record)
            else:
                shard.replay(record, offset, producer_id)

        background = self._node.world.background
        yield from shard_loading.load(background, replica, size, group_records.decode, replay)
        yield from known_topics.until_told(self._node, shard)

    def _on_loaded(self, hosted: Hosted[GroupShard]) -> None:
        super()._on_loaded(hosted)
        drive(self._forget_gone(hosted), _on_looked)

    def _forget_gone(self, hosted: Hosted[GroupShard]) -> Task[None]:
        """Forget the offsets in topics that were deleted while this was loaded, while another broker coordinated, or just before a crash."""
        node, wait_ms = self._node, _LOOK_AGAIN_MS
        while hosted.is_loaded and not node.stopping:
            try:
                verdict = yield from known_topics.find_gone(node, hosted.shard.offsets.topic_ids())
            except OSError:
                verdict = known_topics.Verdict([], is_final=False)
            for name, topic_id in verdict.gone:
                yield from self._forget_in(hosted, name, topic_id, with_unnamed=False)
            if verdict.is_final:
                return
            yield partial(node.pause, wait_ms)
            wait_ms = min(2 * wait_ms, _LOOK_AGAIN_MS_MAX)

    # Topics

    def on_topics_changed(self, *names: str) -> None:
        """Tell every shard that these topics came, grew or went."""
        for hosted in self._hosted.values():
            hosted.shard.on_topics_changed(names)

    def on_topic_deleted(self, topic: Topic) -> None:
        """Forget the offsets in a topic that is gone; with the offsets topic itself, forget all groups."""
        super().on_topic_deleted(topic)
        drive(self._forget(topic.name, topic.id, with_unnamed=True), _on_forgotten)
        self.on_topics_changed(topic.name)

    def on_id_deleted(self, name: str, topic_id: bytes) -> None:
        """Forget the offsets in a topic that is gone and not known here: there may be another of its name."""
        drive(self._forget(name, topic_id, with_unnamed=False), _on_forgotten)

    def _forget(self, name: str, topic_id: bytes, *, with_unnamed: bool) -> Task[None]:
        """Forget what groups committed. What a crash leaves is forgotten by the next load."""
        for hosted in list(self._hosted.values()):
            yield from self._forget_in(hosted, name, topic_id, with_unnamed=with_unnamed)

    def _forget_in(
        self, hosted: Hosted[GroupShard], name: str, topic_id: bytes, *, with_unnamed: bool
    ) -> Task[None]:
        """Forget what the groups of one shard committed, some at a time."""
        in_piece = 0
        self._settle(hosted)  # what was committed before goes, too
        for result in hosted.shard.on_topic_deleted(name, topic_id, with_unnamed=with_unnamed):
            if not hosted.is_loaded:
                return
            self._carry_out(hosted, result)
            in_piece += 1
            if in_piece == PIECE:
                in_piece = 0
                yield self._node.pauses.add

    def _new_uuid(self) -> str:
        """Make a random id in Java's spelling."""
        text = topic_creation.new_id(self._node).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _on_looked(_result: None, problem: BaseException | None) -> None:
    if problem is not None:
        log.error("cannot find out which topics are gone: their offsets stay", exc_info=problem)


def _on_forgotten(_result: None, problem: BaseException | None) -> None:
    if problem is not None:
        raise problem  # as if it had been done at once
