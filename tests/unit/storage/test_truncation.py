"""Cutting records off the end of a log, with every disk call failing and a crash at every moment."""

import errno
from contextlib import suppress

import pytest
from log_kit import (
    NOW,
    append,
    batch_of,
    config,
    files,
    new_disk,
    offsets_in,
    open_log,
    read,
    read_all,
)

from barnabas.storage.broken_log import BeingCutError, BrokenLogError
from barnabas.storage.cleaned_segment import CleanedSegment
from barnabas.wire.batch import Producer, Record, build, read_header, stamp
from barnabas.wire.control_batch import EndMarker

SMALL = config(segment_bytes=600, index_interval_bytes=100)


def step(log, number):
    """Write one batch, the same for the same number: plain, idempotent, transactional, or a marker."""
    epoch = number // 12
    if number % 6 == 5:
        marker = EndMarker(commit=number % 4 == 1, coordinator_epoch=1)
        log.append_marker(marker, 7, 0, epoch, NOW + number)
    elif number % 6 == 4:
        records = [Record(0, NOW + number, None, b"in a transaction")]
        batch = memoryview(build(records, attributes=0x10, producer=Producer(7, 0, number // 6)))
        log.append(batch, read_header(batch), epoch, NOW)
    elif number % 6 == 3:
        append(log, batch_of(producer=Producer(8, 0, number // 6)), epoch=epoch)
    else:
        append(log, epoch=epoch, count=1 + number % 3, timestamp=NOW + number * 7 % 50)


def filled(disk, steps=40, settings=SMALL):
    """Return the log, and where it ended after each step."""
    log = open_log(disk, settings)
    ends = [0]
    for number in range(steps):
        step(log, number)
        ends.append(log.log_end_offset)
    return log, ends


def flush(log, *, everything=True):
    job = log.plan_flush(NOW, everything=everything)
    job.run()
    log.on_flushed(job)


def producers_of(log):
    return {
        one.producer_id: (one.producer_epoch, one.next_sequence, one.current_txn_first_offset)
        for one in log.producers
    }


def view(log):
    """All that a log tells."""
    return (
        read_all(log),
        log.log_end_offset,
        log.epochs.entries,
        log.max_timestamp(),
        log.offset_for_timestamp(NOW + 40),
        log.producers.transactions.first_unstable(log.log_end_offset),
        [
            one
            for base_offset in log.base_offsets
            if (found := read(log, base_offset)) is not None
            for one in log.aborted_transactions(base_offset, found, nowait=False)
        ],
    )


def test_a_log_that_was_cut_is_as_if_the_rest_had_never_been():
    """Cut after each step: everything that it tells, and all that it writes from then on, is the same."""
    _, ends = filled(new_disk())
    for number, end in enumerate(ends):
        disk, straight_disk = new_disk(1), new_disk(2)
        log, _ = filled(disk)
        straight, _ = filled(straight_disk, number)
        log.truncate_to(end, NOW)
        assert view(log) == view(straight)
        assert producers_of(log) == producers_of(straight)
        for following in range(number, 45):
            step(log, following)
            step(straight, following)
        assert view(log) == view(straight)
        log.close(clean=True)
        straight.close(clean=True)
        again = open_log(disk, SMALL, recovery_point=log.recovery_point)
        assert view(again) == view(straight)
        assert producers_of(again) == producers_of(straight)


def test_the_files_of_what_was_cut_off_are_put_aside():
    disk = new_disk()
    log, ends = filled(disk)
    bases = log.base_offsets
    aside = log.truncate_to(bases[1], NOW)
    assert log.base_offsets == bases[:2]
    assert all(disk.exists(path) for path in aside)
    names = [name for name in files(disk) if not name.endswith(".deleted")]
    assert all(f"{base:020d}.log" not in names for base in bases[2:])
    assert f"{ends[-1]:020d}.snapshot" not in names


def test_a_cut_in_the_middle_of_a_batch_takes_all_of_it():
    log = open_log(new_disk())
    append(log, count=5)
    append(log, count=5)
    log.truncate_to(7, NOW)
    assert log.log_end_offset == 5
    assert offsets_in(read(log, 0)) == [0]


def test_a_cut_at_the_end_takes_an_epoch_without_records():
    """The leader that it was had begun an epoch, and another's records go there now."""
    disk = new_disk()
    log = open_log(disk)
    append(log, epoch=1)
    log.assign_epoch(5)
    assert log.plan_truncation(1, NOW) is None
    assert log.epochs.latest == 1
    assert log.plan_truncation(9, NOW) is None
    assert log.log_end_offset == 1
    log.close(clean=True)
    assert open_log(disk, recovery_point=1).epochs.latest == 1


def test_readers_see_the_new_end_before_the_files_follow():
    log, ends = filled(new_disk())
    end = ends[10]
    job = log.plan_truncation(end, NOW)
    assert [one.offset for one in read_all(log)] == list(range(end))
    assert log.recovery_point <= end
    with pytest.raises(BeingCutError):
        append(log)
    with pytest.raises(BeingCutError):
        log.plan_flush(NOW, everything=True)
    assert not log.flush_due(NOW + 10**9)
    with pytest.raises(BeingCutError):
        log.close(clean=True)
    job.run()
    log.on_truncated(job)
    append(log)
    assert log.log_end_offset == end + 1


def leaders_batch(log):
    batch = memoryview(batch_of())
    stamp(batch, log.log_end_offset, 9)
    return batch


def batch_below(log):
    """One with which an empty log would begin at a lower offset."""
    batch = memoryview(batch_of(count=20))
    stamp(batch, log.log_end_offset - 10, 9)
    return batch


#: Whatever writes files of a log, or changes its segments, epochs, producers or start.
CHANGES = {
    "roll": lambda log: log.roll(NOW),
    "append": append,
    "append a marker": lambda log: log.append_marker(EndMarker(True, 1), 7, 0, 9, NOW),
    "append as follower": lambda log: log.append_as_follower(leaders_batch(log), NOW),
    "assign an epoch": lambda log: log.assign_epoch(99),
    "move the start": lambda log: log.move_log_start(1),
    "cut": lambda log: log.plan_truncation(1, NOW),
    "start over": lambda log: log.plan_start_over(1, NOW),
    "swap": lambda log: log.plan_swap(CleanedSegment(0, 0, (0,)), NOW),
    "relocate": lambda log: log.relocate("/elsewhere", log.segments),
    "close": lambda log: log.close(clean=True),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("plan", ["plan_truncation", "plan_start_over"])
def test_a_log_that_is_being_cut_refuses_every_other_change(plan, change):
    disk = new_disk()
    log, ends = filled(disk)
    job = getattr(log, plan)(ends[20], NOW)
    assert log.is_being_cut
    before = view(log), producers_of(log), log.base_offsets, files(disk), log.log_start_offset
    with pytest.raises(BeingCutError):
        CHANGES[change](log)
    assert before == (view(log), producers_of(log), log.base_offsets, files(disk), log.log_start_offset)  # fmt: skip
    assert not log.is_broken
    job.run()
    log.on_truncated(job)
    assert not log.is_being_cut
    append(log, epoch=9)


def test_an_empty_log_that_is_being_cut_does_not_begin_lower():
    log = open_log(new_disk(), log_start_offset=100)
    log.plan_start_over(50, NOW)
    with pytest.raises(BeingCutError):
        log.append_as_follower(batch_below(log), NOW)
    assert log.base_offsets == [100]


def test_several_batches_at_once_are_refused_by_a_log_that_is_being_cut():
    log, ends = filled(new_disk())
    log.plan_truncation(ends[20], NOW)
    run = [(memoryview(batch_of()), read_header(batch_of())) for _ in range(2)]
    assert log.append_run(run, 9) is None, "one by one, and each of them is refused"


def test_segments_before_the_start_go_once_the_cut_has_ended():
    log, ends = filled(new_disk())
    bases = log.base_offsets
    log.move_log_start(bases[2])
    job = log.plan_truncation(ends[30], NOW)
    assert log.plan_drop() is None
    assert log.base_offsets[:3] == bases[:3]
    job.run()
    log.on_truncated(job)
    assert log.plan_drop() is not None
    assert log.base_offsets[0] == bases[2]


def test_producers_of_before_the_cut_do_not_come_back_by_a_new_segment():
    """Its snapshot would hold them: a good resend of what was cut off is then refused, or taken for a duplicate."""
    log = open_log(new_disk())
    for number in range(10):
        append(log, batch_of(producer=Producer(7, 0, number)))
    job = log.plan_truncation(5, NOW)
    with suppress(BeingCutError):
        log.roll(NOW)
    job.run()
    log.on_truncated(job)
    resent = read_header(batch_of(producer=Producer(7, 0, 5)))
    assert log.check_producer(resent) is None


def test_a_flush_that_was_under_way_does_not_move_the_recovery_point():
    log, ends = filled(new_disk())
    job = log.plan_flush(NOW, everything=True)
    log.truncate_to(ends[5], NOW)
    job.run()
    log.on_flushed(job)
    assert log.recovery_point <= ends[5]
    append(log)
    flush(log)
    assert log.recovery_point == log.log_end_offset


def test_a_cut_before_the_first_segment_starts_over():
    disk = new_disk()
    log = open_log(disk, log_start_offset=100)
    append(log, count=3)
    log.truncate_to(40, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.base_offsets) == (40, 40, [40])


@pytest.mark.parametrize("offset", [0, 3, 500])
def test_starting_over_leaves_nothing_of_the_old_log(offset):
    disk = new_disk()
    log, _ = filled(disk)
    job = log.plan_start_over(offset, NOW)
    assert read_all(log), "readers see the old log until it is done"
    job.run()
    assert read_all(log)
    log.on_truncated(job)
    assert read_all(log) == []
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (offset,) * 3
    assert log.epochs.entries == []
    assert len(log.producers) == 0
    append(log, epoch=9)
    log.close(clean=True)
    again = open_log(disk, SMALL, recovery_point=offset + 1, log_start_offset=offset)
    assert [one.offset for one in read_all(again)] == [offset]
    assert len(again.producers) == 0
    assert [entry.epoch for entry in again.epochs.entries] == [9]


def check_prefix(again, records, end):
    """What was opened after something went wrong: a beginning of the old log, with everything below the cut."""
    found = read_all(again)
    assert found == records[: len(found)]
    assert again.log_end_offset >= end
    assert again.log_end_offset == (found[-1].offset + 1 if found else 0)


@pytest.mark.parametrize("cut_at", [3, 17, 30])
def test_when_a_disk_call_fails_the_next_start_finds_everything_below_the_cut(cut_at):
    calls = 0
    while True:
        disk = new_disk()
        log, ends = filled(disk)
        records, end = read_all(log), ends[cut_at]
        disk.fail_call(calls + 1, errno.EIO)
        try:
            log.truncate_to(end, NOW)
        except OSError:
            disk.heal()
            point = log.recovery_point
            if log.is_broken:
                with pytest.raises(BrokenLogError):
                    append(log)
            log.close(clean=False)
            again = open_log(disk, SMALL, clean=False, recovery_point=point)
            check_prefix(again, records, end)
            again.truncate_to(end, NOW)
            assert read_all(again) == records[:end]
            calls += 1
            continue
        break
    assert calls >= 5


@pytest.mark.parametrize("everything", [True, False])
def test_a_crash_in_a_cut_leaves_a_beginning_of_the_log_with_everything_below_it(everything):
    for seed in range(60):
        disk = new_disk(seed)
        log, ends = filled(disk)
        records, end = read_all(log), ends[5 + seed % 30]
        flush(log, everything=everything)
        before = log.recovery_point
        disk.fail_call(1 + seed % 25, errno.EIO)
        with suppress(OSError):
            log.truncate_to(end, NOW)
        disk.heal()
        disk.crash()
        again = open_log(disk, SMALL, clean=False, recovery_point=min(before, end))
        check_prefix(again, records, min(before, end))
        again.truncate_to(min(end, again.log_end_offset), NOW)
        append(again, epoch=9)
        assert again.epochs.latest == 9


def test_after_a_crash_nothing_of_what_was_cut_off_comes_back_among_new_records():
    for seed in range(40):
        disk = new_disk(seed)
        log, ends = filled(disk)
        flush(log)
        end = ends[5 + seed % 30]
        kept = read_all(log)[:end]
        log.truncate_to(end, NOW)
        point = log.recovery_point
        for _ in range(30):
            append(log, epoch=9, count=2, size=3)
        new = read_all(log)
        disk.crash()
        again = open_log(disk, SMALL, clean=False, recovery_point=point)
        found = read_all(again)
        assert found == new[: len(found)]
        assert found[:end] == kept


@pytest.mark.parametrize("offset", [0, 1000])
def test_a_crash_while_starting_over_leaves_a_beginning_of_the_old_log_or_the_new_one(offset):
    for seed in range(40):
        disk = new_disk(seed)
        log, _ = filled(disk)
        flush(log)
        records = read_all(log)
        job = log.plan_start_over(offset, NOW)
        point = log.recovery_point
        disk.fail_call(1 + seed, errno.EIO)
        job.run()
        disk.heal()
        disk.crash()
        again = open_log(disk, SMALL, clean=False, recovery_point=point)
        found = read_all(again)
        assert found == records[: len(found)]
        assert found or again.log_end_offset in (0, offset)


@pytest.mark.parametrize("starts_over", [False, True])
def test_nothing_is_dropped_from_the_start_while_the_end_is_cut(starts_over):
    """Retention works beside it, with no delay: at any call it would take files that the cut reads or puts aside."""
    nth, is_met = 0, [None]
    while is_met:
        nth += 1
        disk = new_disk()
        log, ends = filled(disk, steps=24)
        for name in files(disk):
            if name.endswith(".snapshot"):
                disk.remove(f"{log.directory}/{name}")  # so that it reads from the start on
        bases = log.base_offsets
        log.move_log_start(bases[2])
        is_met = []

        def drop(disk=disk, log=log, is_met=is_met):
            is_met.append(None)
            job = log.plan_drop()
            for path in job.run() if job is not None else ():
                disk.remove(path)

        end = ends[-5]
        job = log.plan_start_over(900, NOW) if starts_over else log.plan_truncation(end, NOW)
        disk.at_call(nth, drop)
        job.run()
        disk.at_call(0, drop)
        log.on_truncated(job)
        assert not log.is_broken
        if not starts_over:
            drop()
            assert log.base_offsets[0] == bases[2]
            del is_met[-1]
    assert nth > 8
