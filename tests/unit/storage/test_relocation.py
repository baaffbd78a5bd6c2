"""Copying a log that goes on being written, and going on in the copy."""

import errno

import pytest
from log_kit import DIRECTORY, append, batch_of, config, files, new_disk, open_log, read_all

from barnabas.storage.relocation import LAST_BYTES, PIECE_BYTES, Relocation, SourceError
from barnabas.wire.batch import Producer

THERE = "/other/topic-0"
SMALL = {"segment_bytes": 500, "index_interval_bytes": 100}


@pytest.fixture
def disk():
    disk = new_disk()
    disk.make_dir(THERE)
    return disk


def filled(disk, batches=20, **settings):
    log = open_log(disk, config(**{**SMALL, **settings}))
    for number in range(batches):
        append(log, count=3, producer=Producer(7, 0, number * 3))
    return log


def move(disk, log, between=lambda: None):
    """Copy all of it, with something happening after each piece."""
    copy = Relocation(disk, log, THERE)
    while (job := copy.plan()) is not None:
        job()
        between()
    copy.finish()
    copy.move_log(THERE)
    return copy


def there(disk):
    prefix = THERE + "/"
    found = disk.contents().items()
    return {path.removeprefix(prefix): data for path, data in found if path.startswith(prefix)}


def test_the_files_are_the_same(disk):
    log = filled(disk)
    move(disk, log)
    assert there(disk) == files(disk)
    assert log.directory == THERE
    assert [record.offset for record in read_all(log)] == list(range(60))


def test_it_goes_on_in_the_copy(disk):
    log = filled(disk)
    move(disk, log)
    before = files(disk)
    for number in range(20, 40):
        append(log, count=3, producer=Producer(7, 0, number * 3))
    log.close(clean=True)
    assert files(disk) == before
    disk.remove_tree(DIRECTORY)
    disk.rename(THERE, DIRECTORY)
    again = open_log(disk, config(**SMALL))
    assert [record.offset for record in read_all(again)] == list(range(120))
    assert again.recovery.rebuilt_indexes == []
    assert [entry.producer_id for entry in again.producers] == [7]


def test_what_comes_meanwhile_is_copied_too(disk):
    log = filled(disk)
    left = list(range(30))

    def between():
        if left:
            left.pop()
            append(log, count=2)

    move(disk, log, between)
    assert there(disk) == files(disk)
    assert [record.offset for record in read_all(log)] == list(range(log.log_end_offset))


def test_large_files_are_copied_in_pieces_and_little_is_left_for_the_loop(disk):
    log = open_log(disk, config())
    for _ in range(3):
        append(log, batch_of(1, size=PIECE_BYTES))
    copy = Relocation(disk, log, THERE)
    sizes = []
    while (job := copy.plan()) is not None:
        sizes.append(job())
    assert max(sizes) == PIECE_BYTES
    assert log.size_bytes - copy.size_bytes <= LAST_BYTES
    append(log, batch_of(1, size=LAST_BYTES))
    assert copy.plan() is not None


def test_until_it_is_flushed_nothing_counts_as_synced(disk):
    log = filled(disk)
    log.on_flushed(run(log.plan_flush(0, everything=True)))
    assert log.recovery_point == 60
    move(disk, log)
    assert log.recovery_point == log.base_offsets[-1]
    log.on_flushed(run(log.plan_flush(0, everything=True)))
    assert log.recovery_point == 60
    disk.crash()
    disk.remove_tree(DIRECTORY)
    disk.rename(THERE, DIRECTORY)
    again = open_log(disk, config(**SMALL), clean=False, recovery_point=60)
    assert [record.offset for record in read_all(again)] == list(range(60))


def run(job):
    job.run()
    return job


def test_a_flush_that_was_under_way_says_nothing_about_the_copy(disk):
    log = filled(disk)
    job = log.plan_flush(0, everything=True)
    move(disk, log)
    job.run()
    log.on_flushed(job)
    assert log.recovery_point < 60


def test_errors_tell_which_side_failed(disk):
    log = filled(disk)
    disk.fail_path(DIRECTORY, errno.EIO)
    with pytest.raises(SourceError):
        move(disk, log)
    disk.heal()
    disk.fail_path(THERE, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        move(disk, log)
    assert log.directory == DIRECTORY


def test_segments_that_are_dropped_while_they_are_copied_do_not_end_the_move():
    """Retention closes and drops the active segment, too; no delay keeps the files. At each call of the disk."""
    nth, is_met = 0, [None]
    while is_met:
        nth += 1
        disk = new_disk()
        disk.make_dir(THERE)
        log = filled(disk, batches=8)
        is_met = []

        def drop(disk=disk, log=log, is_met=is_met):
            is_met.append(None)
            log.roll(0)
            for path in log.advance_log_start(log.log_end_offset):
                disk.remove(path)

        copy = Relocation(disk, log, THERE)
        disk.at_call(nth, drop)
        while (job := copy.plan()) is not None:
            job()
        disk.at_call(0, drop)
        copy.finish()
        copy.move_log(THERE)
        append(log, count=3)
        assert [record.offset for record in read_all(log)][-3:] == [24, 25, 26]
        assert log.directory == THERE
    assert nth > 20
