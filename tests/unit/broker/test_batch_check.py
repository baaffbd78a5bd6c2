"""What a producer's batch must be: each rule alone, and what topic settings make of a good one."""

import struct
from random import Random

import pytest
from chaos.packed_lies import CODECS, FIELDS, fields_batch, lies, odd_but_good
from chaos.wire_kit import NOW_MS, batch
from crc32c import crc32c

from barnabas.broker import batch_check
from barnabas.broker.batch_check import (
    LOOP_REPACKED_BYTES_MAX,
    LOOP_STEPS_MAX,
    LOOP_UNPACKED_BYTES_MAX,
    Refusal,
    check,
    conform,
    look_now,
    open_later,
    open_now,
)
from barnabas.model.config.broker_config import BrokerConfig, resolve_topic
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch as batches
from barnabas.wire.batch import LOG_APPEND_TIME, Record, read_header
from barnabas.wire.compression import Codec, Unpacker

#: Does not compress.
NOISE = Random(1).randbytes(100_000)
BROKER = BrokerConfig({"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:9092"})


def config(**overrides):
    return resolve_topic(BROKER, {name.replace("_", "."): str(v) for name, v in overrides.items()})


def view(data):
    return memoryview(bytearray(data))


def opened(data, settings, now_ms=NOW_MS):
    """What becomes of a batch whose header is right, on the loop and in the background alike."""
    header = check(data, 9, settings)
    outcomes = []
    for way in (lambda *args: open_now(*args, Unpacker()), open_later):
        try:
            outcome = way(data, header, settings)
        except Refusal as refusal:
            outcome = refusal
        outcomes.append(outcome)
    now, later = outcomes
    if now is None:
        now = later
    if isinstance(now, Refusal):
        assert now.code == later.code
        raise now
    assert not isinstance(later, Refusal), later
    assert now[1:] == later[1:]
    assert bytes(now.batch) == bytes(later.batch)
    return conform(now, settings, now_ms)


def refusal(call, *args):
    with pytest.raises(Refusal) as caught:
        call(*args)
    return caught.value.code


def test_a_good_batch_passes_and_stays_the_same_memory():
    data = view(batch(b"one", b"two"))
    header = check(data, 9, config())
    assert header.record_count == 2
    same, header, append_time = opened(data, config())
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
    stamped, header, append_time = opened(data, settings, 123_456)
    assert (append_time, header.max_timestamp) == (123_456, 123_456)
    assert header.attributes & LOG_APPEND_TIME
    assert batches.checksum_matches(stamped, read_header(stamped))
    assert {each.timestamp for each in batches.read_records(stamped, 10_000)} == {123_456}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topics_codec_replaces_the_producers(codec):
    data = view(batch(b"one" * 100, b"two" * 100, codec=Codec.GZIP))
    settings = config(compression_type=codec)
    again, header, _ = opened(data, settings, NOW_MS)
    assert batches.checksum_matches(again, header)
    values = [each.value for each in batches.read_records(again, 10_000)]
    assert values == [b"one" * 100, b"two" * 100]


def test_a_batch_that_grows_beyond_the_limit_when_it_is_unpacked_is_refused():
    """A small compressed batch must not become a huge one in the log."""
    data = view(batch(bytes(100_000), codec=Codec.GZIP))
    settings = config(compression_type="uncompressed", max_message_bytes=10_000)
    assert refusal(opened, data, settings) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_is_not_unpacked():
    data = view(batch(bytes(3_000_000), codec=Codec.GZIP))
    settings = config(compression_type="uncompressed", max_message_bytes=10_000)
    code = refusal(opened, data, settings)
    assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def test_bytes_that_do_not_decompress_are_refused_where_it_is_seen():
    data = bytearray(batch(b"one" * 100, codec=Codec.GZIP))
    data[-6] ^= 0xFF
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    for settings in (config(compression_type="zstd"), config(cleanup_policy="compact")):
        assert refusal(opened, view(data), settings) == ErrorCode.INVALID_RECORD


def test_a_count_that_lies_is_seen_when_a_batch_is_unpacked():
    data = bytearray(batch(b"one", b"two", codec=Codec.GZIP))
    struct.pack_into(">i", data, 23, 4)
    struct.pack_into(">i", data, 57, 5)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    settings = config(compression_type="uncompressed")
    assert refusal(opened, view(data), settings) == ErrorCode.INVALID_RECORD


def test_times_out_of_bounds():
    data = view(batch(b"one"))
    ahead = config(message_timestamp_after_max_ms=1000)
    behind = config(message_timestamp_before_max_ms=1000)
    assert opened(data, ahead, NOW_MS - 1000)[0] is data
    assert refusal(opened, data, ahead, NOW_MS - 1001) == ErrorCode.INVALID_TIMESTAMP
    assert opened(data, behind, NOW_MS + 1000)[0] is data
    assert refusal(opened, data, behind, NOW_MS + 1001) == ErrorCode.INVALID_TIMESTAMP


def test_times_of_records_are_looked_at_and_not_only_the_headers():
    """Kafka computes the largest time again; one that lies about it does not get past the bounds, or spoil the index."""
    for codec in (Codec.NONE, Codec.LZ4):
        for lie in (-100, -1, 0, NOW_MS - 5, NOW_MS + 10**10):
            data = bytearray(batch(b"one", b"two", codec=codec))
            struct.pack_into(">q", data, 35, lie)
            struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
            kept, header, _ = opened(view(data), config())
            assert header == read_header(kept)
            assert header.max_timestamp == NOW_MS + 1
            assert batches.checksum_matches(kept, header)
            ahead = config(message_timestamp_after_max_ms=1000)
            assert refusal(opened, view(data), ahead, NOW_MS - 1000) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("time_ms", [-(2**63), -1000, -2])
def test_times_before_1970_are_taken_as_kafka_takes_them(time_ms):
    data = view(batches.build([Record(0, time_ms, b"k", b"v"), Record(1, -1, b"k", b"v")]))
    if time_ms < -(2**62):
        assert refusal(opened, data, config()) == ErrorCode.INVALID_TIMESTAMP
        return
    _, header, _ = opened(data, config())
    assert header.max_timestamp == -1
    behind, repacked = config(message_timestamp_before_max_ms=1), config(compression_type="gzip")
    assert refusal(opened, data, behind) == ErrorCode.INVALID_TIMESTAMP
    assert refusal(opened, data, repacked) == ErrorCode.INVALID_TIMESTAMP


def test_a_producer_that_sets_append_time():
    """Kafka takes the largest timestamp for that of each record, and turns the batch to CreateTime."""
    data = view(batch(b"one", b"two", attributes=LOG_APPEND_TIME))
    kept, header, append_time = opened(data, config())
    assert (header.attributes, header.max_timestamp, append_time) == (0, NOW_MS + 1, -1)
    assert batches.checksum_matches(kept, header)
    topic = config(message_timestamp_type="LogAppendTime")
    claims = view(batch(b"one", attributes=LOG_APPEND_TIME))
    assert refusal(opened, claims, topic) == ErrorCode.INVALID_TIMESTAMP
    struct.pack_into(">q", claims, 35, -1)
    assert refusal(open_later, claims, read_header(claims), config()) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", FIELDS)
def test_a_record_whose_fields_lie_is_refused(codec, name):
    """On the loop, in the background, in a lane and wherever the settings lead."""
    data = view(fields_batch(codec, name))
    for settings in (config(), config(cleanup_policy="compact"), config(compression_type="gzip")):
        assert refusal(opened, data, settings) == ErrorCode.INVALID_RECORD
    assert look_now(data, read_header(data), Unpacker()) is None


def test_a_compacted_topic_takes_no_record_without_a_key():
    settings = config(cleanup_policy="compact")
    keyed = view(batches.build([Record(0, NOW_MS, b"k", b"v")]))
    assert opened(keyed, settings, NOW_MS)[0] is keyed
    keyless = view(batch(b"v"))
    assert refusal(opened, keyless, settings) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_whose_content_lies_is_refused(codec):
    for name, data in lies(codec):
        assert refusal(opened, view(data), config()) == ErrorCode.INVALID_RECORD, name


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("settings", ["producer", "uncompressed"])
def test_what_kafka_takes_is_taken(codec, settings):
    for name, data in odd_but_good(codec):
        kept = opened(view(data), config(compression_type=settings))[0]
        found = batches.read_records(kept, 10_000)
        assert [each.value for each in found] == [b"v" * 20] * 3, name


@pytest.mark.parametrize("codec", CODECS)
def test_what_takes_long_is_left_for_the_background(codec):
    """A small batch that unpacks to much, one of many records, and a large one."""
    settings = config()
    for data in (
        batch(bytes(LOOP_UNPACKED_BYTES_MAX), codec=codec),
        batch(*[b"", b"x"] * LOOP_STEPS_MAX, codec=codec),
        batch(NOISE, codec=codec),
    ):
        header = check(view(data), 9, settings)
        assert open_now(view(data), header, settings, Unpacker()) is None
        assert open_later(view(data), header, settings).header == header
    for number in (-1, 1):
        lying = bytearray(data)
        struct.pack_into(">i", lying, 23, number)
        struct.pack_into(">i", lying, 57, 1 + number)
        header = read_header(lying)
        assert refusal(open_later, view(lying), header, settings) == ErrorCode.INVALID_RECORD


def test_many_records_that_differ_are_left_for_the_background():
    alike = view(batch(*[b"x"] * 4 * LOOP_STEPS_MAX))
    assert open_now(alike, read_header(alike), config(), Unpacker()).batch is alike
    many = view(batch(*[b"", b"x"] * LOOP_STEPS_MAX))
    for settings in (config(), config(message_timestamp_before_max_ms=1000)):
        assert open_now(many, read_header(many), settings, Unpacker()) is None
        assert open_later(many, read_header(many), settings).batch is many


def test_another_codec_for_much_is_left_for_the_background():
    data = view(batch(bytes(LOOP_REPACKED_BYTES_MAX)))
    settings = config(compression_type="zstd")
    assert open_now(data, read_header(data), settings, Unpacker()) is None
    again = open_later(data, read_header(data), settings)
    assert len(batches.read_records(again.batch, 1 << 20)) == 1


def test_more_than_can_be_is_answered_so_that_producers_halve_their_batch(monkeypatch):
    data = view(batch(*[bytes(1000)] * 1000, codec=Codec.ZSTD))
    header = read_header(data)
    monkeypatch.setattr(batch_check, "UNPACKED_BYTES_MAX", 100_000)
    assert open_later(data, header, config()).header == header, "32 times the limit for a batch"
    small = config(max_message_bytes=len(data))
    assert refusal(open_later, data, header, small) == ErrorCode.MESSAGE_TOO_LARGE
    monkeypatch.setattr(batch_check, "HELD_BYTES_MAX", 100_000)
    small = config(max_message_bytes=len(data), compression_type="gzip")
    assert refusal(open_later, data, header, small) == ErrorCode.MESSAGE_TOO_LARGE
    mixed = view(batch(*[b"", b"x"] * 500))
    monkeypatch.setattr(batch_check, "STEPS_MAX", 900)
    assert open_later(data, header, config()).header == header, "a run is next to no effort"
    assert refusal(open_later, mixed, read_header(mixed), config()) == ErrorCode.MESSAGE_TOO_LARGE
    monkeypatch.setattr(batch_check, "RECORDS_MAX", 999)
    assert refusal(open_later, data, header, config()) == ErrorCode.MESSAGE_TOO_LARGE
