"""Compaction of a whole log: what stays, what goes, and what the batches that stay look like."""

import errno
import random

import pytest
from cleaner_kit import LIMITS, batch_headers, compact, compacted, offsets, put, state_of, swap_in
from log_kit import DIRECTORY, NOW, append, files, new_disk, open_log, read_all

from barnabas.storage import cleaned_segment
from barnabas.storage.cleaner import Cleaning
from barnabas.storage.cleaning_plan import CleanerLimits, measure, plan
from barnabas.storage.transaction_index import AbortedTransaction, decode_index, encode_index
from barnabas.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchError,
    Producer,
    Record,
    build,
    read_header,
)
from barnabas.wire.compression import Codec

DAY = 86_400_000
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def log_of(batches, disk=None, **settings):
    """A log of batches of (key, value) pairs, closed behind the last one."""
    disk = disk or new_disk()
    log = open_log(disk, compacted(**settings))
    for pairs in batches:
        put(log, pairs)
    log.roll(NOW)
    return disk, log


def random_batches(seed, count=60, keys=20):
    chance = random.Random(seed)
    return [
        [
            (b"key-%d" % chance.randrange(keys), chance.choice([None, b"v%d" % number * 5]))
            for _ in range(chance.randint(1, 5))
        ]
        for number in range(count)
    ]


def test_the_last_record_of_each_key_stays_where_it_was():
    disk, log = log_of([[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")], [(b"c", b"1"), (b"a", b"3")]])
    compact(disk, log)
    assert [(one.offset, one.key, one.value) for one in read_all(log)] == [
        (1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3"),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("seed", range(3))
def test_batches_keep_their_offsets_timestamps_and_codec(codec, seed):
    disk = new_disk()
    log = open_log(disk, compacted())
    for pairs in random_batches(seed):
        put(log, [(key, value or b"") for key, value in pairs], codec=codec)
    log.roll(NOW)
    before = {header.base_offset: header for header in batch_headers(log)}
    expected = {}
    for record in read_all(log):
        expected[record.key] = record
    compact(disk, log)
    assert read_all(log) == sorted(expected.values())
    for header in batch_headers(log):
        old = before[header.base_offset]
        assert header.last_offset == old.last_offset
        if header.record_count:
            assert header.codec == codec
            assert header.max_timestamp == max(
                one.timestamp
                for one in expected.values()
                if header.base_offset <= one.offset <= header.last_offset
            )


def test_a_batch_that_stays_whole_is_not_touched():
    disk, log = log_of([[(b"a", b"1"), (b"b", b"1")], [(b"c", b"1")]])
    before = log.closed_segments[0].log.read(0, 1 << 20)
    compact(disk, log)
    assert log.closed_segments[0].log.read(0, 1 << 20) == before


def test_indexes_are_those_of_the_same_batches_appended():
    disk, log = log_of(random_batches(1, count=200))
    compact(disk, log)
    log.close(clean=True)
    built = {name: data for name, data in files(disk).items() if name.endswith("index")}
    for name in built:
        disk.remove(f"{DIRECTORY}/{name}")
    again = open_log(disk, compacted())
    assert again.recovery.rebuilt_indexes
    assert {name: data for name, data in files(disk).items() if name.endswith("index")} == built


def test_small_segments_become_one_up_to_segment_bytes():
    disk, log = log_of(random_batches(2, count=200), segment_bytes=1500)
    compact(disk, log)
    sizes = [segment.size for segment in log.closed_segments]
    compact(disk, log)
    again = [segment.size for segment in log.closed_segments]
    assert len(again) < len(sizes)
    assert max(again) <= 1500
    assert state_of(read_all(log))


def test_segments_whose_indexes_would_not_fit_stay_apart():
    disk, log = log_of(random_batches(2), segment_bytes=500)
    log.configure(compacted(segment_bytes=10**6, segment_index_bytes=40))
    compact(disk, log)
    assert all(len(segment.offset_index) <= 5 for segment in log.closed_segments)
    assert len(log.closed_segments) > 1


def test_a_new_segment_ends_where_the_old_ones_did():
    disk, log = log_of(
        [[(b"a", b"1")], [(b"b", b"1")], [(b"b", b"2")], [(b"a", b"2")]], segment_bytes=150
    )
    log.configure(compacted(segment_bytes=170))
    before = log.closed_segments[-1].base_offset
    compact(disk, log, stable_offset=before)
    ends = [header.next_offset for header in batch_headers(log)]
    assert before in ends
    log.close(clean=False)
    # Without the policy a gap between segments would be taken for a loss.
    again = open_log(disk, None, clean=False)
    assert again.log_end_offset == 4


def test_the_active_segment_and_what_follows_the_stable_offset_stay():
    disk, log = log_of([[(b"a", b"1")], [(b"a", b"2")]], segment_bytes=60)
    put(log, [(b"a", b"3")])
    stable = log.closed_segments[-1].base_offset
    compact(disk, log, stable_offset=stable)
    assert offsets(log)[-2:] == [1, 2]


# Tombstones


def horizon_of(log):
    return [h.base_timestamp for h in batch_headers(log) if h.attributes & DELETE_HORIZON]


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_first_seen():
    disk, log = log_of([[(b"a", b"1")], [(b"b", b"1"), (b"a", None)]], delete_retention_ms=DAY)
    clean = compact(disk, log, now_ms=NOW).stats.clean_offset
    assert [(one.key, one.value, one.timestamp) for one in read_all(log)] == [
        (b"b", b"1", NOW), (b"a", None, NOW + 1),
    ]  # fmt: skip
    assert horizon_of(log) == [NOW + DAY]
    for now_ms, left in ((NOW + DAY - 1, [1, 2]), (NOW + DAY, [1])):
        put(log, [(b"z%d" % now_ms, b"1")])
        log.roll(NOW)
        clean = compact(disk, log, clean_offset=clean, now_ms=now_ms).stats.clean_offset
        assert offsets(log)[: len(left)] == left
        assert horizon_of(log) == [NOW + DAY]
    assert 2 not in offsets(log)


def test_a_tombstone_that_is_dirty_again_goes_by_its_horizon():
    disk, log = log_of([[(b"a", None), (b"b", b"1")]], delete_retention_ms=DAY)
    compact(disk, log, now_ms=NOW)
    compact(disk, log, now_ms=NOW + DAY)
    assert offsets(log) == [1]


def test_a_tombstone_goes_at_once_when_its_key_comes_again():
    disk, log = log_of([[(b"a", None)], [(b"a", b"2")]])
    compact(disk, log)
    assert offsets(log) == [1]
    assert horizon_of(log) == []


def test_log_append_time_stays_the_batchs_own():
    disk = new_disk()
    log = open_log(disk, compacted())
    put(log, [(b"a", b"1"), (b"b", None), (b"c", b"3")], attributes=LOG_APPEND_TIME, step=-1)
    put(log, [(b"a", b"2")])
    log.roll(NOW)
    compact(disk, log)
    records = read_all(log)
    assert [one.timestamp for one in records] == [NOW, NOW, NOW]


def test_records_without_a_key_go():
    disk, log = log_of([[(None, b"1"), (b"b", b"1")], [(None, None)], [(b"c", b"1")]])
    compact(disk, log)
    assert offsets(log) == [1, 3]


# Rounds


def test_the_clean_part_loses_what_the_dirty_part_replaces():
    disk, log = log_of(random_batches(3))
    expected = state_of(read_all(log))
    clean = compact(disk, log).stats.clean_offset
    assert state_of(read_all(log)) == expected
    for seed in range(4, 8):
        for pairs in random_batches(seed, count=20):
            put(log, pairs)
        log.roll(NOW)
        everything = read_all(log)
        clean = compact(disk, log, clean_offset=clean).stats.clean_offset
        assert clean == log.log_end_offset
        latest = {one.key: one for one in everything}
        assert read_all(log) == sorted(latest.values())


@pytest.mark.parametrize("memory", [1, 40, 100, 300])
def test_a_full_map_ends_a_round_and_the_next_goes_on(memory):
    disk, log = log_of(random_batches(5))
    latest = {one.key: one for one in read_all(log)}
    limits = CleanerLimits(memory, 0.9, 500)
    clean, rounds = 0, 0
    while clean < log.log_end_offset:
        before = clean
        clean = compact(disk, log, clean_offset=clean, limits=limits).stats.clean_offset
        assert clean > before
        rounds += 1
    assert rounds > 1
    assert read_all(log) == sorted(latest.values())


def test_reading_in_small_pieces_changes_nothing():
    outcomes = []
    for buffer in (1, 100, 5000):
        disk, log = log_of(random_batches(6))
        compact(disk, log, limits=CleanerLimits(1 << 16, 0.9, buffer))
        outcomes.append(files(disk))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_large_segment_is_synced_in_steps(monkeypatch):
    monkeypatch.setattr(cleaned_segment, "SYNC_BYTES", 100)
    disk, log = log_of(random_batches(6))
    latest = {one.key: one for one in read_all(log)}
    compact(disk, log, limits=CleanerLimits(1 << 16, 0.9, 100))
    assert read_all(log) == sorted(latest.values())


def test_what_is_read_and_written_is_told_as_it_happens():
    disk, log = log_of(random_batches(6))
    told = []
    order = plan(log, measure(log, None, log.log_end_offset, NOW), LIMITS, NOW)
    cleaning = Cleaning(disk, order, told.append)
    cleaning.build_map()
    assert sum(told) == cleaning.stats.map_bytes_read > 0
    for cleaned in cleaning.segments():
        swap_in(disk, log, cleaned)
    stats = cleaning.stats
    assert sum(told) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert stats.records_written == len(read_all(log)) < stats.records_read


# Producers


def test_the_last_batch_of_an_active_producer_stays_without_its_records():
    disk = new_disk()
    log = open_log(disk, compacted())
    put(log, [(b"a", b"1")], producer=Producer(7, 3, 0))
    put(log, [(b"a", b"2"), (b"b", b"2")], producer=Producer(7, 3, 1))
    put(log, [(b"a", b"3"), (b"b", b"3")])
    put(log, [(b"c", b"4")])
    log.roll(NOW)
    compact(disk, log)
    assert offsets(log) == [3, 4, 5]
    first = batch_headers(log)[0]
    assert first.record_count == 0
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (7, 3, 1)
    assert (first.base_offset, first.last_offset, first.max_timestamp) == (1, 2, NOW + 1)
    for name in files(disk):
        if name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{name}")
    again = open_log(disk, compacted(), clean=False)
    assert again.producers.get(7).batches[-1].last_sequence == 2


def test_batches_of_forgotten_producers_go():
    disk = new_disk()
    log = open_log(disk, compacted())
    put(log, [(b"a", b"1")], producer=Producer(7, 0, 0))
    put(log, [(b"a", b"2")])
    log.roll(NOW)
    log.producers.clear()
    compact(disk, log)
    assert [header.base_offset for header in batch_headers(log)] == [1]


# Transactions, as Apache Kafka writes them


def transaction(log, producer, pairs, marker):
    first = put(log, pairs, producer=producer, attributes=TRANSACTIONAL).base_offset
    return first, end_transaction(log, producer, marker)


def end_transaction(log, producer, marker):
    own = Producer(producer.id, producer.epoch, -1)
    return put(
        log, [(marker, b"\0\0\0\0\0\0")], producer=own, attributes=TRANSACTIONAL | CONTROL
    ).base_offset


def write_index(disk, log, entries, base=0):
    file = disk.open(f"{DIRECTORY}/{base:020d}.txnindex", create=True)
    file.write(0, [encode_index(entries)])


def test_aborted_records_go_and_hide_nothing():
    disk = new_disk()
    log = open_log(disk, compacted(delete_retention_ms=DAY))
    put(log, [(b"a", b"1")])
    first, last = transaction(log, Producer(7, 0, 0), [(b"a", b"2")], ABORT)
    transaction(log, Producer(8, 0, 0), [(b"b", b"1")], COMMIT)
    put(log, [(b"z", b"1")])
    log.roll(NOW)
    aborted = AbortedTransaction(first, 7, last, last + 1)
    write_index(disk, log, [aborted])
    clean = compact(disk, log).stats.clean_offset
    state = [(one.offset, one.key) for one in read_all(log) if one.key not in (ABORT, COMMIT)]
    assert state == [(0, b"a"), (3, b"b"), (5, b"z")]
    # The marker is still there, and so is what tells readers of it: the batch of the active producer is, emptied.
    assert decode_index(files(disk)[f"{0:020d}.txnindex"]) == [aborted]
    log.producers.clear()
    # Now its batches go, then it is marked, and when that time has come it goes, too.
    for now_ms, markers in ((NOW, 2), (NOW + 1, 2), (NOW + 1 + DAY, 1)):
        put(log, [(b"%d" % now_ms, b"1")])
        log.roll(NOW)
        clean = compact(disk, log, clean_offset=clean, now_ms=now_ms).stats.clean_offset
        assert sum(one.key in (ABORT, COMMIT) for one in read_all(log)) == markers
    assert f"{0:020d}.txnindex" not in files(disk)


def test_the_marker_of_a_committed_transaction_goes_after_its_records():
    disk = new_disk()
    log = open_log(disk, compacted(delete_retention_ms=DAY))
    transaction(log, Producer(7, 0, 0), [(b"a", b"1")], COMMIT)
    put(log, [(b"y", b"1")])
    log.roll(NOW)
    log.producers.clear()
    clean = compact(disk, log).stats.clean_offset
    assert offsets(log) == [0, 1, 2]
    put(log, [(b"a", b"2")])
    log.roll(NOW)
    for now_ms, left in ((NOW, [1, 2, 3]), (NOW + 5, [1, 2, 3]), (NOW + 5 + DAY, [2, 3])):
        clean = compact(disk, log, clean_offset=0, now_ms=now_ms).stats.clean_offset
        assert offsets(log) == left, now_ms
    assert clean == 4


def test_an_aborted_transaction_over_two_segments():
    disk = new_disk()
    log = open_log(disk, compacted(segment_bytes=10**6))
    put(log, [(b"a", b"1")])
    first = put(
        log, [(b"a", b"2")], producer=Producer(7, 0, 0), attributes=TRANSACTIONAL
    ).base_offset
    log.roll(NOW)
    base = log.base_offsets[-1]
    put(log, [(b"a", b"3")], producer=Producer(7, 0, 1), attributes=TRANSACTIONAL)
    last = end_transaction(log, Producer(7, 0, 0), ABORT)
    put(log, [(b"z", b"1")])
    log.roll(NOW)
    write_index(disk, log, [AbortedTransaction(first, 7, last, last + 1)], base)
    compact(disk, log)
    assert [one.value for one in read_all(log) if one.key == b"a"] == [b"1"]


def test_an_index_of_an_unknown_version():
    with pytest.raises(BatchError):
        decode_index(b"\0\1" + bytes(32))


def test_a_control_record_of_another_kind_stays():
    disk = new_disk()
    log = open_log(disk, compacted())
    end_transaction(log, Producer(7, 0, 0), b"\0\0\0\2")
    put(log, [(b"z", b"1")])
    log.roll(NOW)
    compact(disk, log)
    assert offsets(log) == [0, 1]


def test_a_control_record_without_a_type():
    disk = new_disk()
    log = open_log(disk, compacted())
    batch = build([Record(0, NOW, b"\0", b"")], attributes=TRANSACTIONAL | CONTROL)
    append(log, batch)
    log.roll(NOW)
    with pytest.raises(BatchError):
        compact(disk, log)


def test_a_marker_that_tells_the_epoch_of_a_producer_stays_without_its_record():
    disk = new_disk()
    log = open_log(disk, compacted(delete_retention_ms=0))
    put(log, [(b"a", b"1")], producer=Producer(7, 0, 0), attributes=TRANSACTIONAL)
    end_transaction(log, Producer(7, 1, 0), COMMIT)  # as Kafka does it since 4.0: with a new epoch
    put(log, [(b"a", b"2")])
    log.roll(NOW)
    for expected in ([1, 2], [1, 2], [2], [2]):
        compact(disk, log)
        assert offsets(log) == expected
    marker = batch_headers(log)[0]
    assert (marker.base_offset, marker.record_count, marker.is_control) == (1, 0, True)
    assert (marker.producer_id, marker.producer_epoch) == (7, 1)


# Damage


@pytest.mark.parametrize("position", [16, 70])
def test_a_damaged_log_is_left_as_it_is(position):
    disk, log = log_of([[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")]])
    disk.flip(log.closed_segments[0].log.path, position)
    before = {name: data for name, data in files(disk).items() if name.endswith(".log")}
    with pytest.raises(BatchError):
        compact(disk, log)
    assert {name: data for name, data in files(disk).items() if name.endswith(".log")} == before


def test_a_batch_whose_records_are_not_where_it_says():
    disk = new_disk()
    log = open_log(disk, compacted())
    for offsets_in_it in ([0, 5, 3, 4], [0, 1, 9, 4]):
        records = [Record(offset, NOW, b"k%d" % offset, b"v") for offset in offsets_in_it]
        batch = memoryview(build(records))
        log.append(batch, read_header(batch), 0, NOW)
        log.roll(NOW)
        with pytest.raises(BatchError, match="holds others than it says"):
            compact(disk, log)


def test_without_gaps_offsets_follow_from_the_header():
    disk = new_disk()
    log = open_log(disk, compacted())
    records = [Record(0, NOW, b"a", b"v"), Record(9, NOW, b"b", None), Record(2, NOW, b"c", b"v")]
    batch = memoryview(build(records))
    log.append(batch, read_header(batch), 0, NOW)
    put(log, [(b"a", b"2")])
    log.roll(NOW)
    compact(disk, log)
    assert [record.key for record in read_all(log)] == [b"b", b"c", b"a"]


@pytest.mark.parametrize("size", [1, 60, 70])
def test_bytes_behind_the_last_batch(size):
    disk, log = log_of([[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")]])
    segment = log.closed_segments[0]
    segment.log.write(segment.size, [b"x" * size])
    segment.size += size
    with pytest.raises(BatchError):
        compact(disk, log)


def test_a_log_that_ends_within_a_batch():
    disk, log = log_of([[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")]])
    segment = log.closed_segments[0]
    segment.log.truncate(segment.size - 1)
    with pytest.raises(BatchError):
        compact(disk, log)


# Crashes


def test_each_disk_call_may_fail_and_nothing_is_lost():
    nth = 0
    while True:
        nth += 1
        disk, log = log_of(random_batches(8), segment_bytes=1500, disk=new_disk(nth))
        latest = {one.key: one for one in read_all(log)}
        before = read_all(log)
        disk.fail_call(nth, random.Random(nth).choice([errno.EIO, errno.ENOSPC]))
        try:
            compact(disk, log)
        except OSError:
            failed = True
        else:
            failed = False
        disk.heal()
        if not log.is_broken:
            # Readers go on as before, and the next attempt does it.
            assert state_of(read_all(log)) == state_of(before)
            compact(disk, log)
            assert read_all(log) == sorted(latest.values())
        again = open_log(disk, compacted(segment_bytes=1500), clean=False)
        assert state_of(read_all(again)) == state_of(before)
        assert again.log_end_offset == log.log_end_offset
        assert not any(name.endswith((".cleaned", ".swap")) for name in files(disk))
        if not failed:
            return


@pytest.mark.parametrize("seed", range(2))
def test_a_power_loss_at_each_disk_call_leaves_the_old_or_the_new_whole(seed):
    nth = 0
    while True:
        nth += 1
        disk, log = log_of(
            random_batches(9, count=30), segment_bytes=800, disk=new_disk(seed * 1000 + nth)
        )
        job = log.plan_flush(NOW, everything=True)
        job.run()
        log.on_flushed(job)
        before = read_all(log)
        latest = sorted({one.key: one for one in before}.values())
        disk.fail_call(nth)
        try:
            compact(disk, log)
        except OSError:
            failed = True
        else:
            failed = False
        disk.crash()
        disk.heal()
        again = open_log(
            disk, compacted(segment_bytes=800), clean=False, recovery_point=log.recovery_point
        )
        found = read_all(again)
        assert again.log_end_offset == log.log_end_offset
        assert state_of(found) == state_of(before)
        # Every record is one of the log's, none that should stay is missing, and they are in order.
        assert set(latest) <= set(found) <= set(before)
        assert found == sorted(found)
        assert not again.recovery.cut_bytes
        assert not again.recovery.removed_segments
        if not failed:
            assert found == latest
            return


def test_an_error_after_the_commit_breaks_the_log():
    disk, log = log_of(random_batches(8))
    order = plan(log, measure(log, None, log.log_end_offset, NOW), LIMITS, NOW)
    cleaning = Cleaning(disk, order)
    cleaning.build_map()
    job = log.plan_swap(next(cleaning.segments()), NOW)
    real, disk.sync_dir = disk.sync_dir, lambda path: disk.rename("/not", "/there")
    job.run()
    disk.sync_dir = real
    with pytest.raises(OSError, match="not"):
        log.on_swapped(job)
    assert log.is_broken


def test_segments_dropped_in_the_meantime_make_the_new_one_void():
    disk, log = log_of(random_batches(8), segment_bytes=500)
    order = plan(log, measure(log, None, log.log_end_offset, NOW), LIMITS, NOW)
    cleaning = Cleaning(disk, order)
    cleaning.build_map()
    cleaned = next(cleaning.segments())
    log.advance_log_start(log.base_offsets[1])
    assert log.plan_swap(cleaned, NOW) is None


def test_segments_are_not_dropped_while_they_are_being_replaced():
    disk, log = log_of(random_batches(8), segment_bytes=500)
    order = plan(log, measure(log, None, log.log_end_offset, NOW), LIMITS, NOW)
    cleaning = Cleaning(disk, order)
    cleaning.build_map()
    job = log.plan_swap(next(cleaning.segments()), NOW)
    assert log.advance_log_start(log.log_end_offset) == []
    job.run()
    assert log.on_swapped(job)
    assert log.plan_drop().run()
    assert log.segment_count == 1


def test_readers_of_the_old_files_go_on():
    disk, log = log_of([[(b"a", b"1")], [(b"a", b"2")]])
    slice_ = log.read(0, 1 << 20, end_offset=2, min_one=True, nowait=False)
    before = slice_.read()
    order = plan(log, measure(log, None, log.log_end_offset, NOW), LIMITS, NOW)
    cleaning = Cleaning(disk, order)
    cleaning.build_map()
    job = log.plan_swap(next(cleaning.segments()), NOW)
    job.run()
    deleted = log.on_swapped(job)
    assert slice_.read() == before
    assert slice_.file.path in deleted
