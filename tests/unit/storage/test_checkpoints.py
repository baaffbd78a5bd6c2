from __future__ import annotations

import pytest

from barnabas.model.ids import TopicPartition
from barnabas.storage.checkpoints import CorruptCheckpoint, decode, encode

# Written by Apache Kafka 4.3.1.
RECOVERY_POINTS = (
    b"0\n6\ngone 0 20\nc 0 200\ntx 0 9\n__transaction_state 0 5\n"
    b"orders.eu-west 1 0\norders.eu-west 0 6000\n"
)
LOG_START_OFFSETS = b"0\n1\norders.eu-west 0 100\n"


@pytest.mark.parametrize("data", [RECOVERY_POINTS, LOG_START_OFFSETS, b"0\n0\n"])
def test_kafkas_bytes_both_ways(data: bytes) -> None:
    assert encode(decode(data)) == data


def test_what_kafka_wrote() -> None:
    offsets = decode(RECOVERY_POINTS)
    assert len(offsets) == 6
    assert offsets[TopicPartition("orders.eu-west", 0)] == 6000
    assert decode(LOG_START_OFFSETS) == {TopicPartition("orders.eu-west", 0): 100}


@pytest.mark.parametrize("data", [b"", b"0\n", b"0"])
def test_file_that_was_never_filled_has_no_entries(data: bytes) -> None:
    assert decode(data) == {}


def test_any_white_space_parts_the_words() -> None:
    assert decode(b"0\r\n1\r\na\t 3  7\r\n") == {TopicPartition("a", 3): 7}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"1\n0\n", "version 1 is not known"),
        (b"x\n0\n", "no number"),
        (b"0\nmany\n", "no number"),
        (b"0\n2\na 0 1\n", "2 entries are announced, 1 are there"),
        (b"0\n1\na 0 1\nb 0 1\n", "1 entries are announced, 2 are there"),
        (b"0\n-1\n", "announced"),
        (b"0\n1\na 0\n", "3 words"),
        (b"0\n1\na 0 1 2\n", "3 words"),
        (b"0\n1\n\n", "3 words"),
        (b"0\n1\na b 1\n", "'b' is no number"),
        (b"0\n1\na 0 c\n", "'c' is no number"),
        (b"\xff\xfe", "no text"),
    ],
)
def test_corrupt(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=problem):
        decode(data)
