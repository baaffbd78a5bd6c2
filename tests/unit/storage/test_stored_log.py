"""A log looked at from outside, while it is open and after."""

import pytest
from log_kit import DIRECTORY, NOW, append, config, files, new_disk, open_log

from barnabas.storage.cleaning_plan import measure
from barnabas.storage.stored_log import StoredLog


def look(disk, *, start=0, end=0, **settings):
    return StoredLog(
        disk, DIRECTORY, config(**settings), log_start_offset=start, log_end_offset=end
    )


def facts(log):
    """What the rules look at."""
    return [(one.base_offset, one.size, one.largest_timestamp()) for one in log.segments]


@pytest.fixture
def disk():
    return new_disk()


def filled(disk, batches=12, timestamps=lambda number: NOW + number):
    log = open_log(disk, config(segment_bytes=500, index_interval_bytes=0))
    for number in range(batches):
        append(log, count=3, timestamp=timestamps(number))
    return log


def test_it_shows_what_the_broker_has_open(disk):
    log = filled(disk)
    assert log.segment_count > 2
    seen = look(disk, end=log.log_end_offset)
    assert facts(seen) == facts(log)
    assert seen.size_bytes == log.size_bytes
    assert (seen.read_oldest_timestamp(), seen.newest_timestamp) == (NOW, NOW + 11)


def test_the_largest_time_need_not_be_the_last(disk):
    log = filled(disk, timestamps=lambda number: NOW - number)
    assert facts(look(disk, end=log.log_end_offset)) == facts(log)


def test_nothing_is_changed(disk):
    log = filled(disk)
    before, calls = files(disk), disk.used_bytes
    look(disk, end=log.log_end_offset).read_oldest_timestamp()
    assert (files(disk), disk.used_bytes) == (before, calls)


def test_a_start_within_a_segment(disk):
    log = filled(disk)
    seen = look(disk, start=7, end=log.log_end_offset)
    assert seen.read_oldest_timestamp() == NOW + 2


def test_an_empty_log(disk):
    open_log(disk)
    seen = look(disk)
    assert (seen.read_oldest_timestamp(), seen.newest_timestamp) == (None, None)


def test_records_without_times(disk):
    disk.now_ms = lambda: 77
    log = filled(disk, timestamps=lambda _number: -1)
    seen = look(disk, end=log.log_end_offset)
    assert (seen.read_oldest_timestamp(), seen.newest_timestamp) == (None, None)
    assert {one.largest_timestamp() for one in seen.segments} == {77}


def test_kafkas_active_indexes_end_with_zeros(disk):
    log = filled(disk)
    active = log.segments[-1]
    for index in (active.offset_index, active.time_index):
        index.spill()
        index.file.truncate(index.file.size() + 100 * index.entry_bytes)
    assert facts(look(disk, end=log.log_end_offset)) == facts(log)


def test_a_batch_that_is_being_written_does_not_count(disk):
    log = filled(disk)
    active = log.segments[-1]
    active.log.write(active.size, [b"half a batch"])
    seen = look(disk, end=log.log_end_offset)
    assert seen.newest_timestamp == NOW + 11


def test_a_folder_without_segments(disk):
    with pytest.raises(FileNotFoundError):
        look(disk)


def test_a_segment_that_goes_away_meanwhile(disk, monkeypatch):
    filled(disk)
    names = disk.list(DIRECTORY)
    disk.remove(f"{DIRECTORY}/{0:020d}.log")
    monkeypatch.setattr(disk, "list", lambda _path: names)
    with pytest.raises(FileNotFoundError, match="has gone"):
        look(disk)


def test_an_index_that_kafka_has_not_made_yet(disk):
    log = filled(disk)
    active = log.segments[-1]
    for suffix in (".index", ".timeindex"):
        disk.remove(f"{DIRECTORY}/{active.base_offset:020d}{suffix}")
    assert facts(look(disk, end=log.log_end_offset)) == facts(log)


def test_damage_at_the_start_hides_the_oldest_time(disk):
    log = filled(disk)
    log.segments[0].log.write(0, [b"\xff" * 200])
    assert look(disk, start=1, end=log.log_end_offset).read_oldest_timestamp() is None


def test_a_log_whose_records_were_all_compacted_away(disk):
    open_log(disk)
    assert look(disk, start=0, end=5).read_oldest_timestamp() is None


def test_how_dirty_it_is(disk):
    log = filled(disk)
    seen = look(disk, end=log.log_end_offset, cleanup_policy=("compact",))
    log.configure(seen.config)
    end = log.log_end_offset
    assert measure(seen, 9, end, NOW) == measure(log, 9, end, NOW)
