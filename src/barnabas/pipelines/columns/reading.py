"""Ranges of partitions as Arrow record batches, in the columns of Spark's `kafka` format.

Job: unpack what the client reads, decode it, cut what lies outside the range. Must not know Spark, or how records are laid out.

Invariants: rows come in the order of offsets, each once; the memory of one batch of rows is bounded, whatever the codec makes of its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from barnabas.client.errors import CorruptBatch
from barnabas.client.settings import READ_UNCOMMITTED
from barnabas.pipelines.columns.arrow import binary_array, number_array, text_scalar
from barnabas.pipelines.columns.headers import HEADERS, header_array
from barnabas.pipelines.columns.records import read_records
from barnabas.wire.batch import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD, BatchError
from barnabas.wire.compression import Codec, CompressionError, Unpacker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.client.reader import Chunk
    from barnabas.model.ids import TopicPartition
    from barnabas.pipelines.columns.records import Records
    from barnabas.runtime.blocking_client import BlockingClient
    from barnabas.wire.batch import BatchHeader

    Placed = tuple[int, int, BatchHeader]

#: What one batch may unpack to: producers are held to `max.message.bytes`, of packed bytes; a bomb is more than a hundred times that.
UNPACKED_BYTES_MAX: Final = 256 * 1024 * 1024
#: Unpacked batches are decoded together up to here.
GROUP_BYTES: Final = 8 * 1024 * 1024

_FIELDS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)


def record_schema(*, headers: bool = False) -> Any:  # noqa: ANN401  # pyarrow is untyped
    """Return the columns that records become."""
    return pa.schema([*_FIELDS, pa.field("headers", HEADERS)] if headers else _FIELDS)


def read_columns(
    client: BlockingClient,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    isolation: str = READ_UNCOMMITTED,
    headers: bool = False,
) -> Iterator[Any]:
    """Read [start, end) of a partition as Arrow record batches."""
    decoder = ColumnDecoder(partition, start, end, headers=headers)
    for chunk in client.read_range(partition, start, end, isolation):
        yield from decoder.decode(chunk)


class ColumnDecoder:
    """Makes rows of chunks of one range."""

    def __init__(
        self, partition: TopicPartition, start: int, end: int, *, headers: bool = False
    ) -> None:
        """Keep what is the same in all rows."""
        self._partition = partition
        self._start, self._end = start, end
        self._headers = headers
        self._schema = record_schema(headers=headers)
        self._topic = text_scalar(partition.topic)
        self._unpacker = Unpacker()

    def decode(self, chunk: Chunk) -> Iterator[Any]:
        """Yield the rows of a chunk, in one or more record batches."""
        try:
            for buffer, contents in self._groups(chunk):
                records = self._cut(read_records(buffer, contents), contents)
                if records.offset.size:
                    yield self._rows(records)
        except (BatchError, CompressionError) as problem:
            raise CorruptBatch(
                f"{self._partition} before offset {chunk.next_offset}: {problem}"
            ) from None

    # -- memory -------------------------------------------------------------------------------

    def _groups(self, chunk: Chunk) -> Iterator[tuple[Any, list[Placed]]]:
        """Yield pieces of memory with the unpacked contents of batches in them."""
        placed = [each for each in chunk.placed if each[1].record_count]
        if {each[1].attributes & CODEC_MASK for each in placed} <= {Codec.NONE}:
            if placed:
                places = [
                    (at + HEADER_SIZE, at + header.batch_length + LOG_OVERHEAD, header)
                    for at, header in placed
                ]
                yield np.frombuffer(chunk.data, np.uint8), places
            return
        pieces: list[Any] = []
        contents: list[Placed] = []
        size = 0
        for at, header in placed:
            piece = self._unpack(chunk.data[at + HEADER_SIZE : at + header.size], header)
            pieces.append(piece)
            contents.append((size, size + len(piece), header))
            size += len(piece)
            if size >= GROUP_BYTES:
                yield np.frombuffer(b"".join(pieces), np.uint8), contents
                pieces, contents, size = [], [], 0
        if contents:
            yield np.frombuffer(b"".join(pieces), np.uint8), contents

    def _unpack(self, content: memoryview, header: BatchHeader) -> bytes | memoryview:
        if not header.codec:
            return content
        try:
            codec = Codec(header.codec)
        except ValueError:
            raise CompressionError(f"compression {header.codec} is not known") from None
        return self._unpacker.unpack(codec, content, UNPACKED_BYTES_MAX)

    # -- rows ---------------------------------------------------------------------------------

    def _cut(self, records: Records, contents: list[Placed]) -> Records:
        """Leave out rows that are outside the range; only the batches at its ends have some."""
        first, last = contents[0][2], contents[-1][2]
        if first.base_offset >= self._start and last.next_offset <= self._end:
            return records
        inside = (records.offset >= self._start) & (records.offset < self._end)
        return records.select(inside)

    def _rows(self, records: Records) -> Any:  # noqa: ANN401
        count = records.offset.size
        columns = [
            binary_array(records.buffer, records.key),
            binary_array(records.buffer, records.value),
            pa.repeat(self._topic, count),
            number_array(np.full(count, self._partition.partition, np.int32)),
            number_array(records.offset),
            number_array(records.timestamp_ms * 1000, _FIELDS[5].type),
            number_array(records.timestamp_type),
        ]
        if self._headers:
            columns.append(header_array(records))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
