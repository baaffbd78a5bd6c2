"""What a producer's batch must be before it is appended, and what a topic's settings make of it.

Kafka's rules (LogValidator, UnifiedLog.analyzeAndValidateRecords), in the order in which Kafka gives its errors: header and
checksum (`check`), then the records (`open_now`, `open_later`), then what depends on the time (`conform`). Every record of
every batch, compressed or not, is looked at (docs/adr/0003).

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
    LOG_APPEND_TIME,
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
from barnabas.wire.record_survey import EffortError, survey, survey_pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.model.config.log_config import LogConfig
    from barnabas.wire.compression import Bytes, Unpacker
    from barnabas.wire.record_survey import Survey

#: zstd needs clients that know it (KIP-110).
ZSTD_SINCE_VERSION: Final = 7
_LONG_MIN: Final = -(1 << 63)
_LONG_MASK: Final = (1 << 64) - 1

# What is done on the loop takes about 1 ms, 10 ms at worst; the rest is done in the background.
LOOP_PACKED_BYTES_MAX: Final = 64 * 1024
LOOP_UNPACKED_BYTES_MAX: Final = 256 * 1024
#: Of looking at records: 0.6 µs each as a rule, 2 at worst. Runs of records of one form take next to none.
LOOP_STEPS_MAX: Final = 10_000
#: Where a batch gets another codec: gzip and zstd at their highest levels take 1 µs for 10 bytes.
LOOP_REPACKED_BYTES_MAX: Final = 16 * 1024

# The bounds of the background, far above what producers send. More is answered with MESSAGE_TOO_LARGE, upon which
# Kafka's own producer halves its batch and sends it again.
# Each keeps one batch below a second: others wait behind it.
#: Half a second of a processor for gzip; never more than a piece of it in memory.
UNPACKED_BYTES_MAX: Final = 128 * 1024 * 1024
#: Where the content must be there as a whole, to be packed anew.
HELD_BYTES_MAX: Final = 128 * 1024 * 1024
#: The most that librdkafka allows.
RECORDS_MAX: Final = 1_000_000
#: Of looking at records that are not alike: up to a second.
STEPS_MAX: Final = 500_000
#: Batches that are opened at the same time, so that one that takes long does not hold up all others.
OPENED_AT_ONCE: Final = 2

_LEVELS: Final[dict[Codec, Callable[[LogConfig], int | None]]] = {
    Codec.NONE: lambda _config: None,
    Codec.SNAPPY: lambda _config: None,
    Codec.GZIP: lambda config: config.compression_gzip_level,
    Codec.LZ4: lambda _config: None,
    Codec.ZSTD: lambda config: config.compression_zstd_level,
}


#: What Kafka says before it looks into the log, or about the log itself.
_NOT_OF_LOG: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
)


class Refusal(Exception):
    """Why a batch is not taken."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        """Remember the code and a sentence for a person."""
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def is_of_log(self) -> bool:
        """Tell whether it is an answer of the partition's log, which says where that starts, too."""
        return self.code not in _NOT_OF_LOG


class NoBatch(Refusal):
    """What came is not one batch as this version of Produce takes it. No log has a say in that."""

    is_of_log = False


class Opened(NamedTuple):
    """A batch whose records are as they must be, in the topic's codec."""

    batch: memoryview
    header: BatchHeader
    #: Of its records; None if none has a time.
    earliest_ms: int | None
    latest_ms: int


def check(records: memoryview | None, version: int, config: LogConfig) -> BatchHeader:
    """Check the one batch of a Produce request's partition and return its header; its records are not looked at."""
    if records is None or len(records) < LOG_OVERHEAD:
        raise NoBatch(ErrorCode.INVALID_RECORD, "no record batch for this partition")
    if len(records) < HEADER_SIZE:
        raise NoBatch(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no record batch")
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
    return header


def _check_shape(records: memoryview, header: BatchHeader, size: int) -> None:
    if not 0 <= header.magic <= MAGIC or size < HEADER_SIZE or size > len(records):
        # A batch that is cut off is none to Kafka; one that cannot be is damage.
        cut_off = size > len(records) and 0 <= header.magic <= MAGIC
        raise NoBatch(
            ErrorCode.INVALID_RECORD if cut_off else ErrorCode.CORRUPT_MESSAGE,
            f"magic {header.magic} and {size} bytes claimed, {len(records)} here: no record batch",
        )
    if header.magic != MAGIC:
        raise NoBatch(ErrorCode.INVALID_RECORD, f"magic {header.magic} is not taken, only 2")
    if size != len(records):
        raise NoBatch(ErrorCode.INVALID_RECORD, "more than one batch for one partition")


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
        raise NoBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {ZSTD_SINCE_VERSION} or newer, this is {version}",
        )


def open_now(
    batch: memoryview, header: BatchHeader, config: LogConfig, unpacker: Unpacker
) -> Opened | None:
    """Look at the records of a checked batch, and give it the topic's codec; None if that takes long: it is for `open_later`.

    Without another codec it is the very same memory.
    """
    if _wanted_codec(header, config) is not None and header.size > LOOP_REPACKED_BYTES_MAX:
        return None
    content: Bytes = batch[HEADER_SIZE : header.size]
    try:
        if header.codec:
            if header.size > LOOP_PACKED_BYTES_MAX:
                return None
            content = unpacker.unpack(Codec(header.codec), content, LOOP_UNPACKED_BYTES_MAX)
        seen = survey(content, header, LOOP_STEPS_MAX)
    except (TooLargeError, EffortError):
        return None
    except CompressionError as problem:
        raise _does_not_unpack(problem) from None
    except batches.BatchError as problem:
        raise _does_not_fit(problem) from None
    return _open(batch, header, config, seen, content)


def look_now(batch: memoryview, header: BatchHeader, unpacker: Unpacker) -> Survey | None:
    """Tell what the records of a batch are like; None if they are not right, or that would take long to tell."""
    content: Bytes = batch[HEADER_SIZE:]
    try:
        if header.attributes & CODEC_MASK:
            if len(batch) > LOOP_PACKED_BYTES_MAX:
                return None
            content = unpacker.unpack(Codec(header.codec), content, LOOP_UNPACKED_BYTES_MAX)
        return survey(content, header, LOOP_STEPS_MAX)
    except (CompressionError, EffortError, batches.BatchError):
        return None


def open_later(batch: memoryview, header: BatchHeader, config: LogConfig) -> Opened:
    """Do what `open_now` leaves, however long it takes."""
    if header.record_count > RECORDS_MAX:
        raise _too_many(header)
    codec, content = Codec(header.codec), batch[HEADER_SIZE : header.size]
    try:
        if not codec or _wanted_codec(header, config) is not None:
            limit = max(HELD_BYTES_MAX, 4 * config.max_message_bytes)
            held = decompress(codec, content, limit) if codec else content
            return _open(batch, header, config, survey(held, header, STEPS_MAX), held)
        limit = max(UNPACKED_BYTES_MAX, 16 * config.max_message_bytes)
        pieces = unpack_in_pieces(codec, content, limit)
        return _open(batch, header, config, survey_pieces(pieces, header, STEPS_MAX))
    except EffortError:
        raise _too_many(header) from None
    except TooLargeError as problem:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"the batch {problem}") from None
    except CompressionError as problem:
        raise _does_not_unpack(problem) from None
    except batches.BatchError as problem:
        raise _does_not_fit(problem) from None


def conform(opened: Opened, config: LogConfig, now_ms: int) -> tuple[memoryview, BatchHeader, int]:
    """Hold an opened batch against the clock.

    Returns batch and header to append, and the append time (-1 where the producer's times stay).
    """
    batch, header, earliest_ms, latest_ms = opened
    if config.log_append_time:
        return batch, batches.stamp_append_time(batch, header, now_ms), now_ms
    for time_ms in (earliest_ms, latest_ms):
        if time_ms is not None and time_ms != NO_TIMESTAMP:
            _check_time(time_ms, config, now_ms)
    if header.max_timestamp != latest_ms or header.attributes & LOG_APPEND_TIME:
        header = batches.stamp_create_time(batch, header, latest_ms)
    return batch, header, -1


def _check_time(time_ms: int, config: LogConfig, now_ms: int) -> None:
    before_max_ms, after_max_ms = (
        config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms,
    )  # fmt: skip
    behind_ms = _as_long(now_ms - time_ms)
    if behind_ms > before_max_ms or _as_long(-behind_ms) > after_max_ms:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {time_ms} is more than message.timestamp.before.max.ms={before_max_ms} behind"
            f" or message.timestamp.after.max.ms={after_max_ms} ahead of the broker's {now_ms}",
        )


def _as_long(number: int) -> int:
    """Let a number of more than 64 bits run over: what Kafka makes of times that cannot be."""
    return (number - _LONG_MIN & _LONG_MASK) + _LONG_MIN


def _wanted_codec(header: BatchHeader, config: LogConfig) -> Codec | None:
    """Tell which codec the topic asks for; None if the batch has it already."""
    name = config.compression_type
    return None if name == "producer" or BY_NAME[name] == header.codec else BY_NAME[name]


def _open(
    batch: memoryview, header: BatchHeader, config: LogConfig, seen: Survey, content: Bytes = b""
) -> Opened:
    """Hold what was seen of its records against the topic's settings, and give a batch the codec that these ask for.

    `content` is needed only for that.
    """
    earliest_ms, latest_ms, has_keyless = seen
    if config.compact and has_keyless:
        raise Refusal(ErrorCode.INVALID_RECORD, "a compacted topic takes no records without a key")
    if header.attributes & LOG_APPEND_TIME:
        if config.log_append_time or header.max_timestamp == NO_TIMESTAMP:
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, "a producer may not set LogAppendTime")
        earliest_ms, latest_ms = header.max_timestamp, max(header.max_timestamp, NO_TIMESTAMP)
    wanted = _wanted_codec(header, config)
    if wanted is not None:
        if earliest_ms is not None and earliest_ms < 0:
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {earliest_ms} is before 1970")
        batch = memoryview(batches.repack(batch, content, wanted, _LEVELS[wanted](config)))
        header = batches.read_header(batch)
        if header.size > config.max_message_bytes:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"with compression.type={config.compression_type} the batch has {header.size} bytes,"
                f" max.message.bytes allows {config.max_message_bytes}",
            )
    return Opened(batch, header, earliest_ms, latest_ms)


def _does_not_fit(problem: batches.BatchError) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, f"the batch is malformed: {problem}")


def _does_not_unpack(problem: CompressionError) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, f"the batch does not decompress: {problem}")


def _too_many(header: BatchHeader) -> Refusal:
    return Refusal(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{header.record_count} records in one batch, at most {RECORDS_MAX},"
        f" {STEPS_MAX} where they and their headers are not alike",
    )
