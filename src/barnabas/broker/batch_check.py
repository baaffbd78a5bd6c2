"""What a producer's batch must be before it is appended. Header and checksum, never a record's content.

Kafka's rules (LogValidator, UnifiedLog.analyzeAndValidateRecords) as far as they can be told without
decompressing. The order of the checks is the order in which Kafka gives its errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_RECORD_SIZE,
    TRANSACTIONAL,
    BatchHeader,
)
from barnabas.wire.compression import BY_NAME, Codec, CompressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.model.config.log_config import LogConfig

#: zstd needs clients that know it (KIP-110).
ZSTD_SINCE_VERSION: Final = 7
_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
#: What a batch may decompress to where it must be looked into: it is done on the loop.
UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024
#: And how many records are looked at: about 3 µs each.
RECORDS_LOOKED_AT_MAX: Final = 50_000

_LEVELS: Final[dict[Codec, Callable[[LogConfig], int | None]]] = {
    Codec.NONE: lambda _config: None,
    Codec.SNAPPY: lambda _config: None,
    Codec.GZIP: lambda config: config.compression_gzip_level,
    Codec.LZ4: lambda _config: None,
    Codec.ZSTD: lambda config: config.compression_zstd_level,
}


class Refusal(Exception):
    """Why a batch is not taken."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """Remember the code and a sentence for a person."""
        super().__init__(message)
        self.code = code
        self.message = message


def check(records: memoryview | None, version: int, config: LogConfig) -> BatchHeader:
    """Check the one batch of a Produce request's partition and return its header."""
    if records is None or len(records) < LOG_OVERHEAD:
        raise Refusal(ErrorCode.INVALID_RECORD, "no record batch for this partition")
    if len(records) < HEADER_SIZE:
        raise Refusal(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no record batch")
    header = batches.read_header(records)
    size = header.batch_length + LOG_OVERHEAD
    _check_shape(records, header, size)
    if size > config.max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes allows {config.max_message_bytes}",
        )
    if not batches.checksum_matches(records, header):
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum does not match its bytes")
    _check_claims(header)
    codec = header.attributes & CODEC_MASK
    if codec:
        _check_codec(codec, version)
    elif not batches.records_fit(records, header):
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"the batch does not hold the {header.record_count} records it claims",
        )
    return header


def _check_shape(records: memoryview, header: BatchHeader, size: int) -> None:
    if not 0 <= header.magic <= MAGIC or size < HEADER_SIZE or size > len(records):
        # A batch that is cut off is none to Kafka; one that cannot be is damage.
        cut_off = size > len(records) and 0 <= header.magic <= MAGIC
        raise Refusal(
            ErrorCode.INVALID_RECORD if cut_off else ErrorCode.CORRUPT_MESSAGE,
            f"magic {header.magic} and {size} bytes claimed, {len(records)} here: no record batch",
        )
    if header.magic != MAGIC:
        raise Refusal(ErrorCode.INVALID_RECORD, f"magic {header.magic} is not taken, only 2")
    if size != len(records):
        raise Refusal(ErrorCode.INVALID_RECORD, "more than one batch for one partition")


def _check_claims(header: BatchHeader) -> None:
    """Compare what the header says with itself."""
    payload = header.batch_length + LOG_OVERHEAD - HEADER_SIZE
    count = header.record_count
    if header.attributes & CONTROL:
        problem = "a client may not write control batches"
    elif header.base_offset != 0:
        problem = f"the base offset must be 0, not {header.base_offset}"
    elif count <= 0 or count != header.last_offset_delta + 1:
        problem = f"{count} records, but the last offset delta is {header.last_offset_delta}"
    elif not header.attributes & CODEC_MASK and count * MIN_RECORD_SIZE > payload:
        problem = f"{count} records do not fit into {payload} bytes"
    elif header.base_timestamp < -1 or header.max_timestamp < -1:
        problem = f"timestamps {header.base_timestamp} to {header.max_timestamp} are before 1970"
    elif header.producer_id < 0:
        if header.attributes & TRANSACTIONAL:
            problem = "a transactional batch needs a producer id"
        else:
            return
    elif header.producer_epoch < 0:
        raise Refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {header.producer_epoch} of a producer with an id",
        )
    elif header.base_sequence < 0:
        problem = f"sequence {header.base_sequence} of a producer with an id"
    else:
        return
    raise Refusal(ErrorCode.INVALID_RECORD, problem)


def _check_codec(codec: int, version: int) -> None:
    if codec > Codec.ZSTD:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {codec}")
    if codec == Codec.ZSTD and version < ZSTD_SINCE_VERSION:
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {ZSTD_SINCE_VERSION} or newer, this is {version}",
        )


def conform(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int
) -> tuple[memoryview, BatchHeader, int]:
    """Bring a checked batch to the topic's settings: keys, timestamps and codec.

    Returns batch and header to append, and the append time (-1 where the producer's times stay).
    Without such settings that is the very same memory.
    """
    append_time = -1
    if config.compact and any(r.key is None for r in _records(batch, header, config)):
        raise Refusal(ErrorCode.INVALID_RECORD, "a compacted topic takes no records without a key")
    if config.compression_type != "producer":
        batch, header = _with_codec(batch, header, config)
    if config.log_append_time:
        append_time = now_ms
        header = batches.stamp_append_time(batch, header, now_ms)
    else:
        _check_times(batch, header, config, now_ms)
    return batch, header, append_time


def _with_codec(
    batch: memoryview, header: BatchHeader, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    wanted = BY_NAME[config.compression_type]
    if header.codec == wanted:
        return batch, header
    level = _LEVELS[wanted](config)
    try:
        batch = memoryview(batches.recompress(batch, wanted, _unpacked_max(config), level))
    except CompressionError as problem:
        raise Refusal(
            ErrorCode.CORRUPT_MESSAGE, f"the batch does not decompress: {problem}"
        ) from None
    header = batches.read_header(batch)
    if header.size > config.max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"with compression.type={config.compression_type} the batch has {header.size} bytes,"
            f" max.message.bytes allows {config.max_message_bytes}",
        )
    if not wanted and not batches.records_fit(batch, header):
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"the batch does not hold the {header.record_count} records it claims",
        )
    return batch, header


def _check_times(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    latest = header.max_timestamp
    if latest - now_ms > config.message_timestamp_after_max_ms:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {latest} is more than message.timestamp.after.max.ms="
            f"{config.message_timestamp_after_max_ms} ahead of the broker's {now_ms}",
        )
    before_max = config.message_timestamp_before_max_ms
    if before_max == _UNLIMITED:
        return
    earliest = min(
        (r.timestamp for r in _records(batch, header, config) if r.timestamp != -1),
        default=now_ms,
    )
    if now_ms - earliest > before_max:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {earliest} is more than message.timestamp.before.max.ms={before_max}"
            f" behind the broker's {now_ms}",
        )


def _records(batch: memoryview, header: BatchHeader, config: LogConfig) -> Iterator[batches.Record]:
    """Look at the records, as far as that may take: a small batch can claim millions."""
    if header.record_count > RECORDS_LOOKED_AT_MAX:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records in one batch; on a topic whose settings ask for a look at"
            f" each, at most {RECORDS_LOOKED_AT_MAX} are taken",
        )
    try:
        yield from batches.walk_records(batch, _unpacked_max(config))
    except (batches.BatchError, CompressionError) as problem:
        raise Refusal(ErrorCode.INVALID_RECORD, str(problem)) from None


def _unpacked_max(config: LogConfig) -> int:
    return max(UNPACKED_BYTES_MAX, 2 * config.max_message_bytes)
