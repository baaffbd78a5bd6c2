"""A partition's folder and a directory under `verify`, and the checks of indexes and segments it is made of."""

import pytest
from cleaner_kit import compact, compacted, put
from damage_kit import (
    KEY,
    ROOT,
    close,
    damage,
    log_path,
    look,
    notes,
    overwrite,
    small_log,
    write_checkpoint,
)
from log_kit import DIRECTORY, NOW, append, batch_of, new_disk, open_log

from barnabas.model.ids import TopicPartition
from barnabas.storage import checkpoints, meta_properties, partition_metadata
from barnabas.storage.directory import CLEAN_SHUTDOWN_FILE
from barnabas.storage.names import LEADER_EPOCHS, LOG, SNAPSHOT, TXN_INDEX, file_name
from barnabas.storage.verify import verify_segment
from barnabas.storage.verify_directory import (
    DirectoryView,
    is_partition_folder,
    log_bytes,
    mixed_topics,
    view_directory,
)
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build
from barnabas.wire.control_batch import EndMarker

PRODUCER = Producer(7, 0, 0)


@pytest.fixture
def disk():
    return new_disk()


def written(disk, count=20, **how):
    """A closed log of several segments with one batch of two records each."""
    log = small_log(disk)
    for number in range(count):
        append(log, count=2, timestamp=NOW + number)
    close(disk, log, **how)
    return log


def test_a_log_that_is_whole_has_no_damage(disk):
    log = written(disk)
    _, report, _ = look(disk)
    assert damage(disk) == notes(disk) == []
    assert len(report.segments) == log.segment_count > 2
    assert (report.log_start_offset, report.log_end_offset, report.record_count) == (0, 40, 40)
    assert report.size_bytes == log_bytes(disk, DIRECTORY)


def test_a_flipped_bit_is_found_with_its_offsets(disk):
    written(disk)
    disk.flip(log_path(0), 150)
    assert damage(disk) == [(file_name(0, LOG), 2, 3)]


def test_a_missing_segment_is_found_by_the_gap(disk):
    written(disk)
    bases = [segment.base_offset for segment in look(disk)[1].segments]
    for name in disk.list(DIRECTORY):
        if name.startswith(file_name(bases[1], "")):
            disk.remove(f"{DIRECTORY}/{name}")
    assert damage(disk) == [(file_name(0, LOG), bases[1], bases[2] - 1)]


def test_swapped_segments_are_found(disk):
    written(disk)
    bases = [segment.base_offset for segment in look(disk)[1].segments]
    first, second = log_path(bases[0]), log_path(bases[1])
    disk.rename(first, "/data/aside")
    disk.rename(second, first)
    disk.rename("/data/aside", second)
    found = damage(disk)
    assert (file_name(bases[0], LOG), 0, bases[1] - 1) in found
    assert (file_name(bases[1], LOG), bases[1], bases[2] - 1) in found


def test_gaps_in_a_compacted_log_are_no_damage(disk):
    log = open_log(disk, compacted())
    for _ in range(30):
        put(log, [(b"a", b"1"), (b"b", b"x" * 50)])
    compact(disk, log)
    close(disk, log)
    write_checkpoint(disk, checkpoints.CLEANER_OFFSETS, 10)
    assert damage(disk) == []
    disk.remove(f"{ROOT}/{checkpoints.CLEANER_OFFSETS}")
    assert damage(disk) == [], "the log tells that it was compacted"


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_gap_between_batches_is_damage(disk, has_checkpoint):
    written(disk)
    content, size = disk.contents()[log_path(0)], len(batch_of(2))
    disk.open(log_path(0)).truncate(size)
    disk.open(log_path(0)).write(size, (content[2 * size :],))
    if has_checkpoint:
        disk.write_file_atomically(f"{ROOT}/{checkpoints.CLEANER_OFFSETS}", checkpoints.encode({}))
    assert (file_name(0, LOG), 2, 3) in damage(disk)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_missing_first_segment_is_damage(disk, clean, has_checkpoint):
    written(disk)
    if has_checkpoint:
        write_checkpoint(disk, checkpoints.LOG_START_OFFSETS, 0)
    if not clean:
        disk.remove(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}")
    second = look(disk)[1].segments[1].base_offset
    disk.remove(log_path(0))
    # Without either, nobody knows where it began: a crash may leave old leader epochs.
    is_known = clean or has_checkpoint
    assert damage(disk) == ([(file_name(0, LOG), 0, second - 1)] if is_known else [])


def test_a_log_that_starts_within_a_segment_lacks_nothing(disk):
    written(disk)
    write_checkpoint(disk, checkpoints.LOG_START_OFFSETS, 3)
    assert damage(disk) == []


def cut(disk, size=30):
    segment = look(disk)[1].segments[-1]
    disk.open(log_path(segment.base_offset)).truncate(segment.size_bytes - size)
    return segment


def test_a_torn_end_is_a_note_after_a_crash_and_damage_after_a_clean_stop(disk):
    written(disk)
    last = cut(disk)
    assert damage(disk) == [(file_name(last.base_offset, LOG), 38, 39)]
    disk.remove(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}")
    # It was synced up to its end, so this is no ordinary torn end.
    assert damage(disk) == [(file_name(last.base_offset, LOG), 38, 39)]
    write_checkpoint(disk, checkpoints.RECOVERY_POINTS, last.base_offset)
    assert (file_name(last.base_offset, LOG), 38, 37) in notes(disk)
    assert damage(disk) == []


INDEXES = [".index", ".timeindex"]


@pytest.mark.parametrize("suffix", INDEXES)
@pytest.mark.parametrize("change", ["missing", "cut", "zeros", "flipped", "longer"])
def test_a_wrong_index_is_found(disk, suffix, change):
    written(disk)
    path = f"{DIRECTORY}/{file_name(0, suffix)}"
    size = disk.open(path).size()
    match change:
        case "missing":
            disk.remove(path)
        case "cut":
            disk.open(path).truncate(size - 1)
        case "zeros":
            disk.open(path).truncate(size + 24)
        case "flipped":
            disk.flip(path, size - 1, 6)
        case "longer":
            disk.open(path).write(size, (b"\x00\x00\x7f" * 8,))
    assert damage(disk) == [(file_name(0, suffix),)]


@pytest.mark.parametrize("suffix", INDEXES)
def test_what_a_crash_does_to_the_last_index_is_a_note_or_nothing(disk, suffix):
    written(disk, clean=False)
    last = look(disk)[1].segments[-1]
    path = f"{DIRECTORY}/{file_name(last.base_offset, suffix)}"
    disk.open(path).truncate(4096)
    if suffix == ".index":
        disk.open(path).truncate(4096 // 8 * 8)
    else:
        disk.open(path).truncate(4096 // 12 * 12)
    assert (damage(disk), notes(disk)) == ([], [])
    disk.remove(path)
    assert (damage(disk), notes(disk)) == ([], [(file_name(last.base_offset, suffix),)])


def test_index_entries_must_rise_and_lead_to_the_right_batch(disk):
    written(disk)
    path = f"{DIRECTORY}/{file_name(0, '.index')}"
    before = disk.read_file(path)
    overwrite(disk, path, 0, before[8:16] + before[:8])
    assert damage(disk) == [(file_name(0, ".index"),)]
    overwrite(disk, path, 0, (0).to_bytes(4, "big") + before[4:8])
    assert damage(disk) == [(file_name(0, ".index"),)]


def test_index_entries_into_damage_are_not_told_twice(disk):
    written(disk)
    entry = disk.read_file(f"{DIRECTORY}/{file_name(0, '.index')}")[:8]
    disk.flip(log_path(0), int.from_bytes(entry[4:], "big") + 70)
    assert [name for name, *_ in damage(disk)] == [file_name(0, LOG)]


def test_time_index_entries_must_not_be_behind_later_times(disk):
    written(disk)
    path = f"{DIRECTORY}/{file_name(0, '.timeindex')}"
    last = disk.read_file(path)[-12:]
    # The last entry claims a time before those of batches before it.
    earlier = (NOW - 5).to_bytes(8, "big") + last[8:]
    disk.open(path).truncate(0)
    disk.open(path).write(0, (earlier,))
    assert damage(disk) == [(file_name(0, ".timeindex"),)]


# Transactions


def transactions(disk, *ends):
    """One transaction of one batch each, ended as told."""
    log = open_log(disk)
    for number, commit in enumerate(ends):
        records = [Record(at, NOW, None, b"x") for at in range(2)]
        producer = Producer(7, 0, 2 * number)
        append(log, build(records, attributes=TRANSACTIONAL, producer=producer))
        log.append_marker(EndMarker(commit, 0), 7, 0, 0, NOW)
    close(disk, log)


TRANSACTIONS = f"{DIRECTORY}/{file_name(0, TXN_INDEX)}"


def test_aborted_transactions_are_in_their_index(disk):
    transactions(disk, True, False, True, False)
    assert damage(disk) == []
    content = disk.read_file(TRANSACTIONS)
    assert [one.last_offset for one in look(disk)[1].segments[0].aborted] == [5, 11]
    disk.remove(TRANSACTIONS)
    assert damage(disk) == [(file_name(0, TXN_INDEX),)]
    disk.write_file_atomically(TRANSACTIONS, content[:-1] + b"\xff")
    assert damage(disk) == [(file_name(0, TXN_INDEX),)]  # readers would stop looking too early
    disk.write_file_atomically(TRANSACTIONS, b"\xff" + content[1:])
    assert damage(disk) == [(file_name(0, TXN_INDEX),)]


def test_an_index_of_transactions_that_never_were_is_found(disk):
    transactions(disk, False)
    content = disk.read_file(TRANSACTIONS)
    moved = content[:18] + (1).to_bytes(8, "big") + content[26:]
    disk.write_file_atomically(TRANSACTIONS, content + moved)
    assert damage(disk) == [(file_name(0, TXN_INDEX),)]


# The other files of a partition


@pytest.mark.parametrize(
    "content",
    [b"nonsense", b"0\n1\n3 0\n", b"0\n0\n", b"0\n2\n0 0\n0 5\n", b"0\n2\n1 5\n0 9\n"],
)
def test_leader_epochs_that_do_not_fit_are_found(disk, content):
    written(disk)
    disk.write_file_atomically(f"{DIRECTORY}/{LEADER_EPOCHS}", content)
    assert damage(disk) == [(LEADER_EPOCHS,)]


def test_leader_epochs_may_have_begun_before_the_log_and_without_records(disk):
    log = small_log(disk)
    append(log, epoch=2)
    append(log, epoch=5)
    close(disk, log)
    disk.write_file_atomically(f"{DIRECTORY}/{LEADER_EPOCHS}", b"0\n4\n2 0\n4 1\n5 1\n6 2\n")
    assert damage(disk) == [(LEADER_EPOCHS,)]
    disk.write_file_atomically(f"{DIRECTORY}/{LEADER_EPOCHS}", b"0\n3\n2 0\n5 1\n6 2\n")
    assert damage(disk) == []
    disk.write_file_atomically(f"{DIRECTORY}/{LEADER_EPOCHS}", b"0\n1\n5 1\n")
    assert damage(disk) == []
    disk.remove(f"{DIRECTORY}/{LEADER_EPOCHS}")
    assert damage(disk) == [(LEADER_EPOCHS,)]


def test_snapshots_must_be_readable_and_within_the_log(disk):
    log = small_log(disk)
    append(log, batch_of(2, producer=PRODUCER))
    close(disk, log)
    name = file_name(2, SNAPSHOT)
    content = disk.read_file(f"{DIRECTORY}/{name}")
    assert damage(disk) == []
    disk.write_file_atomically(f"{DIRECTORY}/{file_name(9, SNAPSHOT)}", content)
    assert notes(disk) == [(file_name(9, SNAPSHOT),)]
    disk.flip(f"{DIRECTORY}/{name}", 12)
    assert damage(disk) == [(name,)]


def test_the_topic_id_must_be_readable(disk):
    written(disk)
    path = f"{DIRECTORY}/{partition_metadata.FILE_NAME}"
    disk.write_file_atomically(path, b"nonsense")
    assert damage(disk) == [(partition_metadata.FILE_NAME,)]
    disk.remove(path)
    assert notes(disk) == [(partition_metadata.FILE_NAME,)]


def test_work_cut_short_is_a_note(disk):
    written(disk)
    for name in ("x.log.deleted", "y.log.cleaned", file_name(0, LOG) + ".swap"):
        disk.write_file_atomically(f"{DIRECTORY}/{name}", b"")
    assert len(notes(disk)) == 3
    assert damage(disk) == []


def test_a_folder_without_segments_is_a_note(disk):
    disk.write_file_atomically(
        f"{DIRECTORY}/{partition_metadata.FILE_NAME}", partition_metadata.encode(bytes(range(16)))
    )
    assert notes(disk) == [("",)]
    assert look(disk)[1].log_end_offset == 0


def test_one_segment_alone(disk):
    written(disk)
    base = look(disk)[1].segments[1].base_offset
    disk.flip(log_path(0), 70)
    disk.flip(log_path(base), 70)
    left, passed = look(disk)[0].left(KEY), []
    report = verify_segment(disk, DIRECTORY, base, left, passed.append)
    assert [finding.path for finding in report.findings] == [log_path(base)]
    assert sum(passed) == report.size_bytes


def test_a_segment_that_a_broker_removes_meanwhile(disk):
    written(disk)
    names = disk.list(DIRECTORY)
    disk.list = lambda _path: names
    disk.remove(log_path(0))
    report = verify_segment(disk, DIRECTORY, 0, look(disk)[0].left(KEY), lambda _size: None)
    assert [finding.severity for finding in report.findings] == ["note"]
    assert report.segments == []


# The directory


@pytest.mark.parametrize("name", [checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS])
def test_checkpoints_beyond_the_log_are_found(disk, name):
    written(disk)
    write_checkpoint(disk, name, 41)
    assert damage(disk) == [(name,)]
    disk.remove(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}")
    # What was not synced may be gone after a crash; what the recovery point covers may not.
    assert (name,) in (damage if name == checkpoints.RECOVERY_POINTS else notes)(disk)


def test_checkpoints_that_are_none_are_found(disk):
    written(disk)
    disk.write_file_atomically(f"{ROOT}/{checkpoints.CLEANER_OFFSETS}", b"nonsense")
    assert damage(disk) == [(checkpoints.CLEANER_OFFSETS,)]


def test_whose_directory_it_is_must_be_readable(disk):
    written(disk)
    disk.write_file_atomically(f"{ROOT}/{meta_properties.FILE_NAME}", b"version=9\n")
    assert damage(disk) == [(meta_properties.FILE_NAME,)]


def test_other_folders_and_files_are_no_partitions(disk):
    written(disk)
    for folder in ("quarantine", "topic-0.0123-delete"):
        disk.make_dir(f"{ROOT}/{folder}")
    disk.write_file_atomically(f"{ROOT}/file-0", b"")
    assert view_directory(disk, ROOT).partitions == [KEY]
    assert is_partition_folder(disk, DIRECTORY)
    assert not is_partition_folder(disk, ROOT)


def test_partitions_of_one_topic_must_agree_on_its_id():
    one, two = bytes(range(16)), bytes(range(1, 17))
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    view = DirectoryView("/d")
    assert mixed_topics(view, {first: one, second: one, TopicPartition("u", 0): two}) == []
    (finding,) = mixed_topics(view, {first: one, second: two, TopicPartition("t", 2): None})
    assert finding.path == "/d/t-1/partition.metadata"
