"""What a Produce of transactional records does first: ask their coordinator (KIP-890).

Job: find the batches that would begin a transaction on their partition, and get each a guard or a refusal. From version 12 on
the partitions become part of the transaction by that; before, the client must have added them. Must not know how batches are
appended. Batches of a transaction that is open on their partition already are not asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.batch_check import Refusal
from barnabas.core.producer_state import Verification
from barnabas.core.txn.requests import PartitionsRequest
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import MAGIC, TRANSACTIONAL, BatchError, read_header

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from barnabas.broker.call import Call
    from barnabas.broker.pieces import Pieces
    from barnabas.broker.tasks import Task
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.messages.produce import ProduceRequest

#: From this version on a Produce adds its partitions to the transaction, and epochs rise with each.
ADDS_SINCE: Final = 12
#: From this version on clients know TRANSACTION_ABORTABLE.
_ABORTABLE_SINCE: Final = 11
_TRANSACTION_VERSION: Final = 2
#: Where in a batch its format version is, and the low byte of its attributes.
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
_NO_ID: Final = bytes(16)
_COORDINATOR_ERRORS: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)

#: What lets a batch begin its transaction, or why it may not.
Verdict = Verification | Refusal
Verdicts = dict[TopicPartition, Verdict]


def has_transactional(request: ProduceRequest) -> bool:
    """Tell whether any batch belongs to a transaction."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_AT
                and records[_ATTRIBUTES_AT] & TRANSACTIONAL
                and records[_MAGIC_AT] == MAGIC
            ):
                return True
    return False


def begin(call: Call) -> tuple[PartitionsRequest | None, Verdicts]:
    """Give guards to the batches that need one; the request that asks about them, None if there is no need.

    Refusal if the batches are not one producer's.
    """
    request: ProduceRequest = call.request
    node, adds = call.node, call.version >= ADDS_SINCE
    producers: set[tuple[int, int]] = set()
    guards: Verdicts = {}
    for key, header in _batches(call):
        producers.add((header.producer_id, header.producer_epoch))
        replica = node.led(*key)
        if isinstance(replica, ErrorCode):
            continue  # told when it is its turn
        states = replica.log.producers
        if states.needs_verification(header) and not states.is_fenced(header):
            guards[key] = states.begin_verification(
                header, node.world.clock.now_ms(), bumps_epochs=adds
            )
    _check_one(producers)
    is_asked = adds or node.config.get_bool("transaction.partition.verification.enable")
    if not guards or not is_asked:
        return None, guards
    ((producer_id, producer_epoch),) = producers
    assert request.transactional_id is not None
    version = _TRANSACTION_VERSION if adds else 0
    return (
        PartitionsRequest(
            request.transactional_id, producer_id, producer_epoch, tuple(guards), version
        ),
        guards,
    )


def check_producer(call: Call, pieces: Pieces) -> Task[None]:
    """Look through a request that is handled in parts; Refusal if its batches are not one producer's."""
    producers: set[tuple[int, int]] = set()
    for found in _batches_or_none(call):
        if found is not None:
            _, header = found
            producers.add((header.producer_id, header.producer_epoch))
        pieces.count(1)
        if pieces.is_full:
            yield pieces.pause
    _check_one(producers)


def _check_one(producers: Collection[tuple[int, int]]) -> None:
    if len(producers) > 1:
        raise Refusal(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )


def ask(call: Call, asked: PartitionsRequest, guards: Verdicts) -> Task[Verdicts]:
    """Ask the coordinator; the guards of those that may be written, and refusals of the others."""
    adds = call.version >= ADDS_SINCE
    codes = yield from call.node.transactions.admission.ask(asked, adds=adds)
    verdicts = dict(guards)
    for key, code in zip(asked.partitions, codes, strict=True):
        if code:
            verdicts[key] = _refusal(code, call.version)
    return verdicts


def _refusal(code: ErrorCode, version: int) -> Refusal:
    """Say it in a way that the client's version understands and that makes it do the right thing."""
    if code in _COORDINATOR_ERRORS or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE
    ):
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return Refusal(code, "Partition was not added to the transaction")
    return Refusal(code, code.message)


def _batches(call: Call) -> Iterator[tuple[TopicPartition, BatchHeader]]:
    """Walk over the transactional batches; what is no batch is refused later, by whoever looks closer."""
    return (found for found in _batches_or_none(call) if found is not None)


def _batches_or_none(call: Call) -> Iterator[tuple[TopicPartition, BatchHeader] | None]:
    """Walk over all partitions; None for those without a transactional batch."""
    for topic in call.request.topic_data:
        name = topic.name
        if topic.topic_id != _NO_ID:
            known = call.node.topics.by_id.get(topic.topic_id)
            if known is None:
                continue
            name = known.name
        for data in topic.partition_data:
            try:
                header = read_header(data.records or b"")
            except BatchError:
                yield None
                continue
            is_transactional = header.is_transactional and header.producer_id >= 0
            yield (TopicPartition(name, data.index), header) if is_transactional else None
