from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from barnabas.broker.transaction_records import decode, encode
from barnabas.core.txn.records import TransactionRemoved, TransactionSaved
from barnabas.core.txn.states import TransactionState
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.records.transaction_log import TransactionLogValue
from barnabas.wire.primitives import WireError

SAVED = TransactionSaved(
    "payments",
    producer_id=5,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=(TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)),
    start_ms=1_700_000_000_000,
    last_update_ms=1_700_000_000_005,
    previous_producer_id=5,
    next_producer_id=9,
    transaction_version=2,
)


@pytest.mark.parametrize(
    "record",
    [
        SAVED,
        replace(SAVED, state=TransactionState.EMPTY, partitions=(), start_ms=-1),
        replace(SAVED, state=TransactionState.COMPLETE_ABORT, partitions=()),
        replace(SAVED, next_producer_id=-1, previous_producer_id=-1, transaction_version=0),
        TransactionRemoved("payments"),
    ],
)
def test_what_is_written_is_read_again(record):
    assert decode(*encode(record)) == record


def test_the_last_epoch_has_no_place_in_the_log():
    record = replace(SAVED, last_producer_epoch=2)
    assert decode(*encode(record)) == SAVED


def test_values_of_older_kafkas_are_read():
    """Version 0 has neither previous nor next producer ids, nor a transaction version."""
    key, _value = encode(SAVED)
    old = TransactionLogValue(
        producer_id=5,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=7,
        transaction_start_timestamp_ms=-1,
    )
    value = struct.pack(">h", 0) + b"".join(old.encode(0))
    assert decode(key, value) == TransactionSaved(
        "payments", 5, 3, 60_000, TransactionState.EMPTY, (), -1, 7
    )


def test_what_is_not_known_is_left_alone():
    key, value = encode(SAVED)
    assert decode(None, value) is None
    assert decode(struct.pack(">h", 1) + key[2:], value) is None
    assert decode(key, struct.pack(">h", 9) + value[2:]) is None


@pytest.mark.parametrize("value", [b"\0", b"\0\1\0"])
def test_malformed_values_are_told(value):
    key, _value = encode(SAVED)
    with pytest.raises(WireError):
        decode(key, value)


def test_a_state_that_does_not_exist_is_told():
    key, value = encode(SAVED)
    damaged = bytearray(value)
    damaged[2 + 8 + 2 + 4] = 42
    with pytest.raises(WireError, match="42"):
        decode(key, bytes(damaged))
