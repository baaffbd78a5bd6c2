"""What the direct Fetch writer refuses; its bytes are compared in tests/property/test_fetch_bytes.py."""

import pytest

from barnabas.wire.fetch_writer import FetchWriter
from barnabas.wire.messages.fetch import AbortedTransaction, FetchResponse
from barnabas.wire.primitives import WireError


class FileSlice:
    """Stands for bytes in a file: has a length, and nothing else may be asked of it."""

    def __len__(self):
        return 300


def test_a_file_slice_is_handed_on_untouched():
    records = FileSlice()
    writer = FetchWriter(13, 1)
    writer.topic("", bytes(16), 1)
    writer.partition(0, 0, 1, 1, 0, records)
    buffers = writer.finish()
    assert buffers[1] is records
    assert [len(each) for each in buffers] == [11 + 17 + 35 + 2, 300, 3]


@pytest.mark.parametrize("version", [3, 19])
def test_other_versions_are_refused(version):
    with pytest.raises(WireError, match="between 4 and 18"):
        FetchWriter(version, 0)


def test_a_session_needs_version_7():
    FetchWriter(7, 0, session_id=1)
    with pytest.raises(WireError, match="session_id"):
        FetchWriter(6, 0, session_id=1)


def test_a_preferred_replica_needs_version_11():
    writer = FetchWriter(10, 1)
    writer.topic("t", bytes(16), 1)
    with pytest.raises(WireError, match="preferred_read_replica"):
        writer.partition(0, 0, 0, 0, 0, None, None, 1)


def test_a_topic_id_has_16_bytes():
    with pytest.raises(WireError, match="16 raw bytes"):
        FetchWriter(13, 1).topic("t", b"short", 0)


@pytest.mark.parametrize("version", [11, 12])
def test_a_topic_name_has_a_limit(version):
    with pytest.raises(WireError, match="longer than 32767"):
        FetchWriter(version, 1).topic("x" * 32768, bytes(16), 0)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_back(version):
    writer = FetchWriter(version, 2, throttle_time_ms=5)
    writer.topic("first", b"1" * 16, 3)
    writer.partition(0, 0, 9, 8, 7, b"records")
    writer.partition(1, 3, -1, -1, -1, None, [])
    writer.partition(2, 0, 9, 8, 7, b"more", [(100, 5), (101, 6)])
    writer.topic("second", b"2" * 16, 0)
    response = FetchResponse.decode(b"".join(writer.finish()), version)
    first, second = response.responses
    assert response.throttle_time_ms == 5
    assert [(each.topic, each.topic_id) for each in (first, second)] == (
        [("first", bytes(16)), ("second", bytes(16))]
        if version < 13
        else [("", b"1" * 16), ("", b"2" * 16)]
    )
    assert [each.records for each in first.partitions] == [b"records", None, b"more"]
    assert [each.error_code for each in first.partitions] == [0, 3, 0]
    assert [each.log_start_offset for each in first.partitions] == (
        [7, -1, 7] if version > 4 else [-1, -1, -1]
    )
    assert [each.aborted_transactions for each in first.partitions] == [
        None,
        [],
        [
            AbortedTransaction(producer_id=100, first_offset=5),
            AbortedTransaction(producer_id=101, first_offset=6),
        ],
    ]
    assert second.partitions == []
