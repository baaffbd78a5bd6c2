"""One segment by itself: finding batches in it, and what happens when its bytes are none."""

import pytest
from log_kit import DIRECTORY, NOW, append, batch_of, config, new_disk, open_log

from barnabas.ports import WouldBlock
from barnabas.storage.segment import WARM_BYTES, DamagedBatch

SIZE = len(batch_of(2))


def segment_of(disk, batches=10, **settings):
    settings.setdefault("index_interval_bytes", 150)
    log = open_log(disk, config(**settings))
    for number in range(batches):
        append(log, count=2, timestamp=NOW + number)
    return log._segments[0]


def test_headers_are_walked_from_any_batch():
    segment = segment_of(new_disk())
    walked = [(at, header.base_offset) for at, header in segment.headers(3 * SIZE, segment.size)]
    assert walked == [(number * SIZE, number * 2) for number in range(3, 10)]


def test_headers_span_pages():
    segment = segment_of(new_disk(), batches=200)
    assert len(list(segment.headers(0, segment.size))) == 200


def test_batches_larger_than_a_page_are_stepped_over():
    disk = new_disk()
    log = open_log(disk)
    for _ in range(3):
        append(log, size=9000)
    segment = log._segments[0]
    assert [header.base_offset for _, header in segment.headers(0, segment.size)] == [0, 1, 2]


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (1, 0), (2, 1), (19, 9)])
def test_a_batch_is_found_by_any_of_its_offsets(offset, expected):
    segment = segment_of(new_disk())
    assert segment.find_batch(offset, segment.size) == expected * SIZE


def test_no_batch_after_the_end():
    segment = segment_of(new_disk())
    assert segment.find_batch(20, segment.size) is None
    assert segment.find_batch(6, 3 * SIZE) is None


def test_half_a_batch_is_no_batch():
    segment = segment_of(new_disk(), index_interval_bytes=10**6)
    for end in (60, SIZE - 1):
        with pytest.raises(ValueError, match="no whole batch at byte 0"):
            list(segment.headers(0, end))
    with pytest.raises(ValueError, match="no whole batch at byte 0"):
        segment.find_batch(9, 60)


@pytest.mark.parametrize("damaged_byte", [16, 8], ids=["format version", "length"])
def test_damage_on_the_way_is_noticed(damaged_byte):
    disk = new_disk()
    segment = segment_of(disk, index_interval_bytes=10**6)
    disk.flip(segment.log.path, 2 * SIZE + damaged_byte, 7)
    with pytest.raises(ValueError, match=f"no whole batch at byte {2 * SIZE}"):
        segment.find_batch(12, segment.size)


def test_the_size_of_a_batch_is_in_its_first_bytes():
    segment = segment_of(new_disk())
    assert segment.batch_size(4 * SIZE, nowait=False) == SIZE


def test_what_this_process_wrote_last_is_taken_to_be_in_memory():
    disk = new_disk()
    segment = segment_of(disk)
    disk.chill(segment.log.path)
    segment.check_in_memory(0, SIZE)
    segment.written_from = 5 * SIZE
    segment.check_in_memory(5 * SIZE, SIZE)
    with pytest.raises(WouldBlock):
        segment.check_in_memory(4 * SIZE, SIZE)
    segment.size, segment.written_from = WARM_BYTES + 100, 0
    with pytest.raises(WouldBlock):
        segment.check_in_memory(99, 10)
    segment.check_in_memory(100, 10)


def test_the_first_timestamp_is_read_once():
    disk = new_disk()
    segment = segment_of(disk)
    segment.first_timestamp = None
    assert segment.read_first_timestamp() == NOW
    calls = disk.calls
    assert segment.read_first_timestamp() == NOW
    assert disk.calls == calls


def test_an_empty_segment_has_no_first_timestamp():
    segment = segment_of(new_disk(), batches=0)
    assert segment.read_first_timestamp() == -1
    assert segment.find_largest() is None
    assert segment.find_timestamp(NOW, 0) is None


def test_a_largest_time_that_no_record_carries_is_not_found():
    """Kafka keeps the records' own times when it stamps a batch: a header may claim more."""
    segment = segment_of(new_disk())
    segment.largest = (NOW + 1000, 3)
    assert segment.find_largest() is None


def test_sealing_writes_the_indexes_and_is_told_to_the_next_flush():
    disk = new_disk()
    segment = segment_of(disk)
    assert not segment.unsynced
    segment.seal()
    assert segment.unsynced
    segment.sync()
    assert not segment.unsynced
    segment.seal()
    assert not segment.unsynced


# Damage on the disk


def reopened(disk):
    (segment,) = open_log(disk, config(index_interval_bytes=150)).segments
    return segment


def answers(segment):
    """Everything that can be looked for: by offset, by time, and the largest time."""
    found = [segment.find_batch(offset, segment.size) for offset in range(20)]
    for timestamp in range(NOW - 1, NOW + 12):
        record = segment.find_timestamp(timestamp, 0)
        found.append(record and record[0].offset)
    segment.confirm_largest()
    largest, _ = segment.find_largest()
    return [*found, (largest.timestamp, largest.offset)]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_wrong_entry_in_an_index_misleads_nobody(suffix):
    disk = new_disk()
    log = open_log(disk, config(index_interval_bytes=150))
    for number in range(10):
        append(log, count=2, timestamp=NOW + number)
    log.close(clean=True)
    path, expected = f"{DIRECTORY}/{0:020d}.{suffix}", answers(reopened(disk))
    content, noticed = disk.contents()[path], 0
    for place in range(len(content)):
        for bit in range(8):
            disk.open(path).write(0, (content,))
            disk.flip(path, place, bit)
            try:
                assert answers(reopened(disk)) == expected
            except DamagedBatch:
                noticed += 1
    assert noticed


@pytest.mark.parametrize("entries", range(5))
def test_a_time_index_that_ends_too_early(entries):
    disk = new_disk()
    log = open_log(disk, config(index_interval_bytes=150))
    for number in range(10):
        append(log, count=2, timestamp=NOW + number)
    log.close(clean=True)
    expected = answers(reopened(disk))
    disk.open(f"{DIRECTORY}/{0:020d}.timeindex").truncate(12 * entries)
    segment = reopened(disk)
    if entries:
        with pytest.raises(DamagedBatch, match="timeindex does not fit"):
            segment.confirm_largest()
    else:
        assert answers(segment) == expected  # built again at the start


@pytest.mark.parametrize("batch", range(10))
@pytest.mark.parametrize("bit", [0, 1, 2, 5])
def test_a_wrong_base_offset_is_noticed_where_there_are_no_gaps(batch, bit):
    """No checksum covers it."""
    disk = new_disk()
    segment = segment_of(disk)
    segment.spill()
    disk.flip(segment.log.path, batch * SIZE + 7, bit)
    with pytest.raises(DamagedBatch):
        segment.find_batch(2 * batch, segment.size)
    with pytest.raises(DamagedBatch):
        list(segment.headers(0, segment.size))
