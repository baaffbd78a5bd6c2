"""AddPartitionsToTxn: what a transaction will write to. Clients ask for one transaction; brokers, since version 4, for many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.transactions import fenced_code
from barnabas.core.txn.requests import PartitionsRequest
from barnabas.model.cluster import INTERNAL_TOPICS
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.core.txn.requests import PartitionsReply
    from barnabas.core.txn.result import Result, Ticket
    from barnabas.core.txn.shard import TransactionShard

_MANY_SINCE: Final = 4
_FENCED_SINCE: Final = 2


def handle(call: Call) -> Task[AddPartitionsToTxnResponse]:
    """Add the partitions of each transaction, or only tell whether they are in it."""
    request: AddPartitionsToTxnRequest = call.request
    results = []
    for transaction in _transactions(request):
        partitions = [
            TopicPartition(topic.name, index)
            for topic in transaction.topics
            for index in topic.partitions
        ]
        codes = _check_partitions(call, partitions)
        if not any(codes):
            codes = yield from _ask(call, transaction, tuple(partitions))
        results.append(_result(transaction.transactional_id, partitions, codes))
    if call.version >= _MANY_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    (one,) = results
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=one.topic_results)


def _transactions(request: AddPartitionsToTxnRequest) -> list[AddPartitionsToTxnTransaction]:
    if request.transactions:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _check_partitions(call: Call, partitions: list[TopicPartition]) -> list[ErrorCode]:
    """Tell what is wrong with each; if one is wrong, none is added."""
    is_client = call.version < _MANY_SINCE
    codes = []
    for one in partitions:
        topic = call.node.topics.by_name.get(one.topic)
        if is_client and one.topic in INTERNAL_TOPICS:
            codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None or not 0 <= one.partition < len(topic.partitions):
            codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            codes.append(ErrorCode.NONE)
    if any(codes):
        return [code or ErrorCode.OPERATION_NOT_ATTEMPTED for code in codes]
    return codes


def _ask(
    call: Call, transaction: AddPartitionsToTxnTransaction, partitions: tuple[TopicPartition, ...]
) -> Task[list[ErrorCode]]:
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
        return [ErrorCode.INVALID_REQUEST] * len(partitions)
    transactions = call.node.transactions
    try:
        reply: PartitionsReply = yield transactions.asking(
            transactions.find(transaction.transactional_id), entry
        )
    except KafkaError as problem:
        return [problem.code] * len(partitions)
    return [fenced_code(code, call.version, _FENCED_SINCE) for code in reply.codes]


def refuse(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _message: str | None
) -> AddPartitionsToTxnResponse:
    """Refuse everything: brokers read the one code, clients that of each partition."""
    (one,) = _transactions(request)[:1]
    partitions = [
        TopicPartition(topic.name, index) for topic in one.topics for index in topic.partitions
    ]
    if request.transactions:
        return AddPartitionsToTxnResponse(error_code=code)
    result = _result("", partitions, [code] * len(partitions))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def _result(
    transactional_id: str, partitions: list[TopicPartition], codes: list[ErrorCode]
) -> AddPartitionsToTxnResult:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in zip(partitions, codes, strict=True):
        one = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics.setdefault(topic, []).append(one)
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=name, results_by_partition=results)
            for name, results in topics.items()
        ],
    )
