"""A follower's log: the leader's batches as they are, in files that are the same."""

import errno

import pytest
from log_kit import (
    NOW,
    append,
    batch_of,
    config,
    files,
    new_disk,
    open_log,
    read,
    read_all,
)

from barnabas.storage.segment import MAX_RELATIVE_OFFSET
from barnabas.wire.batch import BatchError, Producer, Record, build, read_header, stamp
from barnabas.wire.control_batch import EndMarker

SMALL = config(segment_bytes=600, index_interval_bytes=100)


def fill(log, batches=30):
    """Records with and without producers, transactions of both ends, and several epochs."""
    for number in range(batches):
        epoch = number // 10
        if number % 5 == 4:
            marker = EndMarker(commit=number % 2 == 0, coordinator_epoch=1)
            log.append_marker(marker, 7, 0, epoch, NOW + number)
        elif number % 5 == 3:
            write_transactional(log, number // 5, epoch)
        else:
            append(log, epoch=epoch, count=1 + number % 3, timestamp=NOW + number * 7 % 50)


def write_transactional(log, sequence, epoch):
    records = [Record(0, NOW, None, b"in a transaction")]
    batch = memoryview(build(records, attributes=0x10, producer=Producer(7, 0, sequence)))
    log.append(batch, read_header(batch), epoch, NOW)


def pull(follower, leader, max_bytes=400):
    """Fetch as a follower does, until there is no more."""
    while (found := read(leader, follower.log_end_offset, max_bytes)) is not None:
        follower.append_as_follower(memoryview(found.read()), NOW)


def aborted_in(log):
    """What readers of each segment are told."""
    return [
        one
        for base_offset in log.base_offsets
        if (found := read(log, base_offset)) is not None
        for one in log.aborted_transactions(base_offset, found, nowait=False)
    ]


@pytest.mark.parametrize("max_bytes", [1, 150, 400, 1 << 20])
def test_the_files_of_a_follower_are_those_of_its_leader(max_bytes):
    disks = [new_disk(1), new_disk(2)]
    leader, follower = (open_log(disk, SMALL) for disk in disks)
    fill(leader)
    pull(follower, leader, max_bytes)
    for log in (leader, follower):
        log.close(clean=True)
    assert files(disks[1]) == files(disks[0])


def test_a_follower_knows_what_its_leader_knows():
    leader, follower = open_log(new_disk(1), SMALL), open_log(new_disk(2), SMALL)
    fill(leader)
    pull(follower, leader)
    assert read_all(follower) == read_all(leader)
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.log_end_offset == leader.log_end_offset
    high_watermark = leader.log_end_offset
    assert follower.producers.transactions.first_unstable(
        high_watermark
    ) == leader.producers.transactions.first_unstable(high_watermark)
    assert aborted_in(follower) == aborted_in(leader) != []
    assert follower.max_timestamp() == leader.max_timestamp()
    assert follower.offset_for_timestamp(NOW + 30) == leader.offset_for_timestamp(NOW + 30)
    assert follower.producers.get(7).next_sequence == leader.producers.get(7).next_sequence


def test_one_write_takes_many_batches():
    disk = new_disk()
    leader, follower = open_log(new_disk(2)), open_log(disk)
    for _ in range(50):
        append(leader)
    data = memoryview(read(leader, 0).read())
    follower.append_as_follower(data[: len(data) // 50], NOW)
    before = disk.calls
    follower.append_as_follower(data[len(data) // 50 :], NOW)
    assert disk.calls == before + 1


def test_a_flush_is_due_as_for_a_leader():
    leader, follower = open_log(new_disk(1)), open_log(new_disk(2), config(flush_messages=3))
    append(leader, count=2)
    data = memoryview(read(leader, 0).read())
    assert follower.append_as_follower(data, NOW) is False
    append(leader)
    assert follower.append_as_follower(memoryview(read(leader, 2).read()), NOW) is True


def at_offset(base_offset, count=1, epoch=0):
    batch = bytearray(batch_of(count))
    stamp(memoryview(batch), base_offset, epoch)
    return memoryview(batch)


@pytest.mark.parametrize("at_once", [True, False])
def test_offsets_that_the_leader_compacted_away_are_no_damage(at_once):
    disk = new_disk()
    log = open_log(disk)
    batches = [at_offset(base_offset) for base_offset in (0, 10, 11, 50)]
    for records in [memoryview(b"".join(batches))] if at_once else batches:
        log.append_as_follower(records, NOW)
    assert [one.offset for one in read_all(log)] == [0, 10, 11, 50]
    assert log.log_end_offset == 51
    log.close(clean=True)
    again = open_log(disk, config(cleanup_policy="compact"), recovery_point=51)
    assert [one.offset for one in read_all(again)] == [0, 10, 11, 50]


@pytest.mark.parametrize("has_records", [True, False])
def test_a_batch_too_far_ahead_for_a_segment_begins_a_new_one(has_records):
    disk, compact = new_disk(), config(cleanup_policy="compact")
    log = open_log(disk, compact)
    if has_records:
        log.append_as_follower(at_offset(0), NOW)
    far = MAX_RELATIVE_OFFSET + 1000
    log.append_as_follower(at_offset(far, 2), NOW)
    assert log.base_offsets == [0, far + 1 - MAX_RELATIVE_OFFSET]
    offsets = [0, far, far + 1] if has_records else [far, far + 1]
    assert [one.offset for one in read_all(log)] == offsets
    log.close(clean=True)
    again = open_log(disk, compact, clean=False, recovery_point=0)
    assert [one.offset for one in read_all(again)] == offsets


def test_a_log_without_records_may_begin_in_the_middle_of_a_batch():
    disk = new_disk()
    log = open_log(disk, log_start_offset=105)
    log.append_as_follower(at_offset(100, 10), NOW)
    assert (log.log_start_offset, log.log_end_offset, log.base_offsets) == (100, 110, [100])
    log.advance_log_start(105)
    log.close(clean=True)
    again = open_log(disk, recovery_point=110, log_start_offset=105)
    assert [one.offset for one in read_all(again)] == [105, 106, 107, 108, 109]


def test_a_log_with_records_takes_no_batch_that_overlaps():
    log = open_log(new_disk())
    log.append_as_follower(at_offset(0, 5), NOW)
    with pytest.raises(BatchError):
        log.append_as_follower(at_offset(3, 5), NOW)
    assert log.log_end_offset == 5


def test_a_batch_without_an_epoch_begins_none():
    log = open_log(new_disk())
    log.append_as_follower(at_offset(0, epoch=-1), NOW)
    assert log.epochs.entries == []


def test_what_cannot_be_written_is_fetched_again():
    """Fail the Nth disk call of an answer with rolls, epochs and markers; then fetch from where the log ends."""
    leader = open_log(new_disk(1), SMALL)
    fill(leader)
    calls = 0
    while True:
        disk = new_disk(2)
        follower = open_log(disk, SMALL)
        disk.fail_call(calls + 1, errno.ENOSPC)
        try:
            pull(follower, leader, 1000)
        except OSError:
            disk.heal()
            if not follower.is_broken:
                pull(follower, leader, 1000)
                assert read_all(follower) == read_all(leader)
                assert follower.epochs.entries == leader.epochs.entries
            follower.close(clean=False)
            again = open_log(disk, SMALL, clean=False)
            pull(again, leader)
            assert read_all(again) == read_all(leader)
            assert again.epochs.entries == leader.epochs.entries
            assert aborted_in(again) == aborted_in(leader)
            calls += 1
            continue
        break
    assert calls > 20
