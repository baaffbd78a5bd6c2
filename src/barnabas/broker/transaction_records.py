"""The records of `__transaction_state`: plain records <-> key and value bytes, as Kafka 4.3.1 writes them.

A key starts with two bytes that name the kind of record (0, there is no other), a value with two bytes of its version; no value
is a tombstone. Must not know: who writes them or what they lead to.

Invariants: `decode(*encode(record)) == record`, but for `last_producer_epoch`, for which Kafka's format has no place; kinds and
versions that are not known here give None. Malformed bytes of a known kind raise WireError.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from barnabas.core.txn.records import TransactionRemoved, TransactionSaved
from barnabas.core.txn.states import TransactionState
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from barnabas.core.txn.records import Record
    from barnabas.wire.primitives import Buffer

_NUMBER: Final = struct.Struct(">h")
_KIND: Final = _NUMBER.pack(0)
#: The one with tagged fields, which transaction version 2 needs.
_VERSION: Final = 1
_STATES: Final = {int(state): state for state in TransactionState}


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Give the key and the value to append."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    encoded_key = b"".join((_KIND, *key.encode(0)))
    if isinstance(record, TransactionRemoved):
        return encoded_key, None
    value = TransactionLogValue(
        producer_id=record.producer_id,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=_by_topic(record),
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
        client_transaction_version=record.transaction_version,
    )
    return encoded_key, b"".join((_NUMBER.pack(_VERSION), *value.encode(_VERSION)))


def _by_topic(record: TransactionSaved) -> list[PartitionsSchema] | None:
    if record.state is TransactionState.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in record.partitions:
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def decode(key: Buffer | None, value: Buffer | None) -> Record | None:
    """Read one record of the log; None if its kind or version is not known here."""
    if key is None or bytes(key[: _NUMBER.size]) != _KIND:
        return None
    transactional_id = TransactionLogKey.decode(key, 0, _NUMBER.size).transactional_id
    if value is None:
        return TransactionRemoved(transactional_id)
    if len(value) < _NUMBER.size:
        raise WireError(f"a value of {len(value)} bytes has no version")
    (version,) = _NUMBER.unpack_from(value)
    if version not in TransactionLogValue.DECODERS:
        return None
    saved = TransactionLogValue.decode(value, version, _NUMBER.size)
    state = _STATES.get(saved.transaction_status)
    if state is None:
        raise WireError(f"no transaction is in state {saved.transaction_status}")
    partitions = [
        TopicPartition(one.topic, partition)
        for one in saved.transaction_partitions or ()
        for partition in one.partition_ids
    ]
    return TransactionSaved(
        transactional_id,
        saved.producer_id,
        saved.producer_epoch,
        saved.transaction_timeout_ms,
        state,
        tuple(partitions),
        saved.transaction_start_timestamp_ms,
        saved.transaction_last_update_timestamp_ms,
        saved.previous_producer_id,
        saved.next_producer_id,
        saved.client_transaction_version,
    )
