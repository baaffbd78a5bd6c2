from __future__ import annotations

import pytest

from barnabas.wire import batch as batches
from barnabas.wire.batch import BatchError, Record, build, checksum_matches
from barnabas.wire.control_batch import EndMarker, build_marker, find_marker, read_marker


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_says_how_and_by_whom(commit: bool) -> None:
    marker = EndMarker(commit, 7)
    batch, header = build_marker(marker, 4711, 3, 1000)
    assert checksum_matches(batch, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, -1)
    assert read_marker(batch) == marker


def test_other_control_batches_end_nothing() -> None:
    leader_change = build([Record(0, 0, b"\0\0\0\2", b"")], attributes=0x20)
    assert read_marker(memoryview(leader_change)) is None


@pytest.mark.parametrize("record", [Record(0, 0, None, b""), Record(0, 0, b"\0\0\0\1", b"\0")])
def test_bytes_that_are_no_marker(record: Record) -> None:
    with pytest.raises(BatchError):
        read_marker(memoryview(build([record], attributes=0x20)))


@pytest.mark.parametrize("attributes", [0x20 | codec for codec in range(1, 8)])
def test_a_control_batch_that_cannot_be_read_ends_nothing(attributes: int) -> None:
    batch, _header = build_marker(EndMarker(commit=True, coordinator_epoch=7), 4711, 3, 1000)
    batch[22] = attributes
    assert find_marker(batch) is None


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_control_batch_with_fewer_than_no_records_ends_nothing(count: int) -> None:
    batch = bytearray(build([Record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\7")], attributes=0x20))
    empty = batch[: batches.HEADER_SIZE]
    empty[8:12] = (batches.HEADER_SIZE - batches.LOG_OVERHEAD).to_bytes(4, "big")
    empty[57:61] = count.to_bytes(4, "big", signed=True)
    assert find_marker(memoryview(empty)) is None
