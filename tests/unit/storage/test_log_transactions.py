"""Transactions in a log: markers, the index of aborted ones, and both after a crash."""

from __future__ import annotations

import errno

import pytest
from log_kit import DIRECTORY, NOW, config, files, new_disk, open_log, read

from barnabas.storage.rolling_log import BrokenLogError
from barnabas.storage.transaction_index import AbortedTransaction, decode_index
from barnabas.wire.batch import TRANSACTIONAL, Producer, Record, build, read_header
from barnabas.wire.control_batch import EndMarker

SMALL = config(segment_bytes=400, index_interval_bytes=0)


def write(log, producer_id, sequence, *, count=1, epoch=0, size=10):
    records = [Record(number, NOW, None, b"x" * size) for number in range(count)]
    batch = build(
        records, attributes=TRANSACTIONAL, producer=Producer(producer_id, epoch, sequence)
    )
    return log.append(memoryview(batch), read_header(batch), 0, NOW).base_offset


def end(log, producer_id, *, commit, epoch=0):
    marker = EndMarker(commit, coordinator_epoch=0)
    return log.append_marker(marker, producer_id, epoch, 0, NOW).base_offset


def stable(log):
    return log.producers.transactions.first_unstable(log.log_end_offset)


def aborted(log, offset=0, max_bytes=1 << 30):
    found = read(log, offset, max_bytes)
    assert found is not None
    return [
        (one.producer_id, one.first_offset)
        for one in log.aborted_transactions(offset, found, nowait=False)
    ]


def index_of(disk, base=0):
    return decode_index(files(disk).get(f"{base:020d}.txnindex", b""))


def test_the_stable_offset_waits_for_every_marker():
    log = open_log(new_disk())
    write(log, 1, 0)
    write(log, 2, 0, count=3)
    assert stable(log) == 0
    assert end(log, 1, commit=True) == 4
    assert stable(log) == 1
    end(log, 2, commit=False)
    assert stable(log) == 6


def test_only_aborted_transactions_with_records_are_in_the_index():
    disk = new_disk()
    log = open_log(disk)
    write(log, 1, 0)
    end(log, 1, commit=True)
    end(log, 3, commit=False)
    assert index_of(disk) == []
    assert f"{0:020d}.txnindex" not in files(disk)
    write(log, 1, 1)
    write(log, 2, 0)
    end(log, 2, commit=False)
    assert index_of(disk) == [AbortedTransaction(4, 2, 5, 3)]
    end(log, 1, commit=False)
    assert index_of(disk)[1:] == [AbortedTransaction(3, 1, 6, 7)]
    assert aborted(log) == [(2, 4), (1, 3)]
    assert aborted(log, 6) == [(1, 3)]


def test_aborted_transactions_are_found_across_segments():
    disk = new_disk()
    log = open_log(disk, SMALL)
    write(log, 1, 0)
    for number in range(12):
        write(log, 2, number)
    end(log, 2, commit=False)
    end(log, 1, commit=False)
    assert log.segment_count > 2
    assert index_of(disk) == []
    assert aborted(log) == [(2, 1), (1, 0)]
    # Behind its end the first segment says nothing of the second one's transactions that begin later.
    write(log, 3, 0)
    end(log, 3, commit=False)
    assert aborted(log, max_bytes=100) == [(2, 1), (1, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_opening_again_finds_the_same(clean):
    disk = new_disk()
    log = open_log(disk, SMALL)
    for number in range(8):
        write(log, 1, number)
        write(log, 2, 2 * number, count=2)
        end(log, 2, commit=number % 3 == 0)
    expected = (stable(log), aborted(log), aborted(log, 9))
    before = {name: data for name, data in files(disk).items() if name.endswith(".txnindex")}
    log.close(clean=clean)
    again = open_log(disk, SMALL, clean=clean, recovery_point=log.recovery_point if clean else 0)
    assert (stable(again), aborted(again), aborted(again, 9)) == expected
    after = {name: data for name, data in files(disk).items() if name.endswith(".txnindex")}
    assert after == before


@pytest.mark.parametrize("damage", [b"", b"\0" * 34, b"\1"])
def test_a_damaged_index_is_built_again(damage):
    disk = new_disk()
    log = open_log(disk, SMALL)
    write(log, 1, 0)
    for number in range(12):
        write(log, 2, number)
        end(log, 2, commit=False)
    expected, before = aborted(log), files(disk)
    log.close(clean=True)
    name = next(name for name in sorted(before)[1:] if name.endswith(".txnindex"))
    disk.write_file_atomically(f"{DIRECTORY}/{name}", before[name] + damage)
    again = open_log(disk, SMALL, recovery_point=log.recovery_point)
    assert aborted(again) == expected
    assert files(disk)[name] == before[name]


def test_a_marker_that_cannot_be_written_changes_nothing():
    """Fail the Nth disk call of an abort, for every N, in the same segment and with a roll."""
    for settings in (config(), SMALL):
        calls = 0
        while True:
            disk = new_disk()
            log = open_log(disk, settings)
            for number in range(4):
                write(log, 1, number)
            before = stable(log), log.log_end_offset
            disk.fail_call(calls + 1, errno.EIO)
            try:
                end(log, 1, commit=False)
            except OSError:
                disk.heal()
                assert (stable(log), log.log_end_offset) == before
                if not log.is_broken:
                    assert aborted(log) == []
                    end(log, 1, commit=False)
                    assert aborted(log) == [(1, 0)]
                else:
                    with pytest.raises(BrokenLogError):
                        end(log, 1, commit=False)
                calls += 1
                continue
            break
        assert calls >= 2
