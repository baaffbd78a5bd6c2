from __future__ import annotations

import pytest

from barnabas.core.epochs import EpochEntry
from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.epoch_file import decode, encode


# The first was written by Apache Kafka 4.3.1.
@pytest.mark.parametrize("data", [b"0\n1\n0 100\n", b"0\n0\n", b"0\n2\n0 0\n3 4711\n"])
def test_kafkas_bytes_both_ways(data: bytes) -> None:
    assert encode(decode(data)) == data


def test_entries() -> None:
    assert decode(b"0\n2\n0 0\n3 4711\n") == [EpochEntry(0, 0), EpochEntry(3, 4711)]
    assert decode(b"") == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"0\n1\n0\n", "2 words"),
        (b"0\n1\na 1\n", "two numbers"),
        (b"0\n1\n1 b\n", "two numbers"),
        (b"0\n1\n-1 5\n", "negative"),
        (b"0\n1\n1 -5\n", "negative"),
        (b"0\n2\n1 5\n", "announced"),
        (b"7\n0\n", "version 7"),
    ],
)
def test_corrupt(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=problem):
        decode(data)
