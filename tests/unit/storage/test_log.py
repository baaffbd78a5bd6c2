"""The log of one partition on a simulated disk: appending, reading, rolling, dropping, flushing."""

import struct

import pytest
from log_kit import (
    DIRECTORY,
    NOW,
    append,
    batch_of,
    config,
    files,
    new_disk,
    offsets_in,
    open_log,
    read,
    read_all,
)

from barnabas.core.producer_state import Duplicate
from barnabas.model.errors import ErrorCode
from barnabas.ports import WouldBlock
from barnabas.storage.log_reader import HINTS_KEPT
from barnabas.storage.names import file_name
from barnabas.storage.rolling_log import BrokenLogError
from barnabas.storage.segment import MAX_RELATIVE_OFFSET, WARM_BYTES, DamagedBatch
from barnabas.wire.batch import Producer, read_header

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TIME_INDEX = "00000000000000000000.timeindex"


class FixedRng:
    """Draws the same bytes again and again."""

    def __init__(self, value):
        self.value = value

    def random_bytes(self, size):
        return self.value.to_bytes(size, "big")


def size_of(**shape):
    return len(batch_of(**shape))


# Appending


def test_offsets_follow_each_other_and_are_stamped():
    disk = new_disk()
    log = open_log(disk)
    assert log.log_end_offset == 0
    first = append(log, count=3, epoch=7)
    second = append(log, count=1, epoch=7)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert log.log_end_offset == 4
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3]
    header = read_header(files(disk)[LOG], size_of(count=3))
    assert (header.base_offset, header.partition_leader_epoch) == (3, 7)


def test_the_bytes_go_to_disk_as_they_came():
    disk = new_disk()
    batch = batch_of(5, producer=Producer(9, 1, 0))
    append(open_log(disk), batch, epoch=3)
    assert files(disk)[LOG] == batch


def test_a_log_can_start_anywhere():
    log = open_log(new_disk(), log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert append(log).base_offset == 500


def test_size_and_segments_are_counted():
    log = open_log(new_disk(), config(segment_bytes=2 * size_of()))
    for _ in range(5):
        append(log)
    assert log.size_bytes == 5 * size_of()
    assert log.segment_count == 3
    assert log.base_offsets == [0, 2, 4]


# Producers and epochs


def test_a_producers_batches_are_recognised():
    log = open_log(new_disk())
    batch = batch_of(2, producer=Producer(9, 0, 0))
    header = read_header(batch)
    assert log.check_producer(header) is None
    append(log, batch)
    assert log.check_producer(header) == Duplicate(0, 1, NOW)
    gap = read_header(batch_of(1, producer=Producer(9, 0, 5)))
    assert log.check_producer(gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_without_a_producer_leave_no_state():
    log = open_log(new_disk())
    append(log)
    assert len(log.producers) == 0


def test_a_new_epoch_is_on_disk_before_its_first_batch():
    disk = new_disk()
    log = open_log(disk)
    append(log, epoch=1)
    append(log, epoch=1)
    append(log, epoch=4)
    assert log.epochs.entries == [(1, 0), (4, 2)]
    assert files(disk)["leader-epoch-checkpoint"] == b"0\n2\n1 0\n4 2\n"


def test_an_epoch_may_start_before_its_first_batch():
    disk = new_disk()
    log = open_log(disk)
    log.assign_epoch(2)
    calls = disk.calls
    log.assign_epoch(2)
    assert disk.calls == calls
    append(log, epoch=2)
    assert log.epochs.entries == [(2, 0)]


def test_an_epoch_that_cannot_be_saved_is_not_taken():
    disk = new_disk()
    log = open_log(disk)
    append(log, epoch=1)
    disk.fail_call(1)
    with pytest.raises(OSError, match="error"):
        append(log, epoch=2)
    assert log.epochs.entries == [(1, 0)]
    assert log.log_end_offset == 1
    append(log, epoch=2)
    assert log.epochs.entries == [(1, 0), (2, 1)]


# Rolling


def test_rolls_when_the_batch_would_not_fit():
    size = size_of(size=100)
    log = open_log(new_disk(), config(segment_bytes=3 * size))
    for _ in range(3):
        append(log, size=100)
    assert log.base_offsets == [0]
    append(log, size=100)
    assert log.base_offsets == [0, 3]


def test_a_batch_larger_than_a_segment_gets_its_own():
    log = open_log(new_disk(), config(segment_bytes=200))
    append(log, size=500)
    append(log, size=500)
    assert log.base_offsets == [0, 1]


def test_rolls_by_the_records_time():
    log = open_log(new_disk(), config(segment_ms=1000))
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 1000)
    assert log.base_offsets == [0]
    append(log, timestamp=NOW + 1001)
    assert log.base_offsets == [0, 2]


def test_old_records_do_not_roll():
    log = open_log(new_disk(), config(segment_ms=1000))
    append(log, timestamp=NOW)
    append(log, timestamp=NOW - 10**9)
    assert log.base_offsets == [0]


def test_rolls_by_the_clock_when_records_have_no_time():
    log = open_log(new_disk(), config(segment_ms=1000))
    append(log, timestamp=-1, now_ms=NOW)
    append(log, timestamp=-1, now_ms=NOW + 1000)
    assert log.base_offsets == [0]
    append(log, timestamp=-1, now_ms=NOW + 1001)
    assert log.base_offsets == [0, 2]


def test_time_counts_from_the_first_record_after_opening_again():
    disk, settings = new_disk(), config(segment_ms=1000)
    log = open_log(disk, settings)
    append(log, timestamp=NOW)
    log.close(clean=True)
    log = open_log(disk, settings, now_ms=NOW + 5000, recovery_point=1)
    append(log, timestamp=NOW + 900)
    assert log.base_offsets == [0]
    append(log, timestamp=NOW + 1001)
    assert log.base_offsets == [0, 2]


def test_jitter_makes_it_earlier():
    settings = config(segment_ms=1000, segment_jitter_ms=300)
    log = open_log(new_disk(), settings, rng=FixedRng(599))
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 1000 - 299)
    assert log.base_offsets == [0]
    append(log, timestamp=NOW + 1000 - 299 + 1)
    assert log.base_offsets == [0, 2]


@pytest.mark.parametrize(("index_bytes", "entries"), [(64, 4), (60, 4), (24, 1)])
def test_rolls_when_an_index_is_full(index_bytes, entries):
    """Kafka keeps the last slot of the time index for closing, so that one is full first."""
    settings = config(index_interval_bytes=0, segment_index_bytes=index_bytes)
    log = open_log(new_disk(), settings)
    for number in range(entries + 1):
        append(log, timestamp=NOW + number)
    assert log.base_offsets == [0]
    append(log, timestamp=NOW + 100)
    assert log.base_offsets == [0, entries + 1]


def test_only_the_offset_index_fills_while_time_stands_still():
    settings = config(index_interval_bytes=0, segment_index_bytes=64)
    log = open_log(new_disk(), settings)
    for _ in range(9):
        append(log)
    assert log.base_offsets == [0]
    append(log)
    assert log.base_offsets == [0, 9]


def test_an_index_without_room_means_one_batch_per_segment():
    log = open_log(new_disk(), config(segment_index_bytes=4))
    for _ in range(3):
        append(log)
    assert log.base_offsets == [0, 1, 2]
    assert len(read_all(log)) == 3


def test_rolls_before_relative_offsets_overflow():
    log = open_log(new_disk())
    append(log)
    header = read_header(batch_of())._replace(last_offset_delta=MAX_RELATIVE_OFFSET)
    log.append(memoryview(batch_of()), header, 0, NOW)
    assert log.base_offsets == [0, 1]


def test_settings_change_while_open():
    log = open_log(new_disk())
    append(log)
    log.configure(config(segment_bytes=size_of()))
    append(log)
    assert log.base_offsets == [0, 1]


def test_rolling_an_empty_segment_does_nothing():
    disk = new_disk()
    log = open_log(disk)
    before = files(disk)
    log.roll(NOW)
    assert files(disk) == before


def test_rolling_writes_a_snapshot_of_the_producers():
    disk = new_disk()
    log = open_log(disk)
    append(log, producer=Producer(9, 0, 0))
    log.roll(NOW)
    assert "00000000000000000001.snapshot" in files(disk)


# Index contents


def expected_indexes(sizes, timestamps, interval):
    """Kafka's rule, written down once more from its description: entries before batches."""
    offsets, times = b"", b""
    position = since = 0
    largest, largest_at, last_time = -1, 0, -1
    for number, (size, timestamp) in enumerate(zip(sizes, timestamps, strict=True)):
        if timestamp > largest:
            largest, largest_at = timestamp, number
        if since > interval:
            offsets += struct.pack(">ii", number, position)
            if largest > last_time:
                times += struct.pack(">qi", largest, largest_at)
                last_time = largest
            since = 0
        since += size
        position += size
    if largest > last_time:
        times += struct.pack(">qi", largest, largest_at)
    return offsets, times


@pytest.mark.parametrize("interval", [0, 90, 500, 10**6])
def test_indexes_have_kafkas_entries(interval):
    disk = new_disk()
    log = open_log(disk, config(index_interval_bytes=interval))
    shapes = [{"size": 1 + n * 7 % 90, "timestamp": NOW + n // 2 - n % 5} for n in range(200)]
    for shape in shapes:
        append(log, **shape)
    log.close(clean=True)
    sizes = [size_of(**shape) for shape in shapes]
    expected = expected_indexes(sizes, [shape["timestamp"] for shape in shapes], interval)
    assert (files(disk)[INDEX], files(disk)[TIME_INDEX]) == expected


def test_index_tails_stay_short_in_memory():
    disk = new_disk()
    log = open_log(disk, config(index_interval_bytes=0))
    for number in range(1200):
        append(log, timestamp=NOW + number)
    assert len(files(disk)[INDEX]) >= 1199 * 8 - 4096 - 8
    assert len(files(disk)[TIME_INDEX]) >= 1199 * 12 - 4096 - 12


# Reading


def filled_log(disk=None, batches=20, per_batch=3, **settings):
    settings.setdefault("index_interval_bytes", 200)
    log = open_log(disk or new_disk(), config(**settings))
    for number in range(batches):
        append(log, count=per_batch, timestamp=NOW + number)
    return log


@pytest.mark.parametrize("nowait", [False, True])
def test_reading_starts_with_the_batch_that_holds_the_offset(nowait):
    log = filled_log()
    for offset in range(60):
        found = offsets_in(read(log, offset, nowait=nowait))
        assert found == list(range(offset // 3 * 3, 60, 3))


def test_there_is_nothing_at_the_end():
    log = filled_log()
    assert read(log, 60) is None
    assert read(log, 60, nowait=True) is None
    assert read(open_log(new_disk()), 0) is None


def test_the_size_is_bounded_even_inside_a_batch():
    log = filled_log()
    size = size_of(count=3)
    assert len(read(log, 0, size + 10)) == size + 10
    assert len(read(log, 30, size + 10, min_one=False)) == size + 10


@pytest.mark.parametrize("nowait", [False, True])
def test_a_piece_of_the_first_batch_is_not_read(nowait):
    log = filled_log()
    size = size_of(count=3)
    assert len(read(log, 30, size, min_one=False, nowait=nowait)) == size
    for too_few in (size - 1, 1, 0, -1):
        assert read(log, 30, too_few, min_one=False, nowait=nowait) is None
        assert read(log, 59, too_few, min_one=False, nowait=nowait) is None


@pytest.mark.parametrize("nowait", [False, True])
def test_the_first_batch_comes_whole_if_asked(nowait):
    log = filled_log()
    size = size_of(count=3)
    for offset in (0, 30, 59):
        assert len(read(log, offset, 1, nowait=nowait)) == size
    assert len(read(log, 57, 0, nowait=nowait)) == size


@pytest.mark.parametrize("nowait", [False, True])
def test_nothing_at_or_above_the_end_offset_is_read(nowait):
    log = filled_log()
    for end_offset in range(1, 60):
        found = offsets_in(read(log, 0, end_offset=end_offset, nowait=nowait))
        assert found == list(range(0, end_offset // 3 * 3, 3))


def test_the_first_batch_is_not_read_whole_past_the_end_offset():
    log = filled_log()
    assert read(log, 30, 1, end_offset=30) is None
    assert read(log, 31, 1, end_offset=32) is None


@pytest.mark.parametrize("nowait", [False, True])
def test_a_read_stays_in_its_segment(nowait):
    log = filled_log(segment_bytes=5 * size_of(count=3))
    assert log.base_offsets == [0, 15, 30, 45]
    assert offsets_in(read(log, 3, nowait=nowait)) == [3, 6, 9, 12]
    assert offsets_in(read(log, 14, nowait=nowait)) == [12]
    assert offsets_in(read(log, 15, nowait=nowait)) == [15, 18, 21, 24, 27]
    assert offsets_in(read(log, 3, end_offset=15, nowait=nowait)) == [3, 6, 9, 12]
    assert offsets_in(read(log, 15, end_offset=16, nowait=nowait)) == []
    assert [record.offset for record in read_all(log)] == list(range(60))


def test_a_reader_at_the_end_finds_the_next_batch_without_looking():
    disk = new_disk()
    log = filled_log(disk)
    assert read(log, 60, nowait=True) is None
    append(log)
    append(log)
    calls = disk.calls
    part = read(log, 60, nowait=True)
    assert disk.calls == calls
    assert offsets_in(part) == [60, 61]
    append(log)
    calls = disk.calls
    part = read(log, 62, nowait=True)  # where the last read ended
    assert disk.calls == calls
    assert offsets_in(part) == [62]


def test_hints_are_few():
    log = filled_log()
    for _ in range(3 * HINTS_KEPT):
        read(log, log.log_end_offset, nowait=True)
        append(log)
    assert len(log._hints) == HINTS_KEPT


def test_a_hint_of_a_closed_segment_does_no_harm():
    log = filled_log()
    read(log, 60, nowait=True)
    log.roll(NOW)
    append(log)
    assert offsets_in(read(log, 60, nowait=True)) == [60]


def test_a_hint_above_the_end_offset_is_not_used():
    log = filled_log()
    read(log, 60, nowait=True)
    append(log)
    append(log)
    assert offsets_in(read(log, 60, end_offset=61, nowait=True)) == [60]
    assert read(log, 60, end_offset=60, nowait=True) is None


def reopened(disk, **settings):
    return open_log(disk, config(index_interval_bytes=200, **settings))


def test_cold_bytes_are_left_to_a_background_job():
    disk = new_disk()
    filled_log(disk).close(clean=True)
    log = reopened(disk)
    disk.chill(f"{DIRECTORY}/{LOG}")
    with pytest.raises(WouldBlock):
        read(log, 0, nowait=True)
    with pytest.raises(WouldBlock):
        read(log, 30, nowait=True)
    assert offsets_in(read(log, 57)) == [57]
    assert offsets_in(read(log, 57, nowait=True)) == [57]


def test_a_cold_index_is_left_to_a_background_job():
    disk = new_disk()
    filled_log(disk).close(clean=True)
    log = reopened(disk)
    read(log, 0)
    disk.chill(f"{DIRECTORY}/{INDEX}")
    with pytest.raises(WouldBlock):
        read(log, 30, nowait=True)
    assert offsets_in(read(log, 0, nowait=True))[0] == 0


def test_what_was_just_written_is_not_asked_for():
    disk = new_disk()
    log = filled_log(disk)
    disk.chill(f"{DIRECTORY}/{LOG}")
    assert offsets_in(log.read(0, 10**6, end_offset=60, min_one=True, nowait=True))[0] == 0


def test_what_was_written_long_ago_is_asked_for():
    disk = new_disk()
    log = open_log(disk, config(index_interval_bytes=1 << 20))
    for _ in range(5):
        append(log, size=WARM_BYTES // 4)
    disk.chill(f"{DIRECTORY}/{LOG}")
    with pytest.raises(WouldBlock):
        read(log, 0, nowait=True)
    assert len(read(log, 0))
    disk.chill(f"{DIRECTORY}/{LOG}")
    assert len(read(log, 4, nowait=True))


def test_a_gap_that_compaction_left_is_stepped_over():
    """A segment may have lost its last records: the answer comes from the next one."""
    disk = new_disk()
    log = filled_log(disk, segment_bytes=5 * size_of(count=3))
    log._segments[1].size = 2 * size_of(count=3)
    with pytest.raises(DamagedBatch):
        read(log, 25)
    log.configure(config(cleanup_policy="compact"))
    assert offsets_in(read(log, 25)) == [30, 33, 36, 39, 42]


# Damage


def flipped(disk, position):
    """A log in one segment, closed cleanly, of twenty batches of three records, with one bit turned over."""
    filled_log(disk).close(clean=True)
    disk.flip(f"{DIRECTORY}/{LOG}", position)
    return reopened(disk)


def test_what_was_on_the_disk_before_is_checked_once_and_away_from_the_loop():
    disk = new_disk()
    filled_log(disk).close(clean=True)
    log = reopened(disk)
    with pytest.raises(WouldBlock):
        read(log, 0, nowait=True)
    assert offsets_in(read(log, 0)) == list(range(0, 60, 3))
    assert offsets_in(read(log, 0, nowait=True)) == list(range(0, 60, 3))
    assert offsets_in(read(log, 30, 200, nowait=True))[0] == 30
    append(log)
    assert offsets_in(read(log, 60, nowait=True)) == [60]
    assert offsets_in(read(log, 57, nowait=True)) == [57, 60]


def test_bytes_up_to_the_damage_are_handed_out_and_no_others():
    disk, size = new_disk(), size_of(count=3)
    log = flipped(disk, 7 * size + 70)
    assert offsets_in(read(log, 0)) == list(range(0, 21, 3))
    with pytest.raises(DamagedBatch) as damage:
        read(log, 21)
    assert damage.value.base_offset == 0
    with pytest.raises(WouldBlock):
        read(log, 21, nowait=True)
    assert offsets_in(read(log, 24)) == list(range(24, 60, 3))


def test_segments_that_have_changed_names_are_not_handed_out():
    disk = new_disk()
    filled_log(disk, segment_bytes=5 * size_of(count=3)).close(clean=True)
    one, two = (f"{DIRECTORY}/{file_name(base, '.log')}" for base in (15, 30))
    disk.rename(one, f"{DIRECTORY}/x")
    disk.rename(two, one)
    disk.rename(f"{DIRECTORY}/x", two)
    log = reopened(disk, segment_bytes=5 * size_of(count=3))
    assert offsets_in(read(log, 0)) == [0, 3, 6, 9, 12]
    for offset in (15, 20, 29, 30, 35, 44):
        with pytest.raises(DamagedBatch):
            read(log, offset)
    assert offsets_in(read(log, 45)) == [45, 48, 51, 54, 57]


# By time


def test_the_first_record_at_or_after_a_time():
    log = open_log(new_disk(), config(index_interval_bytes=100, segment_bytes=1000))
    for number in range(40):
        append(log, count=4, timestamp=NOW + number * 100, step=10, epoch=number // 10)
    assert log.segment_count > 3
    assert log.offset_for_timestamp(0) == (NOW, 0, 0)
    assert log.offset_for_timestamp(NOW + 1010) == (NOW + 1010, 41, 1)
    assert log.offset_for_timestamp(NOW + 1011) == (NOW + 1020, 42, 1)
    assert log.offset_for_timestamp(NOW + 1031) == (NOW + 1100, 44, 1)
    assert log.offset_for_timestamp(NOW + 3930) == (NOW + 3930, 159, 3)
    assert log.offset_for_timestamp(NOW + 3931) is None


def test_times_that_jump_back_find_the_first_in_the_log():
    log = open_log(new_disk(), config(index_interval_bytes=0))
    for timestamp in (5, 1, 9, 2, 9, 3):
        append(log, timestamp=timestamp)
    assert log.offset_for_timestamp(4) == (5, 0, 0)
    assert log.offset_for_timestamp(6) == (9, 2, 0)
    assert log.offset_for_timestamp(9) == (9, 2, 0)
    assert log.max_timestamp() == (9, 2, 0)


def test_records_before_the_start_are_not_found():
    log = open_log(new_disk(), config(index_interval_bytes=0))
    for timestamp in (5, 9, 3, 4, 9):
        append(log, timestamp=timestamp)
    log.advance_log_start(2)
    assert log.offset_for_timestamp(2) == (3, 2, 0)
    assert log.offset_for_timestamp(5) == (9, 4, 0)


def test_a_later_segment_is_searched_when_the_start_hides_the_find():
    log = open_log(new_disk())
    for timestamp in (9, 1):
        append(log, timestamp=timestamp)
    log.roll(NOW)
    append(log, timestamp=7)
    log.advance_log_start(1)
    assert log.offset_for_timestamp(5) == (7, 2, 0)


def test_records_without_time_are_not_found():
    log = open_log(new_disk())
    assert log.max_timestamp() is None
    append(log, timestamp=-1)
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None


def test_the_largest_time_is_found_inside_a_batch():
    log = open_log(new_disk())
    append(log, count=3, timestamp=NOW, step=5)
    append(log, count=3, timestamp=NOW + 8, step=-1)
    assert log.max_timestamp() == (NOW + 10, 2, 0)


def test_the_largest_time_survives_a_restart():
    disk = new_disk()
    log = open_log(disk)
    append(log, timestamp=NOW + 5)
    append(log, timestamp=NOW)
    log.close(clean=True)
    assert open_log(disk).max_timestamp() == (NOW + 5, 0, 0)


# Dropping from the start


def test_segments_wholly_before_the_start_are_put_aside():
    disk = new_disk()
    log = filled_log(disk, segment_bytes=5 * size_of(count=3))
    assert log.advance_log_start(31) == [
        f"{DIRECTORY}/{base:020d}{suffix}.deleted"
        for base, suffixes in (
            (0, (".log", ".index", ".timeindex")),
            (15, (".log", ".index", ".timeindex", ".snapshot")),
        )
        for suffix in suffixes
    ]
    assert log.base_offsets == [30, 45]
    assert log.log_start_offset == 31
    assert [record.offset for record in read_all(log)] == list(range(31, 60))
    assert not disk.exists(f"{DIRECTORY}/{LOG}")
    assert log.epochs.entries == [(0, 31)]
    assert files(disk)["leader-epoch-checkpoint"] == b"0\n1\n0 31\n"


def test_the_active_segment_stays():
    log = filled_log()
    assert log.advance_log_start(60) == []
    assert log.segment_count == 1
    assert read(log, 60) is None
    append(log)
    assert offsets_in(read(log, 60)) == [60]


def test_the_start_never_falls():
    disk = new_disk()
    log = filled_log(disk)
    log.advance_log_start(30)
    calls = disk.calls
    assert log.advance_log_start(20) == []
    assert log.log_start_offset == 30
    assert disk.calls == calls


def test_without_epochs_there_is_nothing_to_write():
    disk = new_disk()
    log = open_log(disk)
    append(log, epoch=-1)
    log.advance_log_start(1)
    assert log.log_start_offset == 1
    assert "leader-epoch-checkpoint" not in files(disk)


def test_a_slice_that_is_on_its_way_out_survives_the_dropping():
    log = filled_log(segment_bytes=5 * size_of(count=3))
    part = read(log, 0)
    log.advance_log_start(60)
    assert offsets_in(part) == [0, 3, 6, 9, 12]


def test_a_transaction_index_of_kafkas_goes_with_its_segment():
    disk = new_disk()
    log = filled_log(disk, segment_bytes=5 * size_of(count=3))
    disk.open(f"{DIRECTORY}/{0:020d}.txnindex", create=True)
    assert f"{DIRECTORY}/{0:020d}.txnindex.deleted" in log.advance_log_start(15)


# Flushing


def flush(log, now_ms=NOW, **options):
    job = log.plan_flush(now_ms, **options)
    if job is not None:
        job.run()
        log.on_flushed(job)
    return job


def test_flush_by_messages():
    log = open_log(new_disk(), config(flush_messages=3))
    assert not append(log, count=2).flush_due
    assert not log.flush_due(NOW)
    assert append(log).flush_due
    assert log.flush_due(NOW)
    assert log.unflushed_records == 3
    assert flush(log) is not None
    assert log.recovery_point == 3
    assert not log.flush_due(NOW)
    assert log.unflushed_records == 0


def test_flush_by_time():
    log = open_log(new_disk(), config(flush_ms=1000))
    assert not log.flush_due(NOW + 5000)
    append(log)
    assert not log.flush_due(NOW + 999)
    assert log.flush_due(NOW + 1000)
    flush(log, NOW + 1000)
    append(log)
    assert not log.flush_due(NOW + 1999)
    assert log.flush_due(NOW + 2000)


def test_a_closed_segment_is_flushed_and_the_active_one_is_not():
    disk = new_disk()
    log = filled_log(disk, batches=18, segment_bytes=5 * size_of(count=3))
    assert log.flush_due(NOW)
    flush(log)
    assert log.recovery_point == 45
    assert not log.flush_due(NOW)
    assert flush(log) is None
    assert not append(log).flush_due
    disk.crash()
    log = open_log(disk, clean=False, recovery_point=45)
    assert len(read_all(log)) >= 45


def test_a_flush_can_take_everything():
    disk = new_disk()
    log = filled_log(disk)
    flush(log, everything=True)
    assert log.recovery_point == 60
    before = files(disk)
    disk.crash()
    assert files(disk) == before


def test_one_flush_at_a_time():
    log = open_log(new_disk(), config(flush_messages=1))
    append(log)
    job = log.plan_flush(NOW)
    assert not append(log).flush_due
    assert not log.flush_due(NOW)
    assert log.plan_flush(NOW) is None
    job.run()
    log.on_flushed(job)
    assert log.recovery_point == 1
    assert log.flush_due(NOW)


def test_nothing_to_flush():
    log = open_log(new_disk())
    assert log.plan_flush(NOW) is None
    assert flush(log, everything=True) is not None  # the names of the new files
    assert log.plan_flush(NOW, everything=True) is None


def test_a_failed_sync_is_never_forgotten():
    disk = new_disk()
    log = filled_log(disk)
    job = log.plan_flush(NOW, everything=True)
    disk.fail_call(1)
    job.run()
    with pytest.raises(OSError, match="error"):
        log.on_flushed(job)
    assert log.recovery_point == 0
    for call in (
        lambda: append(log),
        lambda: log.roll(NOW),
        lambda: log.plan_flush(NOW, everything=True),
        lambda: log.advance_log_start(1),
        lambda: log.assign_epoch(9),
        lambda: log.close(clean=True),
    ):
        with pytest.raises(BrokenLogError, match="broken"):
            call()
    assert log.is_broken
    log.close(clean=False)


def test_a_segment_dropped_before_its_sync_is_no_error():
    disk = new_disk()
    log = filled_log(disk, segment_bytes=5 * size_of(count=3))
    job = log.plan_flush(NOW)
    for path in log.advance_log_start(45):
        disk.remove(path)
    job.run()
    log.on_flushed(job)
    assert log.recovery_point == 45


def test_a_segment_gone_by_other_hands_is_an_error():
    disk = new_disk()
    log = filled_log(disk, segment_bytes=5 * size_of(count=3))
    job = log.plan_flush(NOW)
    disk.remove(f"{DIRECTORY}/{LOG}")
    job.run()
    with pytest.raises(FileNotFoundError):
        log.on_flushed(job)


# Closing and moving


def test_a_clean_close_needs_no_scan():
    disk = new_disk()
    log = filled_log(disk, segment_bytes=5 * size_of(count=3))
    append(log, producer=Producer(9, 0, 0))
    log.close(clean=True)
    assert log.recovery_point == log.log_end_offset == 61
    disk.crash()  # everything was synced
    again = reopened(disk, segment_bytes=5 * size_of(count=3))
    assert again.recovery.scanned_bytes == 0
    assert (again.log_start_offset, again.log_end_offset) == (0, 61)
    assert again.recovery_point == 61
    assert [record.offset for record in read_all(again)] == list(range(61))
    assert len(again.producers) == 1
    assert again.epochs.entries == [(0, 0)]


def test_closing_twice_in_a_row_changes_no_file():
    disk = new_disk()
    filled_log(disk).close(clean=True)
    before = files(disk)
    reopened(disk).close(clean=True)
    assert files(disk) == before


def test_an_unclean_close_writes_nothing():
    disk = new_disk()
    log = filled_log(disk)
    before = files(disk)
    log.close(clean=False)
    assert files(disk) == before


def test_the_log_follows_its_folder():
    disk = new_disk()
    log = filled_log(disk)
    disk.rename(DIRECTORY, "/data/topic-0.x-delete")
    log.moved_to("/data/topic-0.x-delete")
    assert len(read_all(log)) == 60
    log.roll(NOW)
    log.close(clean=True)
    assert f"/data/topic-0.x-delete/{60:020d}.snapshot" in disk.contents()


# Trouble


def test_a_full_disk_leaves_the_log_as_it_was():
    disk = new_disk(capacity_bytes=3000)
    log = open_log(disk, config(index_interval_bytes=100))
    while disk.free_bytes >= size_of(size=40):
        append(log, size=40)
    before = files(disk)
    with pytest.raises(OSError, match="No space"):
        append(log, size=40)
    assert files(disk) == before
    end = log.log_end_offset
    assert len(read_all(log)) == end
    disk.capacity_bytes = 10**6
    assert append(log, size=40).base_offset == end
    assert len(read_all(log)) == end + 1


def test_a_write_that_cannot_be_undone_breaks_the_log():
    disk = new_disk()
    log = filled_log(disk)
    disk.fail_path(f"{DIRECTORY}/{LOG}")
    with pytest.raises(OSError, match="error"):
        append(log)
    disk.heal()
    with pytest.raises(BrokenLogError, match="broken"):
        append(log)
    assert log.log_end_offset == 60
    disk.process_crash()
    again = open_log(disk, clean=False)
    assert [record.offset for record in read_all(again)][:60] == list(range(60))
    assert again.log_end_offset in (60, 61)


def test_a_roll_that_cannot_be_undone_breaks_the_log():
    disk = new_disk()
    log = filled_log(disk)
    disk.fail_path(f"{DIRECTORY}/{60:020d}.log")
    with pytest.raises(OSError, match="error"):
        log.roll(NOW)
    disk.heal()
    with pytest.raises(BrokenLogError, match="broken"):
        append(log)


def test_a_damaged_first_batch_does_not_stop_appends():
    disk = new_disk()
    log = filled_log(disk)
    log.close(clean=True)
    log = reopened(disk)
    disk.flip(f"{DIRECTORY}/{LOG}", 16)  # the format version
    assert append(log).base_offset == 60


def test_a_damaged_log_is_told_apart_from_a_failing_disk():
    disk = new_disk()
    log = filled_log(disk, index_interval_bytes=10**6)
    disk.flip(f"{DIRECTORY}/{LOG}", size_of(count=3) + 16)
    with pytest.raises(ValueError, match="no whole batch at byte"):
        read(log, 30)


def test_producers_outlast_their_records():
    disk = new_disk()
    log = open_log(disk)
    append(log, producer=Producer(7, 0, 0))
    log.move_log_start(1)
    log.roll(NOW)
    disk.process_crash()
    again = open_log(disk, clean=False, recovery_point=1, log_start_offset=1)
    assert [entry.producer_id for entry in again.producers] == [7]


# Gaps


def without_a_batch(disk, log):
    """Take the second of three batches out of the first segment, and close it."""
    for _ in range(3):
        append(log, count=2)
    segment, size = log.segments[0], len(batch_of(2))
    log.roll(NOW)
    append(log)
    log.close(clean=True)
    data = disk.contents()[segment.log.path]
    segment.log.truncate(size)
    segment.log.write(size, (data[2 * size :],))


def test_records_that_are_missing_are_damage():
    disk = new_disk()
    without_a_batch(disk, open_log(disk))
    log = open_log(disk)
    assert offsets_in(read(log, 0)) == [0]
    with pytest.raises(DamagedBatch):
        read(log, 2)


def test_a_log_that_was_compacted_may_lack_records():
    disk = new_disk()
    without_a_batch(disk, open_log(disk))
    assert offsets_in(read(open_log(disk, was_compacted=True), 0)) == [0, 4]
    log = open_log(disk, config(cleanup_policy="compact"))
    log.configure(config())
    assert offsets_in(read(log, 0)) == [0, 4], "what was taken does not come back with the setting"
