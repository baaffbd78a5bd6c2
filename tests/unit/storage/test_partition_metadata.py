from __future__ import annotations

import pytest

from barnabas.storage.partition_metadata import CorruptPartitionMetadata, decode, encode

# Written by Apache Kafka 4.3.1.
KAFKAS = b"version: 0\ntopic_id: 706u8OQKRE2x1s7mSp_J3w"


def test_kafkas_bytes_both_ways() -> None:
    topic_id = decode(KAFKAS)
    assert topic_id.hex() == "ef4eaef0e40a444db1d6cee64a9fc9df"
    assert encode(topic_id) == KAFKAS


def test_line_end_at_the_end() -> None:
    assert decode(KAFKAS + b"\n") == decode(KAFKAS)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "needs a version"),
        (b"version: 0\n", "needs a version"),
        (b"version: 1\ntopic_id: 706u8OQKRE2x1s7mSp_J3w", "version 1"),
        (b"topic_id: 706u8OQKRE2x1s7mSp_J3w\nversion: 0", "'version: VALUE'"),
        (b"version: 0\nid: 706u8OQKRE2x1s7mSp_J3w", "'topic_id: VALUE'"),
        (b"version: 0\ntopic_id: short", "not a topic id"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "not the id of a topic"),
        (b"\xff", "no text"),
    ],
)
def test_corrupt(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptPartitionMetadata, match=problem):
        decode(data)
