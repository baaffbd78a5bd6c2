from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from barnabas.core.producer_state import BatchMetadata, ProducerEntry
from barnabas.storage.producer_snapshot import CorruptSnapshot, decode, encode

# Written by Apache Kafka 4.3.1.
EMPTY = bytes.fromhex("000148674bc700000000")
TWO_PRODUCERS = bytes.fromhex(
    "0001aac6b0f100000002"
    "0000000000000000000000000bb70000000000000bb700000031000001a1e15537f1ffffffffffffffffffffffff"
    "00000000000000010000000005db000000000000119300000031000001a1e1553badffffffffffffffffffffffff"
)
OPEN_TRANSACTION = bytes.fromhex(
    "00013587c78400000001"
    "0000000000000002000000000007000000000000000800000002000001a1e155431f000000000000000000000006"
)


@pytest.mark.parametrize("data", [EMPTY, TWO_PRODUCERS, OPEN_TRANSACTION])
def test_kafkas_bytes_both_ways(data: bytes) -> None:
    assert encode(decode(data)) == data


def test_what_kafka_wrote() -> None:
    first, second = decode(TWO_PRODUCERS)
    assert first.producer_id == 0
    assert list(first.batches) == [BatchMetadata(2999, 2999, 49, 1794781820913)]
    assert second.producer_id == 1
    assert second.next_sequence == 1500
    assert second.last_timestamp == 1794781821869
    assert second.coordinator_epoch == -1
    assert second.current_txn_first_offset is None
    (open_transaction,) = decode(OPEN_TRANSACTION)
    assert open_transaction.current_txn_first_offset == 6
    assert open_transaction.coordinator_epoch == 0


def test_entry_without_batches() -> None:
    entry = ProducerEntry(9, 3)
    entry.last_timestamp = 77
    (read,) = decode(encode([entry]))
    assert read.producer_epoch == 3
    assert not read.batches
    assert read.last_timestamp == 77
    assert read.next_sequence == 0


@pytest.mark.parametrize("size", range(len(TWO_PRODUCERS)))
def test_cut_short(size: int) -> None:
    with pytest.raises(CorruptSnapshot):
        decode(TWO_PRODUCERS[:size])


def test_any_flipped_bit_is_found() -> None:
    for position in range(len(TWO_PRODUCERS) * 8):
        damaged = bytearray(TWO_PRODUCERS)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(CorruptSnapshot):
            decode(bytes(damaged))


@pytest.mark.parametrize("count", [-1, 1, 2**31 - 1])
def test_count_that_does_not_fit(count: int) -> None:
    body = struct.pack(">i", count)
    with pytest.raises(CorruptSnapshot, match="do not fill"):
        decode(struct.pack(">hI", 1, crc32c(body)) + body)


@pytest.mark.parametrize("version", [0, 2])
def test_unknown_version(version: int) -> None:
    with pytest.raises(CorruptSnapshot, match=f"version {version} "):
        decode(struct.pack(">h", version) + EMPTY[2:])
