"""What a producer's batch must be: each rule alone, and what topic settings make of a good one."""

import struct

import pytest
from chaos.wire_kit import NOW_MS, batch
from crc32c import crc32c

from barnabas.broker.batch_check import Refusal, check, conform
from barnabas.model.config.broker_config import BrokerConfig, resolve_topic
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.batch import LOG_APPEND_TIME, Record, read_header
from barnabas.wire.compression import Codec

BROKER = BrokerConfig({"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:9092"})


def config(**overrides):
    return resolve_topic(BROKER, {name.replace("_", "."): str(v) for name, v in overrides.items()})


def view(data):
    return memoryview(bytearray(data))


def refusal(call, *args):
    with pytest.raises(Refusal) as caught:
        call(*args)
    return caught.value.code


def test_a_good_batch_passes_and_stays_the_same_memory():
    data = view(batch(b"one", b"two"))
    header = check(data, 9, config())
    assert header.record_count == 2
    same, header, append_time = conform(data, header, config(), NOW_MS)
    assert same is data
    assert append_time == -1


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_passes(codec):
    assert check(view(batch(b"one", codec=codec)), 9, config()).codec == codec


def test_the_limit_counts_the_whole_batch():
    data = batch(bytes(1000))
    assert check(view(data), 9, config(max_message_bytes=len(data))).record_count == 1
    tight = config(max_message_bytes=len(data) - 1)
    assert refusal(check, view(data), 9, tight) == ErrorCode.MESSAGE_TOO_LARGE


def test_the_checksum_is_looked_at_before_the_claims():
    data = bytearray(batch(b"one"))
    struct.pack_into(">i", data, 57, 99)
    assert refusal(check, view(data), 9, config()) == ErrorCode.CORRUPT_MESSAGE
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    assert refusal(check, view(data), 9, config()) == ErrorCode.INVALID_RECORD


def test_log_append_time_is_stamped_under_a_new_checksum():
    data = view(batch(b"one", b"two"))
    settings = config(message_timestamp_type="LogAppendTime")
    stamped, header, append_time = conform(data, check(data, 9, settings), settings, 123_456)
    assert (append_time, header.max_timestamp) == (123_456, 123_456)
    assert header.attributes & LOG_APPEND_TIME
    assert batches.checksum_matches(stamped, read_header(stamped))
    assert {each.timestamp for each in batches.read_records(stamped, 10_000)} == {123_456}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topics_codec_replaces_the_producers(codec):
    data = view(batch(b"one" * 100, b"two" * 100, codec=Codec.GZIP))
    settings = config(compression_type=codec)
    again, header, _ = conform(data, check(data, 9, settings), settings, NOW_MS)
    assert batches.checksum_matches(again, header)
    values = [each.value for each in batches.read_records(again, 10_000)]
    assert values == [b"one" * 100, b"two" * 100]


def test_a_batch_that_grows_beyond_the_limit_when_it_is_unpacked_is_refused():
    """A small compressed batch must not become a huge one in the log."""
    data = view(batch(bytes(100_000), codec=Codec.GZIP))
    settings = config(compression_type="uncompressed", max_message_bytes=10_000)
    header = check(data, 9, settings)
    assert refusal(conform, data, header, settings, NOW_MS) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_is_not_unpacked():
    data = view(batch(bytes(3_000_000), codec=Codec.GZIP))
    settings = config(compression_type="uncompressed", max_message_bytes=10_000)
    header = check(data, 9, settings)
    code = refusal(conform, data, header, settings, NOW_MS)
    assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def test_bytes_that_do_not_decompress_are_refused_where_it_is_seen():
    data = bytearray(batch(b"one" * 100, codec=Codec.GZIP))
    data[-6] ^= 0xFF
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    for settings in (config(compression_type="zstd"), config(cleanup_policy="compact")):
        header = check(view(data), 9, settings)
        code = refusal(conform, view(data), header, settings, NOW_MS)
        assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_a_count_that_lies_is_seen_when_a_batch_is_unpacked():
    data = bytearray(batch(b"one", b"two", codec=Codec.GZIP))
    struct.pack_into(">i", data, 23, 4)
    struct.pack_into(">i", data, 57, 5)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    settings = config(compression_type="uncompressed")
    header = check(view(data), 9, settings)
    assert refusal(conform, view(data), header, settings, NOW_MS) == ErrorCode.INVALID_RECORD


def test_times_out_of_bounds():
    data = view(batch(b"one"))
    ahead = config(message_timestamp_after_max_ms=1000)
    behind = config(message_timestamp_before_max_ms=1000)
    header = check(data, 9, ahead)
    assert conform(data, header, ahead, NOW_MS - 1000)[0] is data
    assert refusal(conform, data, header, ahead, NOW_MS - 1001) == ErrorCode.INVALID_TIMESTAMP
    assert conform(data, header, behind, NOW_MS + 1000)[0] is data
    assert refusal(conform, data, header, behind, NOW_MS + 1001) == ErrorCode.INVALID_TIMESTAMP


def test_a_compacted_topic_takes_no_record_without_a_key():
    settings = config(cleanup_policy="compact")
    keyed = view(batches.build([Record(0, NOW_MS, b"k", b"v")]))
    assert conform(keyed, check(keyed, 9, settings), settings, NOW_MS)[0] is keyed
    keyless = view(batch(b"v"))
    header = check(keyless, 9, settings)
    assert refusal(conform, keyless, header, settings, NOW_MS) == ErrorCode.INVALID_RECORD
