"""AddPartitionsToTxn: what a transaction will write to. Clients ask for one transaction; brokers, since version 4, for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.pieces import Pieces
from barnabas.broker.tasks import side_by_side
from barnabas.broker.transactions import fenced_code
from barnabas.core.txn.requests import PartitionsRequest
from barnabas.model.acl import Operation, ResourceType
from barnabas.model.cluster import INTERNAL_TOPICS
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Response
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.requests import PartitionsReply
    from barnabas.core.txn.result import Result, Ticket
    from barnabas.core.txn.shard import TransactionShard

_MANY_SINCE: Final = 4
_FENCED_SINCE: Final = 2
#: What came of each partition.
_Codes = dict[TopicPartition, ErrorCode]


def handle(call: Call) -> Task[Response]:
    """Add the partitions of each transaction, or only tell whether they are in it."""
    pieces = Pieces(call, finishes=True)
    answers: list[tuple[AddPartitionsToTxnTransaction, _Codes]] = []
    asked: list[int] = []
    for transaction in _transactions(call):
        codes, are_known = yield from _look_up(call, transaction, pieces)
        if are_known:
            asked.append(len(answers))
        answers.append((transaction, codes))
    # All at once: each may have to wait until the other replicas of its coordinator's log have it.
    added = yield side_by_side(
        [_ask(call, answers[number][0], tuple(answers[number][1])) for number in asked]
    )
    for number, codes in zip(asked, added, strict=True):
        answers[number] = (answers[number][0], codes)
    if call.version >= _MANY_SINCE:
        return (yield from pieces.respond(lambda: _respond_to_many(answers)))
    ((transaction, codes),) = answers
    return (yield from pieces.respond(lambda: _respond(transaction.topics, codes)))


def _transactions(call: Call) -> list[AddPartitionsToTxnTransaction]:
    request: AddPartitionsToTxnRequest = call.request
    if call.version >= _MANY_SINCE:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _look_up(
    call: Call, transaction: AddPartitionsToTxnTransaction, pieces: Pieces
) -> Task[tuple[_Codes, bool]]:
    """Tell what is wrong with each partition, and whether nothing is; if one is wrong, none is added."""
    is_client = call.version < _MANY_SINCE
    counts: list[int | None] = []
    for topic in transaction.topics:
        known = call.node.topics.by_name.get(topic.name)
        if is_client and not _may_write(call, topic.name):
            counts.append(None)
        else:
            counts.append(0 if known is None else len(known.partitions))
        pieces.count(1)
        if pieces.is_full:
            yield pieces.pause
    partition_count = sum(len(topic.partitions) for topic in transaction.topics)
    return (yield from pieces.work(partition_count, lambda: _judge(transaction.topics, counts)))


def _may_write(call: Call, topic: str) -> bool:
    return topic not in INTERNAL_TOPICS and call.allows(Operation.WRITE, ResourceType.TOPIC, topic)


def _judge(topics: list[AddPartitionsToTxnTopic], counts: list[int | None]) -> tuple[_Codes, bool]:
    """Judge partitions by how many their topic has; None where a client may not write."""
    codes: _Codes = {}
    for topic, count in zip(topics, counts, strict=True):
        for index in topic.partitions:
            if count is None:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif 0 <= index < count:
                code = ErrorCode.NONE
            else:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes[TopicPartition(topic.name, index)] = code
    if not any(codes.values()):
        return codes, True
    for one, code in codes.items():
        if not code:
            codes[one] = ErrorCode.OPERATION_NOT_ATTEMPTED
    return codes, False


def _ask(
    call: Call, transaction: AddPartitionsToTxnTransaction, partitions: tuple[TopicPartition, ...]
) -> Task[_Codes]:
    request = PartitionsRequest(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        transaction_version=2 if call.version >= _MANY_SINCE else 0,
    )

    def entry(shard: TransactionShard, ticket: Ticket, _now_ms: int, wall_ms: int) -> Result:
        if transaction.verify_only:
            return shard.verify_partitions(ticket, request)
        return shard.add_partitions(ticket, request, wall_ms)

    if not transaction.transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    transactions = call.node.transactions
    try:
        reply: PartitionsReply = yield transactions.asking(
            transactions.find(transaction.transactional_id), entry
        )
    except KafkaError as problem:
        return dict.fromkeys(partitions, problem.code)
    codes = (fenced_code(code, call.version, _FENCED_SINCE) for code in reply.codes)
    return dict(zip(partitions, codes, strict=True))


def refuse(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _message: str | None
) -> AddPartitionsToTxnResponse:
    """Refuse everything: brokers read the one code, clients that of each partition."""
    if request.transactions:
        return AddPartitionsToTxnResponse(error_code=code)
    topics = request.v3_and_below_topics
    places = (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)
    return _respond(topics, dict.fromkeys(places, code))


def _respond(topics: list[AddPartitionsToTxnTopic], codes: _Codes) -> AddPartitionsToTxnResponse:
    """Answer a client: topics and partitions as it named them."""
    results = [
        _result(
            topic.name,
            ((index, codes[TopicPartition(topic.name, index)]) for index in topic.partitions),
        )
        for topic in topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _respond_to_many(
    answers: list[tuple[AddPartitionsToTxnTransaction, _Codes]],
) -> AddPartitionsToTxnResponse:
    """Answer a broker: every partition once."""
    results = []
    for transaction, codes in answers:
        topics: dict[str, list[tuple[int, ErrorCode]]] = {}
        for (name, index), code in codes.items():
            topics.setdefault(name, []).append((index, code))
        result = AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=[_result(name, found) for name, found in topics.items()],
        )
        results.append(result)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _result(name: str, codes: Iterable[tuple[int, ErrorCode]]) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            for index, code in codes
        ],
    )
