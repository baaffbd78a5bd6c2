"""What a crash of Apache Kafka's cleaner, or of a deletion, leaves in a folder."""

import pytest
from log_kit import DIRECTORY, NOW, append, config, files, new_disk, open_log, read_all

from barnabas.storage.leftovers import clear_leftovers

SETTINGS = config(segment_bytes=300, cleanup_policy=("compact",))


def path(name):
    return f"{DIRECTORY}/{name}"


def name_of(base, suffix):
    return f"{base:020d}{suffix}"


@pytest.fixture
def disk():
    """Closed segments 0, 2, 4 and the active one at 6, each with two batches."""
    disk = new_disk()
    log = open_log(disk, SETTINGS)
    for number in range(8):
        append(log, size=40, timestamp=NOW + number)
    assert log.base_offsets == [0, 2, 4, 6]
    log.close(clean=True)
    return disk


def put(disk, name, content=b""):
    disk.open(path(name), create=True).write(0, (content,))


def put_cleaned_copy(disk, base, suffix):
    """A copy of a segment's files as the cleaner writes it: one segment for several."""
    before = files(disk)
    for own in (".log", ".index", ".timeindex"):
        put(disk, name_of(base, own) + suffix, before[name_of(base, own)])


def clear(disk):
    return clear_leftovers(disk, DIRECTORY, disk.list(DIRECTORY))


def segment_files(disk):
    return {name: data for name, data in files(disk).items() if not name.endswith(".snapshot")}


def test_a_tidy_folder_stays_as_it_is(disk):
    before = files(disk)
    assert clear(disk) == sorted(before)
    assert files(disk) == before


def test_deletions_are_finished(disk):
    before = files(disk)
    put(disk, name_of(0, ".log.deleted"))
    put(disk, name_of(9, ".snapshot.deleted"))
    assert clear(disk) == sorted(before)
    assert files(disk) == before


def test_an_incomplete_cleaning_is_forgotten(disk):
    before = files(disk)
    put_cleaned_copy(disk, 2, ".cleaned")
    assert clear(disk) == sorted(before)
    assert files(disk) == before


def test_a_swap_beside_an_incomplete_cleaning_is_forgotten(disk):
    """Part of a split that was not finished."""
    before = files(disk)
    put_cleaned_copy(disk, 2, ".cleaned")
    put_cleaned_copy(disk, 4, ".swap")
    assert clear(disk) == sorted(before)
    assert files(disk) == before


@pytest.mark.parametrize("older", [0, 2, 4])
@pytest.mark.parametrize(
    "suffixes", [(".log",), (".log", ".index"), (".log", ".index", ".timeindex")]
)
def test_a_complete_swap_beside_an_older_cleaning_takes_its_place(disk, older, suffixes):
    """Segment 4 is put aside, or a part of it: what it held is in the swap alone."""
    before = segment_files(disk)
    put_cleaned_copy(disk, 4, ".swap")
    put(disk, name_of(older, ".log.cleaned"), b"half a batch")
    for own in suffixes:
        disk.rename(path(name_of(4, own)), path(name_of(4, own) + ".deleted"))
    clear(disk)
    assert segment_files(disk) == before


def test_a_swap_of_several_segments_of_which_one_is_put_aside_takes_their_place(disk):
    content = files(disk)
    joined = content[name_of(0, ".log")] + content[name_of(2, ".log")]
    put(disk, name_of(0, ".log.swap"), joined)
    put(disk, name_of(0, ".log.cleaned"), b"half a batch")
    disk.remove(path(name_of(2, ".log")))
    log = open_log(disk, SETTINGS)
    assert [record.offset for record in read_all(log)] == list(range(8))
    assert files(disk)[name_of(0, ".log")] == joined


def test_a_swap_beside_a_cleaning_that_is_behind_it_takes_its_place(disk):
    before = segment_files(disk)
    put_cleaned_copy(disk, 2, ".swap")
    put(disk, name_of(4, ".log.cleaned"), b"half a batch")
    clear(disk)
    assert segment_files(disk) == before


def test_a_part_of_a_split_of_kafkas_cleaner_is_forgotten(disk):
    """Kafka renames the parts of a segment that it splits from the last to the first; the segment is still there."""
    before = files(disk)
    put(disk, name_of(2, ".log.cleaned"), before[name_of(2, ".log")][:85])
    put(disk, name_of(3, ".log.swap"), before[name_of(2, ".log")][85:])
    assert clear(disk) == sorted(before)
    assert files(disk) == before


def test_renames_that_came_to_the_medium_in_another_order_are_forgotten(disk):
    """An index is called .swap, its log still .cleaned."""
    before = files(disk)
    put(disk, name_of(2, ".log.cleaned"), before[name_of(2, ".log")])
    put(disk, name_of(2, ".index.swap"), b"12345678")
    assert clear(disk) == sorted(before)
    assert files(disk) == before


@pytest.mark.parametrize("gone", [(), (0,), (0, 2), (2,)])
def test_a_swap_takes_the_place_of_what_it_covers(disk, gone):
    """The cleaner put segments 0 and 2 into one; the old ones may or may not have been renamed."""
    content = files(disk)
    joined = content[name_of(0, ".log")] + content[name_of(2, ".log")]
    put(disk, name_of(0, ".log.swap"), joined)
    put(disk, name_of(0, ".index.swap"))
    put(disk, name_of(0, ".timeindex.swap"))
    for base in gone:
        for own in (".log", ".index", ".timeindex"):
            disk.rename(path(name_of(base, own)), path(name_of(base, own) + ".deleted"))
    log = open_log(disk, SETTINGS)
    assert log.base_offsets == [0, 4, 6]
    assert [record.offset for record in read_all(log)] == list(range(8))
    assert files(disk)[name_of(0, ".log")] == joined
    assert not [name for name in files(disk) if name.endswith((".swap", ".deleted"))]


def test_a_swap_that_was_half_renamed_is_finished(disk):
    """The log has its name already, an index does not."""
    before = files(disk)
    disk.rename(path(name_of(2, ".index")), path(name_of(2, ".index.swap")))
    assert clear(disk) == sorted(before)
    assert files(disk) == before


def test_a_damaged_swap_replaces_only_what_it_holds(disk):
    content = files(disk)
    put(disk, name_of(0, ".log.swap"), content[name_of(0, ".log")] + b"x" * 70)
    log = open_log(disk, SETTINGS)
    assert log.base_offsets == [0, 2, 4, 6]
    assert [record.offset for record in read_all(log)] == list(range(8))


def test_indexes_without_a_log_go(disk):
    before = files(disk)
    for own in (".index", ".timeindex", ".txnindex"):
        put(disk, name_of(77, own))
    assert clear(disk) == sorted(before)
    assert files(disk) == before


def test_other_names_are_nobodys_business(disk):
    for name in ("notes.swap", "x.cleaned.txt", name_of(0, ".txnindex")):
        put(disk, name)
    names = clear(disk)
    assert {"x.cleaned.txt", name_of(0, ".txnindex")} <= set(names)
