"""The bytes of a `.snapshot` file: what each producer had written when the log reached the offset in its name.

Job: Kafka's ProducerSnapshot, version 1, the only one there is. Must not know: where the file lies, or when
one is due. Kafka keeps only the last batch of each producer here, so after a restart
only a repetition of that one is recognised.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.core.producer_state import BatchMetadata, ProducerEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION: Final = 1

_VERSION_AND_CRC: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
#: id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction start.
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NONE: Final = -1


class CorruptSnapshot(ValueError):
    """Bytes that are no snapshot: the file is dropped and an older one, or the log, read instead."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Write the entries in their order."""
    packed = [_ENTRY.pack(*_fields(entry)) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _VERSION_AND_CRC.pack(VERSION, crc32c(body)) + body


def _fields(entry: ProducerEntry) -> tuple[int, ...]:
    last = entry.batches[-1] if entry.batches else BatchMetadata(_NONE, _NONE, 0, _NONE)
    start = entry.current_txn_first_offset
    return (
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        _NONE if start is None else start,
    )


def decode(data: bytes) -> list[ProducerEntry]:
    """Read the entries; CorruptSnapshot says what is wrong."""
    head_size = _VERSION_AND_CRC.size + _COUNT.size
    if len(data) < head_size:
        raise CorruptSnapshot(
            f"a producer snapshot has at least {head_size} bytes, not {len(data)}"
        )
    version, crc = _VERSION_AND_CRC.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"producer snapshot version {version} is not known, only {VERSION}")
    computed = crc32c(memoryview(data)[_VERSION_AND_CRC.size :])
    if crc != computed:
        raise CorruptSnapshot(f"the checksum of the producer snapshot is {computed}, not {crc}")
    (count,) = _COUNT.unpack_from(data, _VERSION_AND_CRC.size)
    if count < 0 or head_size + count * _ENTRY.size != len(data):
        raise CorruptSnapshot(f"{count} producers do not fill a snapshot of {len(data)} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[head_size:])]


def _entry(producer_id: int, producer_epoch: int, *rest: int) -> ProducerEntry:
    last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, start = rest
    entry = ProducerEntry(producer_id, producer_epoch)
    if last_offset >= 0:
        entry.add(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = start if start >= 0 else None
    return entry
