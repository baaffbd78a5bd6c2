"""Timestamps at offsets: of the record that is there, or of the nearest one that is."""

import log_kit
import pytest
from log_kit import NOW, append, batch_of

from barnabas.broker.group_lag_times import Stamp, read_first, read_newest
from barnabas.wire.batch import CRC_START, HEADER_SIZE, BatchError, read_header
from barnabas.wire.compression import Codec


@pytest.fixture
def log():
    return log_kit.open_log(log_kit.new_disk())


def append_marker(log):
    """A control batch, as the end of a transaction leaves it: it takes an offset and is no record."""
    marker = bytearray(batch_of())
    marker[CRC_START + 1] |= 0x20
    header = read_header(marker)
    assert header.is_control
    append(log, marker)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_every_record_of_a_batch_has_its_own_time(log, codec):
    append(log, count=3, step=10, codec=codec)
    append(log, count=2, timestamp=NOW + 100, step=10, codec=codec)
    times = [NOW, NOW + 10, NOW + 20, NOW + 100, NOW + 110]
    assert [read_first(log, n, 5) for n in range(5)] == [Stamp(n, t) for n, t in enumerate(times)]
    # A high watermark lies between batches.
    assert read_newest(log, 0, 3) == Stamp(2, NOW + 20)
    assert read_newest(log, 0, 5) == Stamp(4, NOW + 110)


def test_nothing_is_found_beyond_the_bounds(log):
    append(log, count=3)
    assert read_first(log, 3, 3) is None
    assert read_first(log, 0, 0) is None
    assert read_newest(log, 2, 2) is None


def test_markers_are_stepped_over(log):
    append(log)
    append_marker(log)
    append(log, timestamp=NOW + 5)
    for _ in range(40):
        append_marker(log)
    end = log.log_end_offset
    assert read_first(log, 1, end) == Stamp(2, NOW + 5)
    assert read_newest(log, 0, end) == Stamp(2, NOW + 5)
    assert read_first(log, 3, end) is None
    assert read_newest(log, 3, end) is None


def test_the_search_goes_over_segments():
    settings = log_kit.config(segment_bytes=200)
    log = log_kit.open_log(log_kit.new_disk(), settings)
    for number in range(20):
        append(log, timestamp=NOW + number, size=50)
    assert log.segment_count > 3
    assert read_first(log, 7, 20) == Stamp(7, NOW + 7)
    assert read_newest(log, 0, 20) == Stamp(19, NOW + 19)


def test_a_start_that_moved_meanwhile_gives_the_first_record_left(log):
    for number in range(5):
        append(log, timestamp=NOW + number)
    log.move_log_start(3)
    assert read_first(log, 1, 5) == Stamp(3, NOW + 3)
    log.move_log_start(5)
    assert read_first(log, 1, 5) is None


def test_damage_is_an_error_and_not_a_figure(log):
    data = bytearray(batch_of(count=2))
    data[HEADER_SIZE] = 0x7F  # the length of the first record makes no sense any more
    append(log, data)
    with pytest.raises(BatchError):
        read_newest(log, 0, 2)
