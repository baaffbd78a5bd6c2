"""Which bytes of a log file are whole, valid batches."""

import struct

import pytest
from log_kit import append, batch_of, new_disk, open_log

from barnabas.core.epochs import EpochEntry
from barnabas.storage.checked import RANGES_KEPT, WINDOW_BYTES, good_until, joined
from barnabas.storage.epoch_spans import EpochSpans

SIZE = len(batch_of(2))


def file_of(sizes=(10,) * 5):
    disk = new_disk()
    log = open_log(disk)
    for size in sizes:
        append(log, count=2, size=size)
    return disk, log.segments[0].log


def test_all_of_it_and_not_more_than_is_asked_for():
    _, file = file_of()
    assert good_until(file, 0, 5 * SIZE, (0, 10)) == 5 * SIZE
    assert good_until(file, SIZE, 2 * SIZE, (0, 10)) == 2 * SIZE
    assert good_until(file, SIZE, 2 * SIZE + 1, (0, 10)) == 3 * SIZE, "to the end of the batch"


@pytest.mark.parametrize("position", [0, 8, 16, 23, 61, SIZE - 1])
def test_it_ends_at_the_first_bad_batch(position):
    disk, file = file_of()
    disk.flip(file.path, 2 * SIZE + position, bit=6)
    assert good_until(file, 0, 5 * SIZE, (0, 10)) == 2 * SIZE


def test_batches_larger_than_a_window():
    disk, file = file_of((10, WINDOW_BYTES, 10))
    end = file.size()
    assert good_until(file, 0, end, (0, 6)) == end
    disk.flip(file.path, end - SIZE - 1)
    assert good_until(file, 0, end, (0, 6)) == SIZE
    file.truncate(end // 2)
    assert good_until(file, 0, end, (0, 6)) == SIZE


@pytest.mark.parametrize("offsets", [(1, 10), (0, 9)])
def test_batches_of_elsewhere_are_not_good(offsets):
    _, file = file_of()
    assert good_until(file, 0, 5 * SIZE, offsets) == (0 if offsets[0] else 4 * SIZE)


def test_an_offset_that_falls():
    _, file = file_of()
    file.write(3 * SIZE, (struct.pack(">q", 3),))
    assert good_until(file, 0, 5 * SIZE, (0, 10)) == 3 * SIZE


@pytest.mark.parametrize("sizes", [(10,) * 5, (10, 10, WINDOW_BYTES, WINDOW_BYTES, 10)])
def test_a_gap_is_bad_where_there_are_none(sizes):
    _, file = file_of(sizes)
    end, at = file.size(), file.size() - SIZE
    file.write(at, (struct.pack(">q", 9),))
    assert good_until(file, 0, end, (0, 20), may_have_gaps=True) == end
    assert good_until(file, 0, end, (0, 20), may_have_gaps=False) == at
    file.write(0, (struct.pack(">q", 1),))
    assert good_until(file, 0, SIZE, (0, 20), may_have_gaps=False) == 0


@pytest.mark.parametrize("place", range(12, 16))
def test_a_leader_epoch_that_is_not_the_logs(place):
    disk, file = file_of()
    disk.flip(file.path, 2 * SIZE + place, bit=6)
    epochs = EpochSpans([EpochEntry(0, 0)])
    assert good_until(file, 0, 5 * SIZE, (0, 10), epochs=epochs) == 2 * SIZE
    assert good_until(file, 0, 5 * SIZE, (0, 10)) == 5 * SIZE, "nothing tells"
    behind = EpochSpans([EpochEntry(0, 6)])
    assert good_until(file, 0, 5 * SIZE, (0, 10), epochs=behind) == 5 * SIZE


def test_half_a_header():
    _, file = file_of()
    file.truncate(2 * SIZE + 60)
    assert good_until(file, 0, 2 * SIZE + 60, (0, 10)) == 2 * SIZE


def test_ranges_that_touch_become_one():
    assert joined((), (3, 5)) == ((3, 5),)
    assert joined(((0, 2), (8, 9)), (3, 5)) == ((0, 2), (3, 5), (8, 9))
    assert joined(((0, 2), (8, 9)), (2, 8)) == ((0, 9),)
    assert joined(((0, 9),), (2, 3)) == ((0, 9),)


def test_ranges_are_bounded():
    ranges = ()
    for number in range(RANGES_KEPT + 5):
        ranges = joined(ranges, (10 * number, 10 * number + 1))
    assert len(ranges) == RANGES_KEPT
    assert ranges[-1] == (10 * (RANGES_KEPT + 4), 10 * (RANGES_KEPT + 4) + 1)
