"""Opening a log: after a clean stop, after a crash, with damage, and with every disk call failing once."""

import random

import pytest
from log_kit import (
    DIRECTORY,
    NOW,
    append,
    batch_of,
    config,
    files,
    new_disk,
    open_log,
    read_all,
)

from barnabas.core.producer_state import Duplicate
from barnabas.sim.disk import SimDisk
from barnabas.storage.log import Log
from barnabas.storage.scan import SCAN_BYTES
from barnabas.wire.batch import Producer, read_header

SMALL = {"index_interval_bytes": 100, "segment_bytes": 700}
SIZE = len(batch_of(3))


def path(base, suffix=".log"):
    return f"{DIRECTORY}/{base:020d}{suffix}"


def written_log(disk, batches=20, settings=None):
    """Segments with base offsets 0, 18, 36, 54; producer 9 writes every fourth batch."""
    log = open_log(disk, settings or config(**SMALL))
    for number in range(batches):
        producer = Producer(9, 0, number // 4 * 3) if number % 4 == 0 else None
        append(log, count=3, timestamp=NOW + number, producer=producer, epoch=number // 7)
    return log


def closed_disk():
    disk = new_disk()
    written_log(disk).close(clean=True)
    return disk


def reopen(disk, *, clean=True, recovery_point=0, **options):
    return open_log(disk, config(**SMALL), clean=clean, recovery_point=recovery_point, **options)


def check_whole(log, end=60):
    assert [record.offset for record in read_all(log)] == list(range(log.log_start_offset, end))
    assert log.log_end_offset == end


def test_the_layout_these_tests_rely_on():
    assert written_log(new_disk()).base_offsets == [0, 18, 36, 54]


# After a clean stop


def test_a_clean_start_reads_no_data_but_the_last_headers():
    disk = closed_disk()
    for base in (0, 18, 36):
        disk.fail_path(path(base) + "x")
        disk.chill(path(base))
    log = reopen(disk)
    assert all(disk._file_at(path(base)).cold for base in (0, 18, 36))
    assert log.recovery.scanned_bytes == 0
    assert log.epochs.entries == [(0, 0), (1, 21), (2, 42)]
    assert log.recovery_point == 60
    check_whole(log)


def test_producers_come_from_the_snapshot():
    log = reopen(closed_disk())
    again = read_header(batch_of(3, timestamp=NOW + 16, producer=Producer(9, 0, 12)))
    assert log.check_producer(again) == Duplicate(48, 50, NOW + 16)
    assert log.check_producer(read_header(batch_of(3, producer=Producer(9, 0, 15)))) is None


def test_a_damaged_snapshot_is_passed_over_for_an_older_one_and_the_log():
    disk = closed_disk()
    disk.flip(path(60, ".snapshot"), 12)
    disk.flip(path(54, ".snapshot"), 12)
    log = reopen(disk)
    assert log.check_producer(read_header(batch_of(3, producer=Producer(9, 0, 15)))) is None
    assert log.producers.get(9).batches[-1].last_offset == 50
    assert path(54, ".snapshot") not in disk.contents()


def test_without_any_good_snapshot_the_log_tells():
    disk = closed_disk()
    for base in (18, 36, 54, 60):
        disk.flip(path(base, ".snapshot"), 12)
    log = reopen(disk)
    assert [batch.last_offset for batch in log.producers.get(9).batches] == [2, 14, 26, 38, 50]


def test_a_clean_log_without_snapshots_had_no_producers():
    disk = closed_disk()
    for base in (18, 36, 54, 60):
        disk.remove(path(base, ".snapshot"))
    assert len(reopen(disk).producers) == 1, "the checksums tell of them"
    disk.remove(f"{DIRECTORY}/barnabas-checksums")
    for base in (18, 36, 54, 60):
        disk.remove(path(base, ".snapshot"))
    assert len(reopen(disk).producers) == 0


def test_replay_stops_at_damage_and_goes_on_behind_it():
    disk = closed_disk()
    for base in (18, 36, 54, 60):
        disk.flip(path(base, ".snapshot"), 12)
    disk.flip(path(18), 16)
    log = reopen(disk)
    assert [batch.last_offset for batch in log.producers.get(9).batches] == [2, 14, 38, 50]


@pytest.mark.parametrize("damage", ["missing", "malformed"])
def test_a_lost_epoch_file_is_made_again(damage):
    disk = closed_disk()
    before = files(disk)
    name = f"{DIRECTORY}/leader-epoch-checkpoint"
    if damage == "missing":
        disk.remove(name)
    else:
        disk.write_file_atomically(name, b"0\n7\nnonsense\n")
    log = reopen(disk)
    assert log.epochs.entries == [(0, 0), (1, 21), (2, 42)]
    assert files(disk) == before


def test_a_lost_epoch_file_is_made_from_what_is_readable():
    disk = closed_disk()
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    disk.flip(path(0), 16)
    assert reopen(disk).epochs.entries == [(0, 18), (1, 21), (2, 42)]


def test_epochs_past_the_end_are_cut():
    disk = closed_disk()
    disk.remove(f"{DIRECTORY}/barnabas-checksums")
    disk.write_file_atomically(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n2 0\n9 60\n")
    assert reopen(disk).epochs.entries == [(2, 0)]
    assert files(disk)["leader-epoch-checkpoint"] == b"0\n1\n2 0\n"


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_start_is_kept(clean):
    disk = closed_disk()
    log = reopen(disk, clean=clean, recovery_point=60, log_start_offset=20)
    check_whole(log)
    assert log.log_start_offset == 20
    assert log.epochs.entries == [(0, 20), (1, 21), (2, 42)]
    assert log.base_offsets == [18, 36, 54]
    assert not any(name.startswith(f"{0:020d}") for name in files(disk))


def test_a_gap_among_dropped_segments_is_no_loss():
    # A power loss keeps any of the renames that put segments aside: here that of the second, not that of the first.
    disk = closed_disk()
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        disk.remove(path(18, suffix))
    log = reopen(disk, clean=False, recovery_point=0, log_start_offset=36)
    assert log.base_offsets == [36, 54]
    assert (log.log_start_offset, log.log_end_offset) == (36, 60)
    assert log.recovery.cut_reason == ""


def test_the_log_starts_no_earlier_than_its_files():
    disk = closed_disk()
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(path(0, suffix))
    assert reopen(disk).log_start_offset == 18


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_past_everything_drops_everything(clean):
    disk = closed_disk()
    log = reopen(disk, clean=clean, recovery_point=60, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert log.base_offsets == [100]
    assert log.recovery.removed_segments == [54]
    assert log.epochs.entries == []
    assert len(log.producers) == 0
    assert append(log).base_offset == 100


# Leftovers


def test_leftovers_are_removed():
    disk = closed_disk()
    before = files(disk)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000005.index.cleaned",
        "00000000000000000777.index",
        "00000000000000000777.timeindex",
        "00000000000000000777.txnindex",
        "00000000000000000041.snapshot",
    ):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    reopen(disk)
    assert files(disk) == before


def test_other_files_are_left_alone():
    disk = closed_disk()
    for name in ("partition.metadata", "00000000000000000000.txnindex", "notes.txt"):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    reopen(disk)
    assert {"partition.metadata", "00000000000000000000.txnindex", "notes.txt"} <= set(files(disk))


def test_a_snapshot_past_the_end_or_before_the_start_goes():
    disk = closed_disk()
    disk.open(path(61, ".snapshot"), create=True)
    reopen(disk, log_start_offset=40)
    kept = sorted(name for name in files(disk) if name.endswith(".snapshot"))
    assert kept == [f"{base:020d}.snapshot" for base in (54, 60)]


def test_an_empty_segment_of_a_failed_roll_goes():
    disk = closed_disk()
    disk.open(path(57), create=True)
    log = reopen(disk)
    check_whole(log)
    assert log.base_offsets == [0, 18, 36, 54]
    assert path(57) not in disk.contents()


def test_an_empty_segment_at_the_end_stays():
    disk = new_disk()
    log = written_log(disk)
    log.roll(NOW)
    log.close(clean=True)
    log = reopen(disk)
    assert log.base_offsets == [0, 18, 36, 54, 60]
    check_whole(log)


@pytest.mark.parametrize("recovery_point", [0, 57, 60])
def test_an_empty_segment_of_a_failed_roll_goes_after_a_crash_too(recovery_point):
    disk = closed_disk()
    disk.open(path(57), create=True)
    log = reopen(disk, clean=False, recovery_point=recovery_point)
    check_whole(log)
    assert log.base_offsets == [0, 18, 36, 54]


# Indexes


@pytest.mark.parametrize("base", [0, 36, 54])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "zeros", "wrong", "negative"])
def test_a_damaged_index_is_built_again(base, suffix, damage):
    disk = closed_disk()
    before = files(disk)
    name = path(base, suffix)
    size = len(disk.contents()[name])
    assert size
    if damage == "missing":
        disk.remove(name)
    elif damage == "odd size":
        disk.open(name).truncate(size - 1)
    elif damage == "zeros":
        disk.open(name).truncate(0)
        disk.open(name).truncate(size if suffix == ".index" else 0)
    elif damage == "wrong":
        disk.flip(name, size - 2 if suffix == ".index" else size - 1, 7)
        if suffix == ".timeindex":
            disk.flip(name, size - 4, 7)
    else:
        disk.flip(name, size - 8 if suffix == ".index" else size - 12, 7)
    log = reopen(disk)
    assert log.recovery.rebuilt_indexes == [base]
    assert log.recovery.cut_bytes == 0
    check_whole(log)
    assert files(disk) == before


def test_a_last_index_entry_that_points_beside_a_batch_is_noticed():
    disk = closed_disk()
    before = files(disk)
    disk.flip(path(54, ".index"), len(disk.contents()[path(54, ".index")]) - 1)
    log = reopen(disk)
    assert log.recovery.rebuilt_indexes == [54]
    assert files(disk) == before


def test_a_last_index_entry_with_a_wrong_offset_is_noticed():
    disk = closed_disk()
    before = files(disk)
    disk.flip(path(54, ".index"), len(disk.contents()[path(54, ".index")]) - 5)
    log = reopen(disk)
    assert log.recovery.rebuilt_indexes == [54]
    assert files(disk) == before


def test_an_empty_time_index_is_right_for_records_without_time():
    disk = new_disk()
    log = open_log(disk)
    append(log, timestamp=-1)
    log.close(clean=True)
    assert reopen(disk).recovery.rebuilt_indexes == []


def kept(disk):
    """What is in quarantine, taken out of `files`."""
    found = files(disk)
    return {name: data for name, data in found.items() if name.startswith("quarantine/")}


def test_rubbish_at_the_end_goes_to_quarantine_even_after_a_clean_stop():
    disk = closed_disk()
    before = files(disk)
    disk.open(path(54)).write(2 * SIZE, (b"x" * 100,))
    log = reopen(disk, recovery_point=60)
    ((first, last, size, _, _),) = log.recovery.lost
    assert (first, last, size) == (60, 59, 100)
    check_whole(log)
    end = 2 * SIZE
    assert kept(disk) == {f"quarantine/{54:020d}.log.{end}-{end + 100}.0": b"x" * 100}
    assert files(disk) == before | kept(disk)


def test_damage_that_is_found_while_an_index_is_built_again_takes_nothing_else_with_it():
    disk = closed_disk()
    disk.open(path(54, ".timeindex")).truncate(0)
    bad = bytearray(files(disk)[f"{54:020d}.log"][:SIZE])
    bad[16] ^= 1
    disk.flip(path(54), 16)
    log = reopen(disk, recovery_point=60)
    assert [record.offset for record in read_all(log)] == [*range(54), *range(57, 60)]
    assert log.log_end_offset == 60
    assert [lost[:2] for lost in log.recovery.lost] == [(54, 56)]
    assert list(kept(disk).values()) == [bytes(bad)]
    log.close(clean=True)
    again = reopen(disk, recovery_point=60)
    assert again.recovery.lost == again.recovery.rebuilt_indexes == []


def test_offsets_at_the_end_that_are_damaged_are_not_given_out_again():
    disk = closed_disk()
    disk.open(path(54, ".index")).truncate(3)
    disk.open(path(54)).write(0, (bytes(2 * SIZE),))
    log = reopen(disk, recovery_point=60)
    assert [record.offset for record in read_all(log)] == list(range(54))
    assert [lost[:2] for lost in log.recovery.lost] == [(54, 59)]
    assert append(log).base_offset == 60


def test_a_sound_segment_that_is_cut_short_leaves_a_gap_that_is_told():
    disk = closed_disk()
    disk.open(path(18)).truncate(2 * SIZE + 10)
    log = reopen(disk, clean=False, recovery_point=60)
    assert [record.offset for record in read_all(log)] == [*range(24), *range(36, 60)]
    assert [lost[:2] for lost in log.recovery.lost] == [(24, 35)]


def test_what_is_cut_off_after_a_crash_is_kept():
    disk = new_disk()
    written_log(disk)
    disk.flip(path(18), SIZE + 30)
    before = files(disk)
    disk.process_crash()
    log = reopen(disk, clean=False)
    assert log.log_end_offset == 21
    assert kept(disk) == {
        f"quarantine/{18:020d}.log.{SIZE}-{6 * SIZE}.0": before[f"{18:020d}.log"][SIZE:],
        f"quarantine/{36:020d}.log.0": before[f"{36:020d}.log"],
        f"quarantine/{54:020d}.log.0": before[f"{54:020d}.log"],
    }


@pytest.mark.parametrize("end", [bytes(5000), b"x" * 60])
def test_a_write_that_did_not_get_to_its_end_is_nothing_to_keep(end):
    disk = new_disk()
    written_log(disk)
    disk.open(path(54)).write(2 * SIZE, (end,))
    disk.process_crash()
    log = reopen(disk, clean=False)
    check_whole(log)
    assert log.recovery.cut_bytes == len(end)
    assert not kept(disk)


@pytest.mark.parametrize("crash", ["process", "power"])
def test_a_crash_at_any_call_while_damage_is_taken_out(crash):
    """Whatever call is the last one, the next start serves the same."""
    for nth in range(1, 500):
        disk = closed_disk()
        index = disk.open(path(36, ".timeindex"))
        index.truncate(3)
        index.sync()
        disk.flip(path(36), 2 * SIZE + 40)
        disk.fail_call(nth)
        try:
            reopen(disk, recovery_point=60)
        except OSError:
            over = False
        else:
            over = True
        disk.heal()
        if crash == "power":
            disk.crash()
        else:
            disk.process_crash()
        log = reopen(disk, recovery_point=60)
        assert [r.offset for r in read_all(log)] == [*range(42), *range(45, 60)]
        assert kept(disk)
        if over:
            return
    raise AssertionError("it never ends")


def test_what_is_built_again_outlasts_a_crash():
    disk = closed_disk()
    disk.remove(path(18, ".index"))
    reopen(disk)
    before = disk.contents()[path(18, ".index")]
    disk.crash()
    assert disk.contents().get(path(18, ".index"), before) == before


# After a crash


def test_a_snapshot_between_two_batches_counts_only_what_follows():
    """As after a stop in the middle of a segment: the batches before it are in it already."""
    disk = new_disk()
    log = written_log(disk, batches=9)
    log.close(clean=True)
    log = reopen(disk)
    append(log, count=3, producer=Producer(9, 0, 9))
    log.close(clean=True)
    disk.flip(path(30, ".snapshot"), 12)
    log = reopen(disk)
    # Batches in the snapshot at 27 have left only their last one there.
    assert [batch.last_offset for batch in log.producers.get(9).batches] == [26, 29]


def test_a_snapshot_below_an_offset_that_compaction_took():
    disk = new_disk()
    settings = config(cleanup_policy=("compact",), **SMALL)
    log = written_log(disk, settings=settings)
    disk.open(path(36)).truncate(2 * SIZE)
    disk.remove(path(54, ".snapshot"))
    log.producers.clear()
    log._snapshots.write(log.producers, 45)
    disk.process_crash()
    log = open_log(disk, settings, clean=False, recovery_point=54)
    assert log.producers.get(9) is None
    assert log.log_end_offset == 60


def test_everything_written_is_there_after_the_process_is_killed():
    disk = new_disk()
    log = written_log(disk)
    disk.process_crash()
    log = reopen(disk, clean=False)
    check_whole(log)
    assert log.recovery.cut_bytes == 0
    assert log.recovery.scanned_bytes == 20 * SIZE
    assert log.recovery_point == 0
    assert log.epochs.entries == [(0, 0), (1, 21), (2, 42)]
    assert [batch.last_offset for batch in log.producers.get(9).batches] == [2, 14, 26, 38, 50]


def test_the_files_are_those_of_a_clean_stop():
    clean, killed = closed_disk(), new_disk()
    written_log(killed)
    killed.process_crash()
    reopen(killed, clean=False)
    assert files(killed) == files(clean)


def test_segments_below_the_recovery_point_are_not_scanned():
    disk = closed_disk()
    log = reopen(disk, clean=False, recovery_point=40)
    assert log.recovery.scanned_bytes == 8 * SIZE
    assert log.recovery_point == 40
    assert [batch.last_offset for batch in log.producers.get(9).batches] == [26, 38, 50]
    check_whole(log)


def test_a_recovery_point_past_the_end_is_brought_back():
    log = reopen(closed_disk(), clean=False, recovery_point=500, high_watermark=60)
    assert log.recovery_point == 60
    assert log.recovery.lost == []


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_at_the_end_that_were_synced_are_not_given_out_again(clean):
    disk = closed_disk()
    disk.remove(path(54))
    log = reopen(disk, clean=clean, recovery_point=60, high_watermark=59)
    assert log.log_end_offset == 59
    assert [(one.first_offset, one.last_offset) for one in log.recovery.lost] == [(54, 58)]
    assert [record.offset for record in read_all(log)] == list(range(54))


def test_damage_in_what_was_synced_costs_itself_after_a_crash_too():
    disk = closed_disk()
    disk.flip(path(36), SIZE + 65)
    disk.flip(path(54), SIZE + 65)  # not synced: the log ends there
    log = reopen(disk, clean=False, recovery_point=45, high_watermark=60)
    assert [(one.first_offset, one.last_offset) for one in log.recovery.lost] == [(39, 41)]
    assert [record.offset for record in read_all(log)] == [*range(39), *range(42, 57)]
    assert log.producers.get(9).batches[-1].last_offset == 50
    assert log.epochs.entries == [(0, 0), (1, 21), (2, 42)]
    assert len(kept(disk)) == 2


def test_a_first_segment_that_is_missing_is_told():
    disk = closed_disk()
    disk.remove(path(0))
    log = reopen(disk, recovery_point=60, is_start_known=True)
    assert log.log_start_offset == 18
    assert [(one.first_offset, one.last_offset) for one in log.recovery.lost] == [(0, 17)]


def test_a_start_that_only_the_checkpoint_knows_is_not_believed_after_a_clean_stop():
    disk = closed_disk()
    log = reopen(disk, log_start_offset=40, is_start_known=True)
    assert log.log_start_offset == 0
    check_whole(log)


def test_after_a_crash_it_is_believed_but_nothing_is_thrown_away():
    disk = closed_disk()
    log = reopen(disk, clean=False, log_start_offset=40, is_start_known=True)
    assert log.log_start_offset == 40
    assert log.recovery.set_aside == [0, 18]
    assert [len(data) for data in kept(disk).values()] == [6 * SIZE, 6 * SIZE]


def batch_position(number):
    """Segment and byte of one of the twenty batches."""
    return path(number // 6 * 18), number % 6 * SIZE


DAMAGES = {
    "a flipped bit in the records": lambda disk, name, at: disk.flip(name, at + SIZE - 3),
    "a flipped bit in the checksum": lambda disk, name, at: disk.flip(name, at + 18),
    "a flipped bit in the base offset": lambda disk, name, at: disk.flip(name, at + 0, 7),
    "an offset too far on": lambda disk, name, at: disk.flip(name, at + 3),
    "an older format": lambda disk, name, at: disk.flip(name, at + 16, 1),
    "a length of almost nothing": lambda disk, name, at: disk.open(name).write(at + 8, (bytes(4),)),
    "a negative length": lambda disk, name, at: disk.flip(name, at + 8, 7),
    "a length past the end": lambda disk, name, at: disk.flip(name, at + 9, 4),
    "a negative count of offsets": lambda disk, name, at: disk.flip(name, at + 23, 7),
    "an end in the middle of a batch": lambda disk, name, at: disk.open(name).truncate(at + 70),
    "an end in the middle of a header": lambda disk, name, at: disk.open(name).truncate(at + 7),
    "zeros": lambda disk, name, at: disk.open(name).write(at, (bytes(SIZE),)),
}


@pytest.mark.parametrize("number", [0, 1, 5, 6, 8, 18, 19])
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_log_is_cut_at_the_first_bad_batch(number, damage):
    disk = new_disk()
    written_log(disk)
    name, at = batch_position(number)
    left = len(disk.contents()[name]) - at
    DAMAGES[damage](disk, name, at)
    left = len(disk.contents()[name]) - at
    disk.process_crash()
    log = reopen(disk, clean=False)
    check_whole(log, end=number * 3)
    assert log.recovery.cut_bytes == left
    assert name in log.recovery.cut_reason
    assert log.recovery.removed_segments == [base for base in (18, 36, 54) if base > number * 3]
    assert log.epochs.entries == [(e, s) for e, s in [(0, 0), (1, 21), (2, 42)] if s < number * 3]
    known = log.producers.get(9)
    assert (known is None) == (number == 0)
    append(log, count=2, epoch=5)
    check_whole(log, end=number * 3 + 2)
    log.close(clean=True)
    check_whole(reopen(disk), end=number * 3 + 2)


def test_a_segment_that_is_missing_in_the_middle_ends_the_log():
    disk = new_disk()
    written_log(disk)
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(path(36, suffix))
    disk.process_crash()
    log = reopen(disk, clean=False)
    check_whole(log, end=36)
    assert log.recovery.removed_segments == [54]
    assert "offset 36 is missing" in log.recovery.cut_reason


def test_a_segment_cut_between_two_batches_ends_the_log():
    disk = new_disk()
    written_log(disk)
    disk.open(path(18)).truncate(4 * SIZE)
    disk.process_crash()
    log = reopen(disk, clean=False)
    check_whole(log, end=30)
    assert log.recovery.removed_segments == [36, 54]


def test_a_compacted_log_may_have_gaps_between_segments():
    disk = new_disk()
    written_log(disk)
    disk.open(path(18)).truncate(4 * SIZE)
    disk.process_crash()
    log = open_log(disk, config(cleanup_policy=("compact",), **SMALL), clean=False)
    offsets = [record.offset for record in read_all(log)]
    assert offsets == [*range(30), *range(36, 60)]


def test_segments_that_overlap_are_no_log_at_all():
    disk = new_disk()
    log = written_log(disk)
    data = files(disk)[f"{54:020d}.log"]
    disk.open(path(50), create=True).write(0, (data,))
    disk.process_crash()
    log = open_log(disk, config(cleanup_policy=("compact",), **SMALL), clean=False)
    check_whole(log, end=54)


def test_batches_larger_than_the_scans_window_are_checked():
    disk = new_disk()
    log = open_log(disk)
    for size in (10, SCAN_BYTES // 2 * 3, SCAN_BYTES - 80, 3 * SCAN_BYTES, 10):
        append(log, size=size)
    disk.process_crash()
    again = open_log(disk, clean=False)
    check_whole(again, end=5)
    disk.flip(path(0), len(files(disk)[f"{0:020d}.log"]) - 200)
    disk.process_crash()
    check_whole(open_log(disk, clean=False), end=3)


# Every disk call fails once


def write_and_check(disk, acknowledged):
    """A short life of a log: appends, rolls, flushes, drops and closes; notes what was acknowledged."""
    log = open_log(
        disk,
        config(index_interval_bytes=150, segment_bytes=500, flush_messages=4),
        clean=disk.exists(f"{DIRECTORY}/clean"),
        recovery_point=acknowledged["recovery_point"],
        log_start_offset=acknowledged["start"],
    )
    disk.remove(f"{DIRECTORY}/clean")
    check_acknowledged(log, acknowledged)
    for number in range(8):
        appended = append(log, count=2, timestamp=NOW + number, epoch=number // 5)
        acknowledged["end"] = appended.last_offset + 1
        if appended.flush_due:
            job = log.plan_flush(NOW)
            job.run()
            log.on_flushed(job)
            acknowledged["recovery_point"] = log.recovery_point
    acknowledged["start"] = log.log_end_offset - 9
    for name in log.advance_log_start(acknowledged["start"]):
        disk.remove(name)
    log.close(clean=True)
    acknowledged["recovery_point"] = log.recovery_point
    disk.write_file_atomically(f"{DIRECTORY}/clean", b"")


def check_acknowledged(log, acknowledged):
    assert log.log_end_offset >= acknowledged["end"]
    offsets = [record.offset for record in read_all(log)]
    assert offsets == list(range(log.log_start_offset, log.log_end_offset))
    assert log.log_start_offset == acknowledged["start"]


@pytest.mark.parametrize("seed", range(4))
def test_no_failing_disk_call_loses_or_spoils_anything(seed):
    """SQLite's method: the first call fails, then the second, and so on until none is left to fail."""
    nth = failures = 0
    while failures == nth:
        nth += 1
        disk = SimDisk(random.Random(seed))
        disk.make_dir(DIRECTORY)
        acknowledged = {"end": 0, "start": 0, "recovery_point": 0}
        write_and_check(disk, acknowledged)
        disk.fail_call(nth)
        try:
            write_and_check(disk, acknowledged)
        except OSError:
            failures += 1
        disk.heal()
        disk.process_crash()
        write_and_check(disk, acknowledged)
    assert failures > 100


@pytest.mark.parametrize("seed", range(4))
def test_a_failing_disk_call_and_then_going_on(seed):
    """The same log object after the failure: either it goes on and is right, or it says that it is broken."""
    settings = config(index_interval_bytes=100, segment_bytes=400)
    broken = nth = 0
    failed = True
    while failed:
        nth += 1
        failed = False
        disk = SimDisk(random.Random(seed * 1000 + nth))
        disk.make_dir(DIRECTORY)
        log = open_log(disk, settings)
        disk.fail_call(nth)
        acknowledged = []
        for number in range(25):
            batch = batch_of(2, timestamp=NOW + number, producer=Producer(5, 0, number * 2))
            try:
                acknowledged.append(append(log, batch, epoch=number // 8).base_offset)
            except OSError:
                failed = True
                batch = batch_of(2, timestamp=NOW + number, producer=Producer(5, 0, number * 2))
                try:  # the client tries again
                    acknowledged.append(append(log, batch, epoch=number // 8).base_offset)
                except OSError:
                    broken += 1
                    break
        disk.heal()
        check_whole(log, end=2 * len(acknowledged))
        disk.process_crash()
        again = open_log(disk, settings, clean=False)
        assert again.log_end_offset in (2 * len(acknowledged), 2 * len(acknowledged) + 2)
        check_whole(again, end=again.log_end_offset)
    assert nth > 30


# Power is lost


@pytest.mark.parametrize("seed", range(150))
def test_losing_power_keeps_what_was_flushed_and_a_beginning_of_the_rest(seed):
    rng = random.Random(seed)
    disk = SimDisk(rng)
    disk.make_dir(DIRECTORY)
    settings = config(
        index_interval_bytes=rng.choice([0, 100, 1000]),
        segment_bytes=rng.choice([300, 1000, 10**6]),
        flush_messages=rng.choice([1, 7, 10**9]),
    )
    recovery_point = 0
    for _ in range(3):
        log = open_log(disk, settings, clean=False, recovery_point=recovery_point)
        offsets = [record.offset for record in read_all(log)]
        assert offsets == list(range(log.log_end_offset))
        assert log.log_end_offset >= recovery_point
        for number in range(rng.randrange(30)):
            epoch = log.epochs.latest + (rng.random() < 0.2)
            appended = append(
                log, count=rng.randint(1, 4), timestamp=NOW + number, epoch=max(0, epoch)
            )
            if appended.flush_due and rng.random() < 0.8:
                job = log.plan_flush(NOW)
                job.run()
                log.on_flushed(job)
        recovery_point = log.recovery_point
        disk.crash()


def test_a_log_needs_its_folder():
    disk = SimDisk(random.Random(1))
    with pytest.raises(FileNotFoundError):
        Log.open(disk, DIRECTORY, config(), now_ms=NOW, clean=True)


def test_a_segment_under_the_name_of_an_earlier_one_is_not_served():
    disk = closed_disk()
    for suffix in (".log", ".index", ".timeindex"):
        disk.rename(path(18, suffix), path(100, suffix))
        disk.rename(path(36, suffix), path(18, suffix))
        disk.rename(path(100, suffix), path(36, suffix))
    for suffix in (".index", ".timeindex"):
        disk.remove(path(18, suffix))
        disk.remove(path(36, suffix))
    log = reopen(disk)
    assert [record.offset for record in read_all(log)] == [*range(18), *range(54, 60)]
    lost = [(one.first_offset, one.last_offset) for one in log.recovery.lost]
    assert lost == [(18, 35), (36, 53)]
