import errno
import random

import pytest
from log_kit import new_disk

from barnabas.ports import WouldBlock
from barnabas.storage.index import OFFSET_ENTRY, SPILL_BYTES, TIME_ENTRY, Index

PATH = "/data/topic-0/x.index"


def new_index(entry=OFFSET_ENTRY):
    disk = new_disk()
    return disk, Index(disk.open(PATH, create=True), entry)


def filled(count, entry=OFFSET_ENTRY, *, spill_at=()):
    """Keys 10, 20, 30, ... with the entry's number as value."""
    disk, index = new_index(entry)
    for number in range(count):
        index.add((number + 1) * 10, number)
        if number in spill_at:
            index.spill()
    return disk, index


def test_an_empty_index_finds_nothing():
    _, index = new_index()
    assert index.find(5) is None
    assert len(index) == 0
    assert index.load(0)
    assert index.last is None


@pytest.mark.parametrize("entry", [OFFSET_ENTRY, TIME_ENTRY], ids=["offset", "time"])
@pytest.mark.parametrize(
    ("count", "spill_at"),
    [(1, ()), (7, ()), (7, (6,)), (7, (2,)), (2000, (700, 1500)), (2000, (1999,)), (513, (511,))],
)
def test_find_gives_the_last_entry_not_above(entry, count, spill_at):
    _, index = filled(count, entry, spill_at=spill_at)
    assert len(index) == count
    assert index.find(9) is None
    for number in sorted({0, 1, count // 2, count - 2, count - 1} & set(range(count))):
        key = (number + 1) * 10
        assert index.find(key) == (key, number)
        assert index.find(key + 9) == (key, number)
    assert index.find(2**31 - 1) == (count * 10, count - 1)


def test_every_key_of_several_blocks_is_found():
    _, index = filled(1300, spill_at=(1250,))
    rng = random.Random(1)
    for key in rng.sample(range(10, 14000), 300):
        expected = min(key // 10, 1300)
        assert index.find(key) == (expected * 10, expected - 1)


def test_spilling_appends_to_the_file():
    disk, index = filled(3)
    assert disk.contents()[PATH] == b""
    index.spill()
    index.spill()
    index.add(40, 3)
    index.spill()
    expected = b"".join(OFFSET_ENTRY.pack((n + 1) * 10, n) for n in range(4))
    assert disk.contents()[PATH] == expected


def test_a_spill_is_due_once_the_tail_has_a_page():
    _, index = filled(SPILL_BYTES // OFFSET_ENTRY.size - 1)
    assert not index.spill_due
    index.add(10**6, 0)
    assert index.spill_due
    index.spill()
    assert not index.spill_due


def test_a_failed_spill_loses_nothing():
    disk, index = filled(3)
    disk.fail_call(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        index.spill()
    index.add(40, 3)
    assert index.find(25) == (20, 1)
    index.spill()
    expected = b"".join(OFFSET_ENTRY.pack((n + 1) * 10, n) for n in range(4))
    assert disk.contents()[PATH] == expected


def test_it_opens_again_with_its_last_entry():
    disk, index = filled(600, spill_at=(599,))
    again = Index(disk.open(PATH), OFFSET_ENTRY)
    assert again.load(len(disk.contents()[PATH]))
    assert again.last == index.last == (6000, 599)
    assert again.find(4321) == (4320, 431)


def test_reset_drops_everything():
    disk, index = filled(600, spill_at=(500,))
    index.reset()
    assert len(index) == 0
    assert index.last is None
    assert index.find(10**6) is None
    assert disk.contents()[PATH] == b""


def test_nowait_raises_when_the_file_is_cold():
    disk, index = filled(10, spill_at=(4,))
    disk.chill(PATH)
    assert index.find(60, nowait=True) == (60, 5)  # in the tail: no file needed
    with pytest.raises(WouldBlock):
        index.find(20, nowait=True)
    assert index.find(20) == (20, 1)
    assert index.find(20, nowait=True) == (20, 1)


def test_a_file_cut_behind_our_back_is_an_error():
    disk, index = filled(10, spill_at=(9,))
    disk.open(PATH).truncate(12)
    with pytest.raises(OSError, match="shorter"):
        index.find(100)


def test_a_reader_sees_whole_states_only():
    """A search that began before a spill goes on with what it took."""
    _, index = filled(4, spill_at=(1,))
    saved, tail = index._parts
    index.spill()
    assert index._parts[1] is not tail
    assert (saved, len(tail)) == (2 * OFFSET_ENTRY.size, 2 * OFFSET_ENTRY.size)


@pytest.mark.parametrize(
    "content",
    [
        OFFSET_ENTRY.pack(5, 50)[:-1],
        OFFSET_ENTRY.pack(5, 50) + bytes(8),
        bytes(8),
        OFFSET_ENTRY.pack(5, 50) * 2,
        OFFSET_ENTRY.pack(5, 50) + OFFSET_ENTRY.pack(4, 60),
    ],
    ids=["half an entry", "zeros at the end", "only zeros", "the same key twice", "a falling key"],
)
def test_entries_that_do_not_look_right_are_not_taken(content):
    disk = new_disk()
    file = disk.open(PATH, create=True)
    file.write(0, (content,))
    assert not Index(file, OFFSET_ENTRY).load(len(content))


@pytest.mark.parametrize("kept", [0, 1, 3, 5, 8, 10])
@pytest.mark.parametrize("by_value", [True, False])
def test_a_cut_index_is_as_if_the_rest_had_never_been(kept, by_value):
    disk, index = filled(10, spill_at=(4,))
    if by_value:
        index.keep_values_below(kept)
    else:
        index.keep_keys_below(kept * 10 + 1)
    assert len(index) == kept
    assert index.last == (None if kept == 0 else (kept * 10, kept - 1))
    index.trim()
    index.add(1000, 99)
    index.spill()
    again = Index(disk.open(PATH), OFFSET_ENTRY)
    assert again.load(index.file.size())
    assert len(again) == kept + 1
    assert again.find(999) == index.find(999)


@pytest.mark.parametrize("change", ["spill", "trim", "reset"])
def test_a_changed_file_is_brought_to_the_medium_and_one_that_is_there_is_left_alone(change):
    disk, index = filled(5, spill_at=(4,))
    index.sync()
    disk.fail_path(PATH)
    index.sync()  # nothing new: the disk is not asked
    disk.heal()
    if change == "spill":
        index.add(60, 5)
        index.spill()
    elif change == "trim":
        index.keep_keys_below(30)
        index.trim()
    else:
        index.reset()
    wanted = disk.contents()[PATH]
    index.sync()
    disk.sync_dir("/data/topic-0")
    disk.crash()
    assert disk.contents()[PATH] == wanted


def test_a_file_whose_sync_failed_does_not_count_as_synced():
    disk, index = filled(5, spill_at=(4,))
    disk.fail_path(PATH)
    for _ in range(2):
        with pytest.raises(OSError, match=PATH):
            index.sync()


def test_what_somebody_else_wrote_is_brought_to_the_medium():
    disk, before = filled(5, spill_at=(4,))
    index = Index(disk.open(PATH), OFFSET_ENTRY)
    index.load(before.saved_bytes)
    index.sync()
    wanted = disk.contents()[PATH]
    disk.sync_dir("/data/topic-0")
    disk.crash()
    assert disk.contents()[PATH] == wanted


class FileWithASyncBeside:
    """A file that is written while another thread syncs: right before its bytes are there, or right after."""

    def __init__(self, file, *, is_before, sync):
        self._file, self._is_before, self._sync = file, is_before, sync

    def write(self, position, buffers):
        if self._is_before:
            self._sync()
        self._file.write(position, buffers)
        if not self._is_before:
            self._sync()

    def sync(self):
        self._file.sync()


@pytest.mark.parametrize("is_before", [True, False])
def test_a_sync_beside_a_spill_does_not_count_for_it(is_before):
    disk, index = filled(5, spill_at=(4,))
    index.sync()
    index.add(60, 5)
    index.file = FileWithASyncBeside(index.file, is_before=is_before, sync=index.sync)
    index.spill()
    index.sync()
    wanted = disk.contents()[PATH]
    disk.sync_dir("/data/topic-0")
    disk.crash()
    assert disk.contents()[PATH] == wanted
    assert len(wanted) == 6 * OFFSET_ENTRY.size
