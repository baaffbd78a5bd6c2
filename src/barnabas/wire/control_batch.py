"""The marker that ends a transaction on a partition: a batch of one control record.

Job: build and read it. Must not know who decides, or where it is written. Markers of other kinds (leader changes,
snapshots of Kafka's own metadata log) end no transaction and are no error.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.wire.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchError,
    Producer,
    Record,
    build,
    read_header,
    read_records,
)

if TYPE_CHECKING:
    from barnabas.wire.batch import BatchHeader

ABORT: Final = 0
COMMIT: Final = 1

#: Version and type.
_KEY: Final = Struct(">hh")
#: Version and coordinator epoch.
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
#: A marker is small: what claims to be one and is not gets no memory.
_MAX_BYTES: Final = 64 * 1024


class EndMarker(NamedTuple):
    """How a transaction ended, and in which epoch of its coordinator that was decided."""

    commit: bool
    coordinator_epoch: int


def build_marker(
    marker: EndMarker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> tuple[memoryview, BatchHeader]:
    """Make the batch; its offset and leader epoch are stamped when it is appended."""
    key = _KEY.pack(_VERSION, COMMIT if marker.commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    batch = build(
        [Record(0, timestamp_ms, key, value, ())],
        attributes=TRANSACTIONAL | CONTROL,
        producer=Producer(producer_id, producer_epoch),
    )
    return memoryview(batch), read_header(batch)


def read_marker(batch: memoryview) -> EndMarker | None:
    """Read a control batch; None if it ends no transaction: emptied by compaction, or of another kind."""
    header = read_header(batch)
    assert header.is_control
    if header.record_count <= 0:
        return None
    record = read_records(batch, _MAX_BYTES)[0]
    kind = read_marker_type(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise BatchError("a marker without the epoch of its coordinator")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndMarker(kind == COMMIT, coordinator_epoch)


def find_marker(batch: memoryview) -> EndMarker | None:
    """Read a control batch of a log. One whose bytes make no sense ends nothing: it came from elsewhere, and work goes on."""
    try:
        return read_marker(batch)
    except ValueError:  # BatchError, CompressionError, WireError
        return None


def read_marker_type(key: bytes | None) -> int:
    """Return the type in the key of a control record."""
    if key is None or len(key) < _KEY.size:
        raise BatchError("a control record without a type")
    kind: int
    _, kind = _KEY.unpack_from(key)
    return kind
