"""Rebuilding a shard from its partition's log.

The log is read and decoded in slices in the background; each slice is replayed on the thread of decision, which serves others
in between. Must not know: what records look like or mean to a shard.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.storage.log_changed import LogChanged
from barnabas.wire import batch
from barnabas.wire.batch import BatchError
from barnabas.wire.control_batch import find_marker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.ports import Background
    from barnabas.wire.batch import BatchHeader
    from barnabas.wire.primitives import Buffer

#: What a compressed batch may grow to: Kafka writes none that is larger than a segment.
_BATCH_BYTES_MAX: Final = 1 << 30

#: (offset, producer id or -1, record); for a transaction's marker: (offset, producer id, whether it commits).
Entry = tuple[int, int, Any]
#: Makes a record of key and value; None: of a kind that is not known.
Decode = Callable[["Buffer | None", "Buffer | None"], Any]


def load(
    background: Background,
    replica: Replica,
    slice_bytes: int,
    decode: Decode,
    replay: Callable[[int, int, Any], None],
) -> Task[None]:
    """Replay the whole log: what a leader before wrote may be committed, although that was not told here. OSError, BatchError or WireError if it cannot be read."""
    offset, end = replica.log.log_start_offset, replica.log.log_end_offset
    while offset < end:
        job = partial(_read_slice, replica, offset, end, slice_bytes, decode)
        try:
            entries, offset = yield partial(background.run, job)
        except LogChanged:
            continue  # others have had a turn of the background
        for entry in entries:
            replay(*entry)


def _read_slice(
    replica: Replica, offset: int, end: int, size: int, decode: Decode
) -> tuple[list[Entry], int]:
    """Read and decode what fits in `size` bytes, one batch at least: (entries, where to go on). Blocks."""
    found = replica.log.read_bytes(offset, size, end_offset=end)
    if found is None:
        return [], end  # the rest was compacted away
    data = memoryview(found)
    entries: list[Entry] = []
    following = offset
    for position, header in batch.headers(data):
        entries += _decode(data[position : position + header.size], header, decode)
        following = header.next_offset
    if following == offset:
        raise BatchError(f"{replica.key}: no whole batch at offset {offset}")
    return [entry for entry in entries if entry[0] >= offset], following


def _decode(data: memoryview, header: BatchHeader, decode: Decode) -> Iterator[Entry]:
    if header.is_control:
        marker = find_marker(data)
        if marker is not None:
            yield header.base_offset, header.producer_id, marker.commit
        return
    for record in batch.walk_records(data, _BATCH_BYTES_MAX):
        decoded = decode(record.key, record.value)
        if decoded is not None:
            producer_id = header.producer_id if header.is_transactional else -1
            yield record.offset, producer_id, decoded
