"""What stands in the files of a log directory, as plain values for people and programs.

Job: one file in, a row for each thing in it out: batches, records, index entries, producers, offsets. Must not know message
formats inside records, nor how rows are shown. Nothing is changed; memory is bounded by one batch.

Every row is a dict whose first key is `kind`. Damage is a row like any other, so that what lies behind it is shown, too.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.ids import TopicId, topic_id_text
from barnabas.storage import (
    checkpoints,
    epoch_file,
    meta_properties,
    partition_metadata,
    producer_snapshot,
)
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY
from barnabas.storage.index_check import read_entries
from barnabas.storage.names import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    own_name,
)
from barnabas.storage.segment_check import MAX_OFFSETS
from barnabas.storage.transaction_index import decode_index
from barnabas.storage.verify_directory import CHECKPOINTS
from barnabas.storage.walk import MAX_UNPACKED_BYTES, LogWalk, Whole
from barnabas.wire.batch import LOG_APPEND_TIME, walk_records
from barnabas.wire.compression import Codec
from barnabas.wire.control_batch import read_marker_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from struct import Struct

    from barnabas.ports import Disk
    from barnabas.wire.batch import BatchHeader

Row = dict[str, Any]

#: A snapshot of Apache Kafka's metadata log: batches, like a segment.
METADATA_SNAPSHOT: Final = ".checkpoint"
#: Kinds of control records, by number.
_MARKERS: Final = (
    "abort", "commit", "leader change", "snapshot header", "snapshot footer", "kraft version", "kraft voters",
)  # fmt: skip


class UnknownFile(ValueError):
    """A file that no log directory has."""


def dump_file(disk: Disk, path: str, *, records: bool = False) -> Iterator[Row]:
    """Yield a row for each thing in a file; with `records` also for each record of a log."""
    name = own_name(path.rpartition("/")[2])
    if name.endswith((LOG, METADATA_SNAPSHOT)):
        return _dump_log(disk, path, records=records)
    for ending, read in _READERS.items():
        if name.endswith(ending):
            return read(disk, path)
    raise UnknownFile(f"{path} is no file that a log directory has")


def is_known(name: str) -> bool:
    """Tell whether `dump_file` knows files of this name."""
    return name.endswith((LOG, METADATA_SNAPSHOT, *_READERS))


# Logs


def _dump_log(disk: Disk, path: str, *, records: bool) -> Iterator[Row]:
    file, base = disk.open(path), _base_offset(path)
    walk = LogWalk(file, first_offset=base, end_offset=base + MAX_OFFSETS, deep=False)
    for piece in walk.pieces():
        if isinstance(piece, Whole):
            yield _batch_row(piece)
            if records:
                yield from _record_rows(walk.read(piece), piece.header)
        else:
            yield {
                "kind": "damage",
                "position": piece.position,
                "bytes": piece.size,
                "reason": piece.reason,
            }
    file.close()


def _batch_row(piece: Whole) -> Row:
    header = piece.header
    return {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": piece.position,
        "bytes": header.size,
        "codec": _codec_name(header.codec),
        "timestamp_type": "append" if header.attributes & LOG_APPEND_TIME else "create",
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _codec_name(number: int) -> str:
    return Codec(number).name.lower() if number in list(Codec) else f"unknown ({number})"


def _record_rows(batch: memoryview, header: BatchHeader) -> Iterator[Row]:
    try:
        for record in walk_records(batch, MAX_UNPACKED_BYTES):
            marker = {"type": _marker_name(record.key)} if header.is_control else {}
            yield {
                "kind": "control" if header.is_control else "record",
                "offset": record.offset,
                "timestamp": record.timestamp,
                **marker,
                "key": record.key,
                "value": record.value,
                "headers": record.headers,
            }
    except ValueError as problem:
        yield {"kind": "damage", "base_offset": header.base_offset, "reason": str(problem)}


def _marker_name(key: bytes | None) -> str:
    kind = read_marker_type(key)
    return _MARKERS[kind] if 0 <= kind < len(_MARKERS) else f"unknown ({kind})"


# The small files


def _base_offset(path: str) -> int:
    """Return the offset in the name of a segment's file; 0 for other names."""
    digits = path.rpartition("/")[2].partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _entries(disk: Disk, path: str, entry: Struct) -> Iterator[tuple[int, int]]:
    """Read up to the first zeros: Kafka makes an open index larger than it is."""
    return takewhile(any, read_entries(disk.open(path), entry))


def _dump_offset_index(disk: Disk, path: str) -> Iterator[Row]:
    base = _base_offset(path)
    for relative_offset, position in _entries(disk, path, OFFSET_ENTRY):
        yield {"kind": "offset_entry", "offset": base + relative_offset, "position": position}


def _dump_time_index(disk: Disk, path: str) -> Iterator[Row]:
    base = _base_offset(path)
    for timestamp, relative_offset in _entries(disk, path, TIME_ENTRY):
        yield {"kind": "time_entry", "timestamp": timestamp, "offset": base + relative_offset}


def _dump_transaction_index(disk: Disk, path: str) -> Iterator[Row]:
    for entry in decode_index(disk.read_file(path)):
        yield {"kind": "aborted_transaction", **entry._asdict()}


def _dump_snapshot(disk: Disk, path: str) -> Iterator[Row]:
    for entry in producer_snapshot.decode(disk.read_file(path)):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "kind": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": last.last_sequence if last else None,
            "last_offset": last.last_offset if last else None,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.current_txn_first_offset,
        }


def _dump_epochs(disk: Disk, path: str) -> Iterator[Row]:
    for entry in epoch_file.decode(disk.read_file(path)):
        yield {"kind": "leader_epoch", "epoch": entry.epoch, "start_offset": entry.start_offset}


def _dump_offsets(disk: Disk, path: str) -> Iterator[Row]:
    for key, offset in checkpoints.decode(disk.read_file(path)).items():
        yield {
            "kind": "checkpoint",
            "topic": key.topic,
            "partition": key.partition,
            "offset": offset,
        }


def _dump_topic_id(disk: Disk, path: str) -> Iterator[Row]:
    yield {
        "kind": "partition_metadata",
        "topic_id": topic_id_text(partition_metadata.decode(disk.read_file(path))),
    }


def _dump_identity(disk: Disk, path: str) -> Iterator[Row]:
    meta = meta_properties.decode(disk.read_file(path))
    directory_id = meta.directory_id
    yield {
        "kind": "meta_properties",
        "version": meta.version,
        "cluster_id": meta.cluster_id,
        "node_id": meta.node_id,
        "directory_id": topic_id_text(TopicId(directory_id)) if directory_id else None,
    }


#: Ending of a name -> who reads such a file.
_READERS: Final[dict[str, Callable[[Disk, str], Iterator[Row]]]] = {
    OFFSET_INDEX: _dump_offset_index,
    TIME_INDEX: _dump_time_index,
    TXN_INDEX: _dump_transaction_index,
    SNAPSHOT: _dump_snapshot,
    LEADER_EPOCHS: _dump_epochs,
    partition_metadata.FILE_NAME: _dump_topic_id,
    meta_properties.FILE_NAME: _dump_identity,
    **dict.fromkeys(CHECKPOINTS, _dump_offsets),
}
