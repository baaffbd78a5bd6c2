"""Repair: whatever was damaged, the rest is read at its offsets, and nothing is thrown away."""

import contextlib

import pytest
from damage_kit import (
    KEY,
    ROOT,
    TOPIC_ID,
    close,
    damage,
    log_path,
    look,
    notes,
    small_log,
    write_checkpoint,
)
from log_kit import DIRECTORY, NOW, append, batch_of, config, new_disk, open_log, read_all

from barnabas.storage import checkpoints, partition_metadata
from barnabas.storage.directory import CLEAN_SHUTDOWN_FILE
from barnabas.storage.names import LEADER_EPOCHS, LOG, SNAPSHOT, TXN_INDEX, file_name
from barnabas.storage.rebuild import QUARANTINE, TEMPORARY, remove_temporary
from barnabas.storage.repair import plan_directory, plan_partition
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build
from barnabas.wire.control_batch import EndMarker

SETTINGS = config(segment_bytes=600, index_interval_bytes=100)


@pytest.fixture
def disk():
    return new_disk()


def written(disk, count=20, **how):
    log = small_log(disk)
    for number in range(count):
        append(log, count=2, timestamp=NOW + number)
    close(disk, log, **how)
    return [segment.base_offset for segment in look(disk)[1].segments]


def repair(disk):
    """Repair; return what was planned."""
    remove_temporary(disk, DIRECTORY)
    view, report, _ = look(disk)
    steps = plan_directory(view, {KEY: report})
    for step in steps:
        step.run(disk)
    return [step.describe() for step in steps]


def offsets(disk, *, clean=False):
    """Open the log as a start does, and read all of it."""
    view, _, _ = look(disk)
    recovery_point = view.offsets[checkpoints.RECOVERY_POINTS].get(KEY, 0)
    log = open_log(disk, SETTINGS, clean=clean, recovery_point=recovery_point)
    assert log.recovery.cut_bytes == 0
    assert log.recovery.removed_segments == []
    return [record.offset for record in read_all(log)], log.log_end_offset


def quarantined(disk):
    """Name -> bytes of all that was put aside."""
    folder = f"{DIRECTORY}/{QUARANTINE}"
    names = disk.list(folder) if disk.exists(folder) else []
    return {name: disk.read_file(f"{folder}/{name}") for name in names}


def but(*missing):
    return [offset for offset in range(40) if offset not in missing]


def test_nothing_is_done_where_nothing_is_wrong(disk):
    written(disk)
    before = disk.contents()
    assert repair(disk) == []
    assert disk.contents() == before


@pytest.mark.parametrize("clean", [True, False])
def test_damage_within_a_segment_costs_its_own_records_only(disk, clean):
    written(disk)
    disk.flip(log_path(0), 150)
    content = disk.read_file(log_path(0))
    assert len(repair(disk)) == 1
    assert damage(disk) == []
    assert offsets(disk, clean=clean) == (but(2, 3), 40)
    (saved,) = quarantined(disk).values()
    assert saved in content
    assert repair(disk) == []


def test_a_segment_that_is_damaged_whole_leaves_its_offsets_empty(disk):
    bases = written(disk)
    path = log_path(bases[1])
    size = disk.open(path).size()
    disk.open(path).write(0, (b"\xee" * size,))
    repair(disk)
    assert damage(disk) == []
    assert offsets(disk) == (but(*range(bases[1], bases[2])), 40)
    assert list(quarantined(disk).values()) == [b"\xee" * size]


def test_a_missing_segment_does_not_end_the_log(disk):
    bases = written(disk, clean=False)
    write_checkpoint(disk, checkpoints.RECOVERY_POINTS, 0)
    for suffix in (LOG, ".index", ".timeindex"):
        disk.remove(f"{DIRECTORY}/{file_name(bases[1], suffix)}")
    repair(disk)
    assert damage(disk) == []
    assert offsets(disk) == (but(*range(bases[1], bases[2])), 40)


def test_after_a_missing_first_segment_the_log_starts_later(disk):
    bases = written(disk)
    write_checkpoint(disk, checkpoints.LOG_START_OFFSETS, 0)
    disk.remove(log_path(0))
    repair(disk)
    assert damage(disk) == []
    assert offsets(disk, clean=True)[0] == list(range(bases[1], 40))


def test_a_synced_end_that_is_gone_keeps_its_offsets(disk):
    bases = written(disk)
    path = log_path(bases[-1])
    disk.open(path).truncate(disk.open(path).size() - 10)
    repair(disk)
    assert damage(disk) == []
    assert disk.exists(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}")
    assert offsets(disk) == (but(38, 39), 40)


def test_a_torn_end_is_cut_and_kept(disk):
    bases = written(disk, clean=False)
    write_checkpoint(disk, checkpoints.RECOVERY_POINTS, bases[-1])
    write_checkpoint(disk, checkpoints.HIGH_WATERMARKS, bases[-1])
    path = log_path(bases[-1])
    size = disk.open(path).size()
    disk.open(path).truncate(size - 10)
    repair(disk)
    assert notes(disk) == damage(disk) == []
    assert offsets(disk) == (but(38, 39), 38)
    # The end itself, and the producers at an offset that is no more.
    assert len(quarantined(disk)) == 2


def test_an_end_cut_after_a_clean_stop_takes_its_mark(disk):
    bases = written(disk)
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        disk.remove(f"{ROOT}/{name}")
    disk.flip(log_path(bases[-1]), disk.open(log_path(bases[-1])).size() - 1)
    repair(disk)
    assert not disk.exists(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}")
    assert damage(disk) == []


def test_several_holes_in_one_segment(disk):
    log = open_log(disk, config(index_interval_bytes=100))
    for number in range(20):
        append(log, count=2, timestamp=NOW + number, epoch=number // 10)
    close(disk, log)
    step = disk.open(log_path(0)).size() // 20
    for number in (0, 5, 6, 12):
        disk.flip(log_path(0), step * number + 70)
    repair(disk)
    assert damage(disk) == []
    assert offsets(disk) == (but(0, 1, 10, 11, 12, 13, 24, 25), 40)
    assert len(quarantined(disk)) == 3


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_is_built_as_it_was(disk, suffix):
    log = open_log(disk)
    for number in range(300):
        append(log, count=2, timestamp=NOW + number, size=60)
    close(disk, log)
    path = f"{DIRECTORY}/{file_name(0, suffix)}"
    before = disk.read_file(path)
    assert before
    disk.remove(path)
    assert len(repair(disk)) == 1
    assert disk.read_file(path) == before
    assert quarantined(disk) == {}


def test_an_index_of_aborted_transactions_is_built_as_it_was(disk):
    log = open_log(disk)
    for number, commit in enumerate((False, True, False)):
        records = [Record(at, NOW, None, b"x") for at in range(2)]
        producer = Producer(7, 0, 2 * number)
        append(log, build(records, attributes=TRANSACTIONAL, producer=producer))
        log.append_marker(EndMarker(commit, 0), 7, 0, 0, NOW)
    close(disk, log)
    path = f"{DIRECTORY}/{file_name(0, TXN_INDEX)}"
    before = disk.read_file(path)
    disk.write_file_atomically(path, b"\xff" * 34)
    repair(disk)
    assert disk.read_file(path) == before
    assert list(quarantined(disk).values()) == [b"\xff" * 34]


def test_an_index_of_transactions_that_never_were_goes(disk):
    written(disk, count=2)
    path = f"{DIRECTORY}/{file_name(0, TXN_INDEX)}"
    disk.write_file_atomically(path, bytes(34))
    repair(disk)
    assert not disk.exists(path)
    assert damage(disk) == []


def test_small_files_are_written_again(disk):
    log = small_log(disk)
    append(log, batch_of(2, producer=Producer(7, 0, 0)), epoch=3)
    close(disk, log)
    names = (LEADER_EPOCHS, partition_metadata.FILE_NAME, file_name(2, SNAPSHOT))
    before = {name: disk.read_file(f"{DIRECTORY}/{name}") for name in names}
    for name in names:
        disk.write_file_atomically(f"{DIRECTORY}/{name}", b"bad " + name.encode())
    _, report, _ = look(disk)
    for step in plan_partition(report, TOPIC_ID):
        step.run(disk)
    assert damage(disk) == []
    for name in (LEADER_EPOCHS, partition_metadata.FILE_NAME):
        assert disk.read_file(f"{DIRECTORY}/{name}") == before[name]
    assert sorted(quarantined(disk).values()) == sorted(b"bad " + name.encode() for name in names)


def test_a_topic_id_that_nobody_knows_is_left_to_the_store(disk):
    written(disk)
    path = f"{DIRECTORY}/{partition_metadata.FILE_NAME}"
    disk.write_file_atomically(path, b"nonsense")
    repair(disk)
    assert not disk.exists(path)
    assert quarantined(disk) == {f"{partition_metadata.FILE_NAME}.0": b"nonsense"}


def test_checkpoints_that_lie_are_dropped(disk):
    written(disk)
    write_checkpoint(disk, checkpoints.RECOVERY_POINTS, 99)
    disk.write_file_atomically(f"{ROOT}/{checkpoints.CLEANER_OFFSETS}", b"nonsense")
    planned = repair(disk)
    assert len(planned) == 2
    assert damage(disk) == []
    assert look(disk)[0].offsets[checkpoints.RECOVERY_POINTS] == {}
    assert disk.read_file(f"{ROOT}/{checkpoints.CLEANER_OFFSETS}.damaged") == b"nonsense"


def test_quarantine_overwrites_nothing(disk):
    written(disk)
    for bit in range(2):
        disk.write_file_atomically(f"{DIRECTORY}/{LEADER_EPOCHS}", b"bad %d" % bit)
        repair(disk)
    assert quarantined(disk) == {
        f"{LEADER_EPOCHS}.0": b"bad 0",
        f"{LEADER_EPOCHS}.1": b"bad 1",
    }


@pytest.mark.parametrize("power", [False, True], ids=["process", "power"])
def test_a_crash_at_any_call_is_taken_up_again(power):
    """Fail every disk call of a repair in turn, crash, and repair again."""
    nth, failed = 1, True
    while failed:
        disk = new_disk(nth)
        bases = written(disk)
        disk.flip(log_path(0), 150)
        disk.flip(log_path(bases[1]), 70)
        disk.remove(f"{DIRECTORY}/{file_name(bases[2], '.index')}")
        disk.write_file_atomically(f"{DIRECTORY}/{LEADER_EPOCHS}", b"bad")
        sync_all(disk)
        bad = [disk.read_file(log_path(base)) for base in (0, bases[1])]
        view, report, _ = look(disk)
        steps = plan_directory(view, {KEY: report})
        disk.fail_call(nth)
        failed = True
        with contextlib.suppress(OSError):
            for step in steps:
                step.run(disk)
            failed = False
        (disk.crash if power else disk.process_crash)()
        disk.heal()
        repair(disk)
        assert damage(disk) == [], nth
        assert offsets(disk) == (but(2, 3, bases[1], bases[1] + 1), 40), nth
        saved = list(quarantined(disk).values())
        for content in bad:
            assert any(one in content for one in saved if len(one) > 10), nth
        assert not [name for name in disk.list(DIRECTORY) if name.endswith(TEMPORARY)]
        nth += 1
    assert nth > 40


def sync_all(disk):
    for path in disk.contents():
        disk.open(path).sync()
        disk.sync_dir(path.rpartition("/")[0])
    disk.sync_dir(ROOT)


@pytest.mark.parametrize("at", range(12, 16))
def test_a_leader_epoch_is_written_again_where_the_file_of_epochs_is_known(disk, at):
    log = small_log(disk)
    for epoch in (4, 4, 7, 7):
        append(log, count=2, epoch=epoch)
    close(disk, log)
    before = disk.contents()[log_path(0)]
    disk.flip(log_path(0), len(batch_of(2)) + at)
    assert damage(disk) == [(file_name(0, LOG), 2, 2)]
    (step,) = repair(disk)
    assert "write the leader epoch of 1 batches again" in step
    assert damage(disk) == []
    assert disk.contents()[log_path(0)] == before
