"""Looks at a log from the background while it changes: whatever goes at whichever call, they find what the log has."""

import errno
from functools import partial

import pytest
from cleaner_kit import compact, compacted, put
from log_kit import DIRECTORY, NOW, new_disk, open_log

from barnabas.storage.log_changed import LogChanged
from barnabas.storage.log_reader import LOOKS_MAX
from barnabas.storage.relocation import Relocation
from barnabas.wire.batch import TRANSACTIONAL, Producer
from barnabas.wire.control_batch import EndMarker

ELSEWHERE = "/other/topic-0"
SETTINGS = compacted(segment_bytes=400, index_interval_bytes=0)


def new_log():
    """Closed segments whose times are not confirmed yet, with aborted transactions."""
    disk = new_disk()
    log = open_log(disk, SETTINGS)
    for number in range(9):
        put(log, [(b"a", b"x" * 20), (b"k%d" % number, b"v")], timestamp=NOW + 10 * number)
        producer = Producer(number, 0, 0)
        put(log, [(b"t", b"w")], producer=producer, attributes=TRANSACTIONAL, timestamp=NOW)
        log.append_marker(EndMarker(commit=False, coordinator_epoch=0), number, 0, 0, NOW)
    log.close(clean=True)
    return disk, open_log(disk, SETTINGS)


# What takes something away


def drop(disk, log):
    for path in log.advance_log_start(log.base_offsets[-2]):
        disk.remove(path)


def swap(disk, log):
    compact(disk, log)


def cut(disk, log):
    for path in log.truncate_to(log.base_offsets[1] + 2, NOW):
        disk.remove(path)
    for number in range(4):
        put(log, [(b"other", b"y" * (5 + number))], timestamp=NOW + 1000)


def move(disk, log):
    disk.make_dir(ELSEWHERE)
    relocation = Relocation(disk, log, ELSEWHERE)
    while (job := relocation.plan()) is not None:
        job()
    relocation.finish()
    relocation.move_log(ELSEWHERE)
    disk.remove_tree(DIRECTORY)


# What looks


def at_time(log):
    return log.offset_for_timestamp(NOW + 45)


def at_largest_time(log):
    return log.max_timestamp()


def bytes_of_records(log):
    log.read_bytes(14, 1 << 20, end_offset=log.log_end_offset)  # which bytes depends on the change


def aborted(log):
    def look():
        offset = log.log_start_offset
        found = log.read(offset, 1 << 20, end_offset=log.log_end_offset, min_one=True, nowait=False)
        found.load()
        return log.aborted_transactions(offset, found, nowait=False)

    return log.steadily(look)


def largest_of_all(log):
    for segment in log.segments:
        log.confirm_largest(segment)


@pytest.mark.parametrize("change", [drop, swap, cut, move])
@pytest.mark.parametrize(
    "look", [at_time, at_largest_time, bytes_of_records, aborted, largest_of_all]
)
def test_a_look_while_the_log_changes(look, change):
    nth, is_met = 0, True
    _, log = new_log()
    before = look(log)
    while is_met:
        nth += 1
        disk, log = new_log()
        changes = log.removals
        disk.at_call(nth, partial(change, disk, log))
        found = look(log)
        is_met = log.removals > changes
        assert found in (before, look(log))
    assert nth > 3


def test_a_file_that_somebody_took_is_an_error():
    disk, log = new_log()
    disk.remove(f"{DIRECTORY}/{log.base_offsets[1]:020d}.log")
    with pytest.raises(FileNotFoundError):
        log.max_timestamp()


def test_a_disk_that_fails_is_an_error():
    disk, log = new_log()
    disk.fail_path(f"{DIRECTORY}/{log.base_offsets[1]:020d}.log")
    with pytest.raises(OSError, match="Input/output"):
        log.max_timestamp()


def test_a_log_that_does_not_stop_changing_is_read_later():
    _, log = new_log()
    looks = []

    def look():
        looks.append(log.removals)
        log.removals += 1
        raise FileNotFoundError(errno.ENOENT, "the file was removed")

    with pytest.raises(LogChanged) as caught:
        log.steadily(look)
    assert len(looks) == LOOKS_MAX
    assert caught.value.errno == errno.EAGAIN
