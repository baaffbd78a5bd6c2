"""A crash at every disk call of a compaction, of its way to a full disk, and of the openings after it.

Whatever older cleanings have left in the folder: of every key, what was acknowledged last is there.
"""

import contextlib
import copy
import errno
import functools
import random

import pytest
from cleaner_kit import LIMITS, compacted, put, state_of
from log_kit import DIRECTORY, NOW, files, open_log

from barnabas.sim.machine import MachineDisk, ProcessKilled
from barnabas.storage.cleaner import Cleaning
from barnabas.storage.cleaning_plan import measure, plan
from barnabas.wire.batch import TRANSACTIONAL, Producer, headers, read_records
from barnabas.wire.control_batch import EndMarker, read_marker

SETTINGS = compacted(segment_bytes=400, delete_retention_ms=0)
LARGER = compacted(segment_bytes=2000, delete_retention_ms=0)
FILES = (".log", ".index", ".timeindex", ".txnindex")


@functools.cache
def template():
    """Closed segments with keys that come again, aborted transactions, and later committed ones of the same producers."""
    disk = MachineDisk(random.Random(1))
    disk.make_dir(DIRECTORY)
    log = open_log(disk, SETTINGS)
    for number in range(9):
        put(log, [(b"a", b"%d" % number), (b"k%d" % number, b"v" * 20)])
        producer = Producer(number % 3, 0, number // 3 * 2)
        pairs = [(b"t%d" % (number % 3), b"%d" % number), (b"u%d" % number, b"w")]
        put(log, pairs, producer=producer, attributes=TRANSACTIONAL)
        marker = EndMarker(commit=number % 2 == 1, coordinator_epoch=0)
        log.append_marker(marker, producer.id, 0, 0, NOW)
    log.roll(NOW)
    log.close(clean=True)
    return disk


def new_log(seed):
    disk = copy.deepcopy(template())
    disk.rng = random.Random(seed)
    log = open_log(disk, LARGER)  # several segments become one
    assert log.segment_count > 5
    return disk, log


def committed_state(log):
    """What a consumer of committed records knows at the end of the log: it goes by the list of aborted transactions."""
    found, offset, skipped = [], log.log_start_offset, set()
    while (
        slice_ := log.read(
            offset, 1 << 30, end_offset=log.log_end_offset, min_one=True, nowait=False
        )
    ) is not None:
        entries = sorted(log.aborted_transactions(offset, slice_, nowait=False))
        data = memoryview(slice_.read())
        for position, header in headers(data):
            batch = data[position : position + header.size]
            while entries and entries[0].first_offset <= header.last_offset:
                skipped.add(entries.pop(0).producer_id)
            if header.is_control:
                marker = read_marker(batch) if header.record_count else None
                if marker is not None and not marker.commit:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                found += [one for one in read_records(batch, 1 << 20) if one.offset >= offset]
            offset = header.next_offset
    return state_of(found)


def plant(disk, base):
    """Leave what a cleaner leaves that died while it wrote."""
    for suffix in FILES[:3]:
        path = f"{DIRECTORY}/{base:020d}{suffix}.cleaned"
        if not disk.exists(path):
            disk.open(path, create=True).write(0, (b"half a batch",))


def compact(disk, log, stale, *, late):
    """As a broker does it; with `late` a cleaner that died before leaves its files only now, beside a swap."""
    dirtiness = measure(log, None, log.log_end_offset, NOW)
    cleaning = Cleaning(disk, plan(log, dirtiness, LIMITS, NOW))
    cleaning.build_map()
    for cleaned in cleaning.segments():
        for base in stale if late else ():
            if base != cleaned.base_offset:
                plant(disk, base)
        job = log.plan_swap(cleaned, NOW)
        job.run()
        for path in log.on_swapped(job):
            disk.remove(path)
    return cleaning.stats


def die(disk, *, power):
    disk.spare()
    (disk.crash if power else disk.process_crash)()


def open_again(disk, end_offset):
    return open_log(disk, LARGER, clean=False, recovery_point=end_offset, was_compacted=True)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_every_call_and_again_while_the_log_is_opened(power, late):
    nth, is_done = 0, False
    while not is_done:
        nth += 1
        disk, log = new_log(nth)
        expected, end_offset, bases = committed_state(log), log.log_end_offset, log.base_offsets
        stale = (bases[nth % 3], bases[-2], bases[nth % len(bases)] + 1)
        for base in stale:
            plant(disk, base)
        disk.kill_at_call(nth, lambda: None)
        with contextlib.suppress(ProcessKilled):
            compact(disk, log, stale, late=late)
            is_done = True
        die(disk, power=power)
        for again in range(1 + nth % 29, 1000, 29):
            disk.kill_at_call(again, lambda: None)
            try:
                log = open_again(disk, end_offset)
                break
            except ProcessKilled:
                die(disk, power=power)
        disk.spare()
        assert committed_state(log) == expected, (nth, sorted(files(disk)))
        assert log.log_end_offset == end_offset
        assert not [name for name in files(disk) if name.endswith((".cleaned", ".swap"))]
    assert nth > 100


@pytest.mark.parametrize("power", [False, True])
def test_a_call_that_fails_and_then_a_crash(power):
    nth, is_done = 0, False
    while not is_done:
        nth += 1
        disk, log = new_log(nth)
        expected, end_offset, bases = committed_state(log), log.log_end_offset, log.base_offsets
        disk.fail_call(nth)
        with contextlib.suppress(OSError):
            compact(disk, log, bases[:2], late=True)
            is_done = disk.calls < disk._fail_at
        die(disk, power=power)
        disk.heal()
        log = open_again(disk, end_offset)
        assert committed_state(log) == expected, (nth, sorted(files(disk)))
        compact(disk, log, (), late=False)
        assert committed_state(log) == expected
        assert not [name for name in files(disk) if name.endswith((".cleaned", ".swap"))]
    assert nth > 100


@pytest.mark.parametrize("power", [False, True])
def test_a_disk_that_is_full_during_a_cleaning(power):
    """However much room is left: the log goes on, and a crash at any time after that loses nothing."""
    outcomes = set()
    for room in range(0, 6000, 97):
        disk, log = new_log(room)
        expected, end_offset = committed_state(log), log.log_end_offset
        disk.capacity_bytes = disk.used_bytes + room
        try:
            compact(disk, log, (), late=False)
            outcomes.add("done")
        except OSError as problem:
            outcomes.add(problem.errno)
            assert not log.is_broken
        assert committed_state(log) == expected
        disk.capacity_bytes = 1 << 40
        if room % 2:
            disk.kill_at_call(10 + room % 90, lambda: None)
            with contextlib.suppress(ProcessKilled):
                compact(disk, log, (), late=False)
        die(disk, power=power)
        assert committed_state(open_again(disk, end_offset)) == expected, room
    assert outcomes == {"done", errno.ENOSPC}


def test_a_swap_that_is_taken_back_and_a_crash_on_the_way():
    taken_back = 0
    for nth in range(1, 25):
        for later in range(1, 12):
            disk, log = new_log(nth)
            expected, end_offset = committed_state(log), log.log_end_offset
            cleaning = Cleaning(disk, plan(log, measure(log, None, end_offset, NOW), LIMITS, NOW))
            cleaning.build_map()
            job = log.plan_swap(next(cleaning.segments()), NOW)
            disk.fail_call(nth)
            disk.kill_at_call(nth + later, lambda: None)
            with contextlib.suppress(ProcessKilled):
                job.run()
                taken_back += not job.committed
            die(disk, power=True)
            assert committed_state(open_again(disk, end_offset)) == expected, (nth, later)
    assert taken_back > 10
