"""The map of keys against a dictionary, and its bounds."""

import random

import pytest

from barnabas.storage.offset_map import ALIVE, DEAD, ENTRY_BYTES, TOMBSTONE, OffsetMap

MEMORY = 1 << 16


def filled(keys, *, first=0, memory=MEMORY):
    offset_map = OffsetMap(memory, 0.9, first, first + len(keys))
    offset_map.advance(first + len(keys))
    offset_map.put(keys, range(first, first + len(keys)))
    return offset_map


@pytest.mark.parametrize("length", [1, 14, 15, 16, 17, 40])
def test_it_knows_the_last_offset_of_every_key(length):
    chance = random.Random(length)
    known = [chance.randbytes(length) for _ in range(300)]
    keys = [chance.choice(known) for _ in range(1000)]
    expected = {key: 70 + number for number, key in enumerate(keys)}
    offset_map = filled(keys, first=70)
    assert offset_map.latest(list(expected)) == list(expected.values())
    assert offset_map.size == len(expected)
    alive = [70 + number for number, fate in enumerate(offset_map.fates) if fate == ALIVE]
    assert alive == sorted(expected.values())


def test_keys_that_only_differ_in_zeros_are_different():
    keys = [b"", b"\0", b"\0\0", b"\0" * 15, b"\0" * 16, b"\0" * 17]
    offset_map = filled(keys)
    assert offset_map.latest(keys) == [0, 1, 2, 3, 4, 5]
    assert offset_map.latest([b"\0" * 3, b"a", b"a" * 20]) == [-1, -1, -1]


def test_a_slot_that_is_taken_leads_to_the_next_and_round_the_end():
    # Hardly more slots than keys: nearly every search passes others, some the end of the table.
    keys = [b"%d" % number for number in range(180)]
    offset_map = OffsetMap(MEMORY, 0.99, 0, len(keys))
    offset_map.advance(len(keys))
    offset_map.put(keys, range(len(keys)))
    assert offset_map.latest(keys) == list(range(len(keys)))


def test_tombstones_are_told_apart_until_a_later_record_comes():
    offset_map = OffsetMap(MEMORY, 0.9, 0, 4)
    offset_map.advance(3)
    offset_map.put([b"a", b"b", b"a"], range(3))
    offset_map.bury([0, 1, 2])
    assert list(offset_map.fates) == [DEAD, TOMBSTONE, TOMBSTONE]
    offset_map.advance(4)
    offset_map.put([b"b"], [3])
    assert list(offset_map.fates_of(1, 3)) == [DEAD, TOMBSTONE, ALIVE]


def test_offsets_without_a_record_are_dead():
    offset_map = OffsetMap(MEMORY, 0.9, 10, 20)
    offset_map.advance(14)
    offset_map.put([b"a"], [12])
    assert list(offset_map.fates) == [DEAD, DEAD, ALIVE, DEAD]
    assert offset_map.end_offset == 14


def test_memory_bounds_keys_and_offsets():
    offset_map = OffsetMap(8000, 0.5, 100, 10**9)
    assert offset_map.keys_max == 7000 // ENTRY_BYTES // 2
    assert offset_map.limit_offset == 1100
    offset_map.advance(5000)
    assert offset_map.end_offset == 1100
    assert offset_map.room == offset_map.keys_max
    offset_map.put([b"%d" % number for number in range(offset_map.room)], range(100, 100 + 145))
    assert offset_map.room == 0
    assert offset_map.utilization == 1.0


def test_a_small_dirty_part_takes_little_memory():
    offset_map = OffsetMap(1 << 30, 0.9, 0, 10)
    assert 10 <= offset_map.keys_max < 20


def test_a_full_table_still_ends_a_search():
    offset_map = OffsetMap(1, 1.0, 0, 10)
    offset_map.advance(1)
    offset_map.put([b"a"], [0])
    assert offset_map.room == 0
    assert offset_map.latest([b"b", b"a"]) == [-1, 0]
