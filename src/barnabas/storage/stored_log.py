"""A log looked at from outside: its files as they are, also while a broker writes to them.

Job: segments with their sizes and timestamps, for who shows them. Changes nothing, so it works on Apache Kafka's folders, too,
and on a disk that can only be read. Must not know where a log starts and ends: the broker does, and its word is taken.

What the broker does at the same time may show: a batch that is half written does not count, and a segment that goes away
while it is looked at is FileNotFoundError. Looking again helps.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from barnabas.storage.log_reader import LogReader
from barnabas.storage.names import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    segment_bases,
)
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import TransactionIndex
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from barnabas.model.config import LogConfig
    from barnabas.ports import Disk, File
    from barnabas.storage.index import Index


class StoredLog(LogReader):
    """See the module."""

    __slots__ = ("config",)

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        """Look at the folder of a partition; FileNotFoundError if it holds no segment."""
        bases = segment_bases(disk.list(directory))
        if not bases:
            raise FileNotFoundError(f"{directory} holds no segment")
        segments = [_look_at(disk, directory, base) for base in bases]
        end_offset = max(log_end_offset, bases[-1])
        super().__init__(segments, log_start_offset=log_start_offset, log_end_offset=end_offset)
        self.config = config

    def read_oldest_timestamp(self) -> int | None:
        """Return the timestamp of the first record, or of one before it in its batch; None if there is none."""
        if self.log_start_offset >= self.log_end_offset:
            return None
        for segment in self._segments:
            try:
                position = segment.find_batch(self.log_start_offset, segment.size)
                if position is not None:
                    _, header = next(segment.headers(position, segment.size))
                    return header.base_timestamp if header.base_timestamp >= 0 else None
            except BatchError:
                return None
        return None

    @property
    def newest_timestamp(self) -> int | None:
        """Return the largest timestamp; None if no record has one."""
        largest = max(segment.largest[0] for segment in self._segments)
        return largest if largest >= 0 else None


def _look_at(disk: Disk, directory: str, base_offset: int) -> Segment:
    log, offsets, times = (
        _open(disk, f"{directory}/{file_name(base_offset, suffix)}")
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)
    )
    if log is None:
        raise FileNotFoundError(f"segment {base_offset} of {directory} has gone")
    aborted = TransactionIndex(disk, f"{directory}/{file_name(base_offset, TXN_INDEX)}")
    # Kafka makes an index with its first entry. One that is not there is never read: any file will do.
    files = (log, offsets or log, times or log)
    segment = Segment(base_offset, files, aborted, created_ms=0, jitter_ms=0)
    segment.size = log.size()
    for file, index in ((offsets, segment.offset_index), (times, segment.time_index)):
        if file is not None:
            index.load(_count_entries(index) * index.entry_bytes)
    _find_largest(segment)
    return segment


def _open(disk: Disk, path: str) -> File | None:
    try:
        return disk.open(path)
    except FileNotFoundError:
        return None


def _count_entries(index: Index) -> int:
    """Count the entries that are written: Kafka makes the file of an active segment larger, with zeros."""
    size = index.entry_bytes
    return bisect_left(
        range(index.file.size() // size),
        True,
        key=lambda number: not any(index.file.read(number * size, size)),
    )


def _find_largest(segment: Segment) -> None:
    """Take the largest timestamp from the time index, and from the batches behind the last entry in the other one."""
    last = segment.time_index.last
    if last is not None:
        segment.largest = (last[0], segment.base_offset + last[1])
    indexed = segment.offset_index.last
    try:
        for _, header in segment.headers(indexed[1] if indexed else 0, segment.size):
            if header.max_timestamp > segment.largest[0]:
                segment.largest = (header.max_timestamp, header.last_offset)
    except BatchError:
        return  # the last batch is being written
