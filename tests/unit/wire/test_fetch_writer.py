"""What the direct Fetch writer refuses; its bytes are compared in tests/property/test_fetch_bytes.py."""

import pytest

from barnabas.wire.fetch_writer import FetchWriter
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
