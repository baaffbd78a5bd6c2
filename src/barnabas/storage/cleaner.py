"""Compaction of one log: which records stay, written into new segments beside the old ones.

Job: read the dirty part into an `OffsetMap`, put the segments into groups that fit one new segment each, and write
those, synced, under names that end in `.cleaned`. Must not know the open log, clocks, or when compaction is worth it.
What comes out is put in place by `swap.py`.

Everything it needs is in the `CleaningOrder`, so it runs as well in another process. It reads closed segments only,
which never change. One new segment is made at a time: its owner puts it in place, then asks for the next, so that
no more extra space is needed than for one.

Invariants: offsets and order of records never change; a new segment covers exactly the offsets of its sources, from
the first one's base offset to the end of the last one's last batch; memory is bounded by the order's two sizes and
the largest batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.storage.batch_filter import BatchFilter, LastBatch, open_content
from barnabas.storage.cleaned_segment import CleanedSegment, CleanedWriter
from barnabas.storage.cleaner_transactions import CleanedTransactions
from barnabas.storage.names import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from barnabas.storage.offset_map import OffsetMap
from barnabas.storage.record_bytes import read_keys
from barnabas.storage.segment import MAX_RELATIVE_OFFSET, DamagedBatch
from barnabas.storage.transaction_index import AbortedTransaction, decode_index
from barnabas.wire.batch import HEADER_SIZE, MAGIC, BatchError, checksum_matches, read_header
from barnabas.wire.compression import Unpacker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from barnabas.ports import Disk, File
    from barnabas.wire.batch import BatchHeader


@dataclass(slots=True, frozen=True)
class Source:
    """A closed segment."""

    base_offset: int
    size_bytes: int


@dataclass(slots=True, frozen=True, kw_only=True)
class CleaningOrder:
    """What to clean, and by which settings."""

    directory: str
    #: Closed segments from the log's start to `end_offset`.
    sources: tuple[Source, ...]
    #: Up to here the log was cleaned before.
    first_dirty_offset: int
    #: Where the first segment begins that must not be touched.
    end_offset: int
    #: Base offsets of the segments behind: their transaction indexes tell of what began before.
    later_segments: tuple[int, ...] = ()
    #: By producer id.
    producers: dict[int, LastBatch] = field(default_factory=dict)
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    #: For the map of keys, and how full it may become.
    dedupe_buffer_bytes: int
    load_factor: float
    #: Read and written at once.
    io_buffer_bytes: int


@dataclass(slots=True)
class CleaningStats:
    """What a cleaning did, for the broker's own log."""

    map_bytes_read: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    #: Up to where the log is clean once every new segment is in place.
    clean_offset: int = 0


def _no_throttle(_size_bytes: int) -> None:
    """Let everything pass."""


class Cleaning:
    """One cleaning: `build_map`, then `segments` to its end.

    `throttle` is called with every number of bytes read or written, and may wait. DamagedBatch where a segment is damaged,
    BatchError where batches that are whole hold what cannot be: what was put in place before stays so. OSError as it comes.
    """

    def __init__(
        self, disk: Disk, order: CleaningOrder, throttle: Callable[[int], None] = _no_throttle
    ) -> None:
        """Touch nothing yet."""
        self._disk = disk
        self._order = order
        self._throttle = throttle
        self._map = OffsetMap(
            order.dedupe_buffer_bytes,
            order.load_factor,
            order.first_dirty_offset,
            order.end_offset,
        )
        self._aborted = self._read_aborted()
        self.stats = CleaningStats()

    def build_map(self) -> None:
        """Read the keys of the dirty part, as many as the map takes."""
        order, offset_map = self._order, self._map
        transactions = CleanedTransactions()
        transactions.add(
            one for one in self._aborted if one.last_offset >= order.first_dirty_offset
        )
        unpacker = Unpacker()
        for source, end_offset in self._sources_with_ends():
            if end_offset <= order.first_dirty_offset:
                continue
            if not self._map_segment(source, end_offset, transactions, unpacker):
                break
            # Offsets behind the last batch that no record has any more.
            offset_map.advance(end_offset)
        self.stats.map_utilization = offset_map.utilization
        self.stats.clean_offset = offset_map.end_offset

    def _map_segment(
        self, source: Source, end_offset: int, transactions: CleanedTransactions, unpacker: Unpacker
    ) -> bool:
        """Take the keys of a segment; False if the map became full on the way."""
        for data, start, header in self._batches(source, end_offset):
            self.stats.map_bytes_read += header.size
            if header.last_offset < self._order.first_dirty_offset:
                continue
            self._map.advance(header.base_offset)
            if (
                not header.is_control
                and not transactions.is_aborted(header)
                and header.record_count
            ):
                content, position = open_content(data, start, header, unpacker)
                if not self._map_batch(content, position, header):
                    return False
            elif header.is_control and header.record_count:
                content, position = open_content(data, start, header, unpacker)
                transactions.is_needless(header, read_keys(content, position, 1)[0][0])
            self._map.advance(header.next_offset)
            if self._map.end_offset < header.next_offset:
                return False
        return True

    def _map_batch(self, content: bytes, position: int, header: BatchHeader) -> bool:
        """Take the keys of a batch, one after another; False if not all of them went in."""
        keys, deltas, nulls = read_keys(content, position, header.record_count)
        base_offset, offset_map = header.base_offset, self._map
        first, count = self._order.first_dirty_offset, header.record_count
        offsets: Sequence[int] = range(base_offset, base_offset + count)
        if header.last_offset_delta != count - 1:
            # Compacted before. Without gaps the offsets follow from the header, whatever stands in the records.
            if deltas != sorted(deltas) or deltas[-1] > header.last_offset_delta:
                raise BatchError(f"the batch at offset {base_offset} holds others than it says")
            offsets = [base_offset + delta for delta in deltas]
        if (
            count <= offset_map.room
            and first <= base_offset
            and header.last_offset < offset_map.limit_offset
            and None not in keys
        ):
            offset_map.advance(header.next_offset)
            offset_map.put(keys, offsets)  # type: ignore[arg-type]
        elif not self._map_piecemeal(keys, offsets):
            return False
        if nulls:
            offset_map.bury(
                offsets[number]
                for number in nulls
                if keys[number] is not None and offsets[number] >= first
            )
        return True

    def _map_piecemeal(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Take keys until the map is full: records without one and before the dirty part are left out."""
        offset_map, first = self._map, self._order.first_dirty_offset
        records = [
            (key, offset)
            for key, offset in zip(keys, offsets, strict=True)
            if key is not None and offset >= first
        ]
        taken = 0
        while taken < len(records):
            part = records[taken : taken + offset_map.room]
            part = [one for one in part if one[1] < offset_map.limit_offset]
            if not part:
                return False
            offset_map.advance(part[-1][1] + 1)
            offset_map.put([key for key, _ in part], [offset for _, offset in part])
            taken += len(part)
        return True

    def segments(self) -> Iterator[CleanedSegment]:
        """Write the new segments one by one; each must be in place, or given up, before the next is asked for."""
        order = self._order
        transactions = CleanedTransactions()
        transactions.add(self._aborted)
        rules = BatchFilter(
            self._map, transactions, order.producers,
            now_ms=order.now_ms, delete_retention_ms=order.delete_retention_ms,
        )  # fmt: skip
        for group in self.groups():
            yield self._clean_group(group, rules, transactions)

    def _clean_group(
        self, group: Sequence[Source], rules: BatchFilter, transactions: CleanedTransactions
    ) -> CleanedSegment:
        order, stats = self._order, self.stats
        writer = CleanedWriter(
            self._disk, order.directory, group[0].base_offset,
            index_interval_bytes=order.index_interval_bytes,
            buffer_bytes=order.io_buffer_bytes, throttle=self._throttle,
        )  # fmt: skip
        ends = dict(self._sources_with_ends())
        for number, source in enumerate(group, 1):
            is_last_source, position = number == len(group), 0
            for data, start, header in self._batches(source, ends[source]):
                position += header.size
                is_last = is_last_source and position == source.size_bytes
                stats.bytes_read += header.size
                stats.records_read += header.record_count
                kept = rules.keep(data, start, header, is_last=is_last)
                if kept is not None:
                    writer.append(kept.data, header.last_offset, kept.max_timestamp)
                    stats.records_written += kept.record_count
        retained, transactions.retained = transactions.retained, []
        cleaned = writer.finish(retained, tuple(source.base_offset for source in group))
        stats.bytes_written += cleaned.size_bytes
        return cleaned

    def groups(self) -> list[list[Source]]:
        """Put segments that lie beside each other together, as long as the sum of them fits one segment."""
        order, groups = self._order, list[list[Source]]()
        sizes = (0, 0, 0)
        for source, end_offset in self._sources_with_ends():
            if source.base_offset >= self._map.end_offset:
                break
            own = self._sizes(source)
            both = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
            if (
                groups
                and both[0] <= order.segment_bytes
                and max(both[1:]) <= order.segment_index_bytes
                and end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            ):
                groups[-1].append(source)
                sizes = both
            else:
                groups.append([source])
                sizes = own
        return groups

    def _sources_with_ends(self) -> list[tuple[Source, int]]:
        """Return each segment with the offset at which the next one begins."""
        sources, end_offset = self._order.sources, self._order.end_offset
        ends = [source.base_offset for source in (*sources[1:], Source(end_offset, 0))]
        return list(zip(sources, ends, strict=False))

    def _sizes(self, source: Source) -> tuple[int, int, int]:
        """Return the bytes of a segment's log and of its two indexes."""
        indexes = [
            self._disk.open(self._path(source.base_offset, suffix)).size()
            for suffix in (OFFSET_INDEX, TIME_INDEX)
        ]
        return source.size_bytes, indexes[0], indexes[1]

    def _read_aborted(self) -> list[AbortedTransaction]:
        """Collect the aborted transactions that touch the sources."""
        order = self._order
        start = order.sources[0].base_offset if order.sources else 0
        found = []
        for base in (*(source.base_offset for source in order.sources), *order.later_segments):
            try:
                data = self._disk.read_file(self._path(base, TXN_INDEX))
            except FileNotFoundError:
                continue
            found += decode_index(data)
        return sorted(
            one for one in found if one.last_offset >= start and one.first_offset < order.end_offset
        )

    def _batches(self, source: Source, end_offset: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """Walk over a segment: the bytes read, where in them a whole batch starts, its header.

        All that readers are promised of a batch is made sure of: a damaged one would get a good checksum here.
        """
        file = self._disk.open(self._path(source.base_offset, LOG))
        position, end, next_offset = 0, source.size_bytes, source.base_offset
        read_bytes = max(self._order.io_buffer_bytes, HEADER_SIZE)
        wanted = read_bytes
        while position < end:
            asked = min(wanted, end - position)
            data = file.read(position, asked)
            self._throttle(len(data))
            start, wanted = 0, read_bytes
            while start + HEADER_SIZE <= len(data):
                header = read_header(data, start)
                size = header.size
                if header.magic != MAGIC or not HEADER_SIZE <= size <= end - position - start:
                    raise _no_batch(file, position + start, source)
                if start + size > len(data):
                    wanted = max(read_bytes, size)
                    break
                if not (
                    next_offset <= header.base_offset <= header.last_offset < end_offset
                    and checksum_matches(memoryview(data)[start : start + size], header)
                ):
                    raise _no_batch(file, position + start, source)
                yield data, start, header
                next_offset = header.next_offset
                start += size
            if (start == 0 and asked == end - position) or len(data) < asked:
                raise _no_batch(file, position, source)
            position += start

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._order.directory}/{file_name(base_offset, suffix)}"


def _no_batch(file: File, position: int, source: Source) -> DamagedBatch:
    return DamagedBatch(f"no whole batch at byte {position} of {file.path}", source.base_offset)
