"""What a producer's batch must be before it is appended, and what a topic's settings make of it.

Kafka's rules (LogValidator, UnifiedLog.analyzeAndValidateRecords), in the order in which Kafka gives its errors: header and
checksum (`check`), then the records (`open_now`, `open_later`), then what depends on the time (`conform`). Every batch,
compressed or not, is stepped through by its records' lengths; the fields inside of a record are looked at only where
the topic's settings ask for it (docs/adr/0003).

Must not know the log or the request. `open_later` is for a background job: it touches nothing but its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_RECORD_SIZE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from barnabas.wire.compression import (
    BY_NAME,
    Codec,
    CompressionError,
    TooLargeError,
    decompress,
    unpack_in_pieces,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.model.config.log_config import LogConfig
    from barnabas.wire.compression import Bytes, Unpacker

#: zstd needs clients that know it (KIP-110).
ZSTD_SINCE_VERSION: Final = 7
_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF

# What is done on the loop takes about 1 ms, 10 ms at worst; the rest is done in the background.
LOOP_PACKED_BYTES_MAX: Final = 64 * 1024
LOOP_UNPACKED_BYTES_MAX: Final = 256 * 1024
#: Stepped over: 1 µs each at worst.
LOOP_RECORDS_MAX: Final = 10_000
#: Where each record is looked at: 3 µs each.
LOOP_RECORDS_LOOKED_AT_MAX: Final = 2000
#: Where a batch gets another codec: gzip and zstd at their highest levels take 1 µs for 10 bytes.
LOOP_REPACKED_BYTES_MAX: Final = 16 * 1024

# The bounds of the background, far above what producers send. More is answered with MESSAGE_TOO_LARGE, upon which
# Kafka's own producer halves its batch and sends it again.
# Each keeps one batch below a second: others wait behind it.
#: Half a second of a processor for gzip; never more than a piece of it in memory.
UNPACKED_BYTES_MAX: Final = 128 * 1024 * 1024
#: Where the content must be there as a whole: each record is looked at, or it is packed anew.
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
#: Of a compressed batch: the most that librdkafka allows.
RECORDS_MAX: Final = 1_000_000
#: And of one whose records are looked at, about 4 µs each.
RECORDS_LOOKED_AT_MAX: Final = 200_000
#: Batches that are opened at the same time, so that one that takes long does not hold up all others.
OPENED_AT_ONCE: Final = 2

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


class Opened(NamedTuple):
    """A batch whose records are as they must be, in the topic's codec."""

    batch: memoryview
    header: BatchHeader
    #: The earliest time of a record, where the topic has a bound for it.
    earliest_ms: int | None = None


def check(records: memoryview | None, version: int, config: LogConfig) -> BatchHeader:
    """Check the one batch of a Produce request's partition and return its header; what is compressed stays closed."""
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
        raise _does_not_fit(header)
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


def open_now(
    batch: memoryview, header: BatchHeader, config: LogConfig, unpacker: Unpacker
) -> Opened | None:
    """Look into a checked batch as far as its kind and the topic's settings ask for; None if that is for `open_later`.

    Without such settings an uncompressed batch is the very same memory.
    """
    looks, wanted = _looks(config), _wanted_codec(header, config)
    if not (header.codec or looks or wanted is not None):
        return Opened(batch, header)
    if (
        header.size > LOOP_PACKED_BYTES_MAX
        or header.record_count > (LOOP_RECORDS_LOOKED_AT_MAX if looks else LOOP_RECORDS_MAX)
        or (wanted is not None and header.size > LOOP_REPACKED_BYTES_MAX)
    ):
        return None
    content: Bytes = batch[HEADER_SIZE : header.size]
    if header.codec:
        try:
            content = unpacker.unpack(Codec(header.codec), content, LOOP_UNPACKED_BYTES_MAX)
        except TooLargeError:
            return None
        except CompressionError as problem:
            raise _does_not_unpack(problem) from None
    return _open(batch, header, config, content)


def fits_now(batch: memoryview, header: BatchHeader, unpacker: Unpacker) -> bool:
    """Tell whether a compressed batch holds what its header counts; False also if that would take long to tell."""
    if len(batch) > LOOP_PACKED_BYTES_MAX or header.record_count > LOOP_RECORDS_MAX:
        return False
    try:
        content = unpacker.unpack(Codec(header.codec), batch[HEADER_SIZE:], LOOP_UNPACKED_BYTES_MAX)
    except CompressionError:
        return False
    return batches.content_fits(content, header.record_count)


def open_later(batch: memoryview, header: BatchHeader, config: LogConfig) -> Opened:
    """Do what `open_now` leaves, however long it takes."""
    if header.record_count > RECORDS_MAX:
        raise _too_many(header, RECORDS_MAX)
    codec, content = Codec(header.codec), batch[HEADER_SIZE : header.size]
    try:
        if _looks(config) or _wanted_codec(header, config) is not None:
            limit = max(HELD_BYTES_MAX, 4 * config.max_message_bytes)
            return _open(batch, header, config, decompress(codec, content, limit))
        limit = max(UNPACKED_BYTES_MAX, 16 * config.max_message_bytes)
        if not batches.pieces_fit(unpack_in_pieces(codec, content, limit), header.record_count):
            raise _does_not_fit(header)
    except TooLargeError as problem:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"the batch {problem}") from None
    except CompressionError as problem:
        raise _does_not_unpack(problem) from None
    return Opened(batch, header)


def conform(opened: Opened, config: LogConfig, now_ms: int) -> tuple[memoryview, BatchHeader, int]:
    """Hold an opened batch against the clock.

    Returns batch and header to append, and the append time (-1 where the producer's times stay).
    """
    batch, header, earliest_ms = opened
    if config.log_append_time:
        return batch, batches.stamp_append_time(batch, header, now_ms), now_ms
    latest_ms, after_max_ms = header.max_timestamp, config.message_timestamp_after_max_ms
    if latest_ms - now_ms > after_max_ms:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {latest_ms} is more than message.timestamp.after.max.ms={after_max_ms}"
            f" ahead of the broker's {now_ms}",
        )
    before_max_ms = config.message_timestamp_before_max_ms
    if earliest_ms is not None and now_ms - earliest_ms > before_max_ms:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {earliest_ms} is more than message.timestamp.before.max.ms={before_max_ms}"
            f" behind the broker's {now_ms}",
        )
    return batch, header, -1


def _looks(config: LogConfig) -> bool:
    """Tell whether a topic's settings ask for a look at each record."""
    return config.compact or (
        config.message_timestamp_before_max_ms != _UNLIMITED and not config.log_append_time
    )


def _wanted_codec(header: BatchHeader, config: LogConfig) -> Codec | None:
    """Tell which codec the topic asks for; None if the batch has it already."""
    name = config.compression_type
    return None if name == "producer" or BY_NAME[name] == header.codec else BY_NAME[name]


def _open(batch: memoryview, header: BatchHeader, config: LogConfig, content: Bytes) -> Opened:
    """Check the content of a batch and do with it what the topic's settings ask for."""
    if header.codec and not batches.content_fits(content, header.record_count):
        raise _does_not_fit(header)
    earliest_ms = _look(header, config, content) if _looks(config) else None
    wanted = _wanted_codec(header, config)
    if wanted is not None:
        level = _LEVELS[wanted](config)
        batch = memoryview(batches.repack(batch, content, wanted, level))
        header = batches.read_header(batch)
        if header.size > config.max_message_bytes:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"with compression.type={config.compression_type} the batch has {header.size} bytes,"
                f" max.message.bytes allows {config.max_message_bytes}",
            )
    return Opened(batch, header, earliest_ms)


def _look(header: BatchHeader, config: LogConfig, content: Bytes) -> int | None:
    """Look at each record: return the earliest time there is."""
    if header.record_count > RECORDS_LOOKED_AT_MAX:
        raise _too_many(header, RECORDS_LOOKED_AT_MAX)
    needs_key, earliest_ms = config.compact, _UNLIMITED
    try:
        for record in batches.walk_content(content, header):
            if needs_key and record.key is None:
                raise Refusal(
                    ErrorCode.INVALID_RECORD, "a compacted topic takes no records without a key"
                )
            if NO_TIMESTAMP != record.timestamp < earliest_ms:
                earliest_ms = record.timestamp
    except batches.BatchError as problem:
        raise Refusal(ErrorCode.INVALID_RECORD, str(problem)) from None
    return None if earliest_ms == _UNLIMITED else earliest_ms


def _does_not_fit(header: BatchHeader) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_RECORD,
        f"the batch does not hold the {header.record_count} records it claims",
    )


def _does_not_unpack(problem: CompressionError) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, f"the batch does not decompress: {problem}")


def _too_many(header: BatchHeader, most: int) -> Refusal:
    return Refusal(
        ErrorCode.MESSAGE_TOO_LARGE, f"{header.record_count} records in one batch, at most {most}"
    )
