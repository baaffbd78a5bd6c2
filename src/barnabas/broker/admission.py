"""Asking the coordinator of a transaction, here or on another broker, whether it knows the partitions that are to be written (KIP-890).

For Produce and TxnOffsetCommit. Job: who coordinates, one request under way per broker with many transactions, and patience with a
transaction before this one that is about to end. Must not know what is written then, or how a client is told that it may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.cluster_view import NOBODY
from barnabas.broker.peer_batches import PeerBatches, Question
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Container

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Task
    from barnabas.core.txn.requests import PartitionsReply, PartitionsRequest
    from barnabas.core.txn.result import Result, Ticket
    from barnabas.core.txn.shard import TransactionShard

ADD_PARTITIONS_VERSIONS: Final = (5, 5)


class _Asked(NamedTuple):
    """One transaction that wants to write to partitions."""

    request: PartitionsRequest
    adds: bool


class Admission:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Ask nobody yet."""
        self._node = node
        self._batches: PeerBatches[_Asked] = PeerBatches(
            node, ADD_PARTITIONS_VERSIONS, _request, _codes
        )

    def ask(self, request: PartitionsRequest, *, adds: bool) -> Task[list[ErrorCode]]:
        """Ask whether partitions are part of a transaction, or make them so: one code per partition.

        A transaction before this one that is about to end is waited for, a little while.
        """
        config, clock = self._node.config, self._node.world.clock
        backoff_ms = config.get_int("add.partitions.to.txn.retry.backoff.ms")
        give_up_ms = clock.monotonic_ms() + config.get_int(
            "add.partitions.to.txn.retry.backoff.max.ms"
        )
        while True:
            codes = yield from self._ask_once(_Asked(request, adds))
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes or not adds:
                return codes
            next_ms = clock.monotonic_ms() + backoff_ms
            if next_ms > give_up_ms:
                return codes
            yield lambda done, at_ms=next_ms: self._wait_until(at_ms, done)  # type: ignore[misc]

    def on_brokers(self, live: Container[int]) -> None:
        """Give up on brokers that are gone: others coordinate what they did."""
        self._batches.on_brokers(live)

    def close(self) -> None:
        """Ask nobody any more."""
        self._batches.close()

    def _wait_until(self, at_ms: int, done: Done) -> None:
        self._node.world.timers.call_at(at_ms, lambda: done(None, None))

    def _ask_once(self, asked: _Asked) -> Task[list[ErrorCode]]:
        request = asked.request
        count = len(request.partitions)
        if not request.transactional_id:
            return [ErrorCode.INVALID_REQUEST] * count
        node = self._node
        coordinator = node.transactions.leader_for(request.transactional_id)
        if coordinator == node.broker_id:
            return (yield from self._ask_here(asked))
        if coordinator == NOBODY:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * count
        question = Question(request.transactional_id, count, asked, lambda: True)
        try:
            codes: list[ErrorCode] = yield self._batches.asking(coordinator, question)
        except (OSError, WireError):
            return [ErrorCode.NETWORK_EXCEPTION] * count
        return codes

    def _ask_here(self, asked: _Asked) -> Task[list[ErrorCode]]:
        request, transactions = asked.request, self._node.transactions

        def entry(shard: TransactionShard, ticket: Ticket, _now_ms: int, wall_ms: int) -> Result:
            if asked.adds:
                return shard.add_partitions(ticket, request, wall_ms)
            return shard.verify_partitions(ticket, request)

        try:
            reply: PartitionsReply = yield transactions.asking(
                transactions.find(request.transactional_id), entry
            )
        except KafkaError as problem:
            return [problem.code] * len(request.partitions)
        return reply.codes


def _request(asked: list[_Asked]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[_transaction(one) for one in asked])


def _transaction(asked: _Asked) -> AddPartitionsToTxnTransaction:
    request = asked.request
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in request.partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        verify_only=not asked.adds,
        topics=list(topics.values()),
    )


def _codes(asked: list[_Asked], response: AddPartitionsToTxnResponse) -> list[list[ErrorCode]]:
    """Find what each partition of each transaction may; a whole request may be refused."""
    refused = response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
    told = {
        (result.transactional_id, TopicPartition(topic.name, one.partition_index)): (
            one.partition_error_code
        )
        for result in response.results_by_transaction
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
    return [
        [
            ErrorCode(told.get((request.transactional_id, one), refused))
            for one in request.partitions
        ]
        for request, _adds in asked
    ]
