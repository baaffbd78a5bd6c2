"""Indexes held against batches that are only headers; test_verify.py has whole folders."""

import pytest
from log_kit import NOW, batch_of, new_disk

from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY
from barnabas.storage.index_check import ZEROS, OffsetIndexCheck, TimeIndexCheck, read_entries
from barnabas.wire.batch import read_header

BASE = 100


def file_of(entry, *pairs, tail=b""):
    file = new_disk().open("/data/topic-0/x.index", create=True)
    file.write(0, (b"".join(entry.pack(*pair) for pair in pairs) + tail,))
    return file


def header(base_offset, count=10, timestamp=NOW):
    return read_header(batch_of(count, timestamp=timestamp))._replace(base_offset=base_offset)


def check_offsets(*pairs, holes=(), tail=b""):
    """Three batches of ten records at bytes 0, 50 and 90."""
    check = OffsetIndexCheck(file_of(OFFSET_ENTRY, *pairs, tail=tail), BASE)
    for position, offset in ((0, 100), (50, 110), (90, 120)):
        if position in holes:
            check.on_hole(position + 40)
        else:
            check.on_batch(position, header(offset))
    check.finish()
    return check.problem


@pytest.mark.parametrize("pairs", [(), ((19, 50),), ((19, 50), (29, 90)), ((25, 50),)])
def test_entries_that_lead_to_what_is_looked_for(pairs):
    assert check_offsets(*pairs) == ""


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (((19, 51),), "no batch is there"),
        (((5, 50),), "behind it"),
        (((29, 90), (19, 50)), "not above"),
        (((19, 50), (39, 200)), "behind the last batch"),
        (((19, 50), (0, 0)), ZEROS),
    ],
)
def test_entries_that_do_not(pairs, said):
    assert said in check_offsets(*pairs)


def test_a_torn_entry_and_one_into_damage():
    assert "multiple of 8" in check_offsets(tail=b"abc")
    assert check_offsets((19, 60), (29, 90), holes=(50,)) == ""


def check_times(*pairs, closed=True, hole=False):
    check = TimeIndexCheck(file_of(TIME_ENTRY, *pairs), BASE)
    for offset, timestamp in ((100, 50), (110, 40), (120, 70)):
        check.on_batch(header(offset, timestamp=timestamp))
    if hole:
        check.on_hole()
    check.finish(closed=closed)
    return check.problem


@pytest.mark.parametrize("pairs", [((70, 29),), ((50, 9), (70, 29)), ((50, 19), (70, 29))])
def test_times_that_are_right(pairs):
    assert check_times(*pairs) == ""


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((), "ends with time -1"),
        (((50, 9),), "ends with time 50"),
        (((45, 19), (70, 29)), "times after 45"),
        (((60, 19), (70, 29)), "time 60 is not in the log"),
        (((70, 29), (90, 500)), "behind the last batch"),
    ],
)
def test_times_that_are_not(pairs, said):
    assert said in check_times(*pairs)


def test_less_is_asked_of_an_open_or_damaged_segment():
    assert check_times((50, 9), closed=False) == ""
    assert check_times((50, 9), (90, 500), hole=True) == ""


def test_many_entries_are_read_in_blocks():
    pairs = [(number, number * 2) for number in range(1, 10_000)]
    assert list(read_entries(file_of(OFFSET_ENTRY, *pairs), OFFSET_ENTRY)) == pairs
