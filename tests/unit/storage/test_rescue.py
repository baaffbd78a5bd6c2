"""Making a segment again without its damage."""

import pytest
from log_kit import DIRECTORY, NOW, append, batch_of, config, new_disk, open_log, read, read_all

from barnabas.core.epochs import EpochEntry
from barnabas.storage.epoch_spans import EpochSpans
from barnabas.storage.rescue import Lost, Place, rescue
from barnabas.storage.swap import SwapJob
from barnabas.wire.batch import TRANSACTIONAL, Producer, headers, read_records
from barnabas.wire.control_batch import EndMarker, read_marker

SIZE = len(batch_of(3))
LOG = f"{DIRECTORY}/{0:020d}.log"


@pytest.fixture
def disk():
    """A closed segment with the offsets from 0 to 29, and an active one."""
    disk = new_disk()
    log = open_log(disk)
    for _ in range(10):
        append(log, count=3)
    log.roll(0)
    append(log, count=3)
    log.close(clean=True)
    return disk


def rescued(disk, *, may_have_gaps=False, known_end=30):
    place = Place(DIRECTORY, 0, 30, known_end)
    cleaned, lost = rescue(disk, place, index_interval_bytes=100, may_have_gaps=may_have_gaps)
    job = SwapJob(disk, DIRECTORY, cleaned, 0)
    job.run()
    assert job.error is None
    return lost


def offsets(disk):
    log = open_log(disk, config(cleanup_policy="compact"))
    return [record.offset for record in read_all(log)]


def test_a_good_segment_stays_as_it_is(disk):
    before = disk.contents()[LOG]
    assert rescued(disk) == []
    assert disk.contents()[LOG] == before


def test_a_bad_batch_gives_way_to_an_empty_one(disk):
    bad = disk.contents()[LOG][4 * SIZE : 5 * SIZE]
    disk.flip(LOG, 4 * SIZE + 70)
    ((first, last, size, reason, path),) = rescued(disk)
    assert (first, last, size, reason) == (12, 14, SIZE, "a batch with a wrong checksum")
    saved = disk.contents()[path]
    assert len(saved) == SIZE
    assert sum(a != b for a, b in zip(saved, bad, strict=True)) == 1
    assert offsets(disk) == [*range(12), *range(15, 33)]
    spans = [
        (header.base_offset, header.last_offset, header.record_count)
        for _, header in headers(memoryview(disk.contents()[LOG]))
    ]
    assert spans[3:6] == [(9, 11, 3), (12, 14, 0), (15, 17, 3)]


def test_a_segment_that_ends_too_early(disk):
    disk.open(LOG).truncate(8 * SIZE)
    (lost,) = rescued(disk)
    assert lost == Lost(24, 29, 0, "the records are not there", "")
    assert offsets(disk) == [*range(24), *range(30, 33)]


def test_compaction_leaves_gaps_that_are_no_loss(disk):
    disk.open(LOG).truncate(8 * SIZE)
    assert rescued(disk, may_have_gaps=True) == []
    assert len(disk.contents()[LOG]) == 8 * SIZE


def test_nothing_good_at_all(disk):
    disk.open(LOG).write(0, (b"x" * 10 * SIZE,))
    (lost,) = rescued(disk)
    assert lost[:3] == (0, 29, 10 * SIZE)
    assert offsets(disk) == [30, 31, 32]


def test_bytes_behind_the_last_record(disk):
    disk.open(LOG).write(10 * SIZE, (b"x" * 100,))
    (lost,) = rescued(disk)
    assert (lost.first_offset, lost.last_offset) == (30, 29)
    assert str(lost).startswith("bytes behind offset 29 are damaged")
    assert len(disk.contents()[LOG]) == 10 * SIZE


def test_what_is_said_of_a_loss():
    lost = Lost(12, 14, 98, "a batch with a wrong checksum", "/data/t-0/quarantine/x.0")
    assert str(lost) == (
        "offsets 12 to 14 are lost (a batch with a wrong checksum); "
        "98 bytes are kept as /data/t-0/quarantine/x.0"
    )


# Transactions


def committed(log):
    """Read as a reader of committed records does that follows the list of aborted transactions: the offsets."""
    offset, found = log.log_start_offset, []
    while (slice_ := read(log, offset)) is not None:
        data = memoryview(slice_.read())
        to_come = sorted(log.aborted_transactions(offset, slice_, nowait=False))
        left_out = set()
        for position, header in headers(data):
            batch = data[position : position + header.size]
            while to_come and to_come[0].first_offset <= header.last_offset:
                left_out.add(to_come.pop(0).producer_id)
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None and not marker.commit:
                    left_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in left_out):
                found += [record.offset for record in read_records(batch, 1 << 20)]
            offset = header.next_offset
    return found


def transactional_log(disk):
    """An aborted transaction, its marker at 2, then a committed one of the same producer."""
    log = open_log(disk)
    positions = {}
    for sequence, commit in ((0, False), (2, True)):
        batch = batch_of(2, producer=Producer(7, 0, sequence), attributes=TRANSACTIONAL)
        positions[log.log_end_offset] = log.segments[0].size
        append(log, batch)
        positions[log.log_end_offset] = log.segments[0].size
        log.append_marker(EndMarker(commit, 0), 7, 0, 0, NOW)
    log.roll(NOW)
    append(log)
    assert committed(log) == [3, 4, 6]
    log.close(clean=True)
    return positions


@pytest.mark.parametrize(
    ("base", "left"), [(0, [3, 4, 6]), (2, [3, 4, 6]), (3, [6]), (5, [3, 4, 6])]
)
def test_the_list_of_aborted_transactions_fits_what_is_left(base, left):
    disk = new_disk()
    position = transactional_log(disk)[base]
    disk.flip(LOG, position + 65)
    place = Place(DIRECTORY, 0, 6, 6)
    cleaned, (lost,) = rescue(disk, place, index_interval_bytes=100, may_have_gaps=False)
    assert lost.first_offset == base
    SwapJob(disk, DIRECTORY, cleaned, 0).run()
    assert committed(open_log(disk)) == left


def test_a_list_that_is_lost_is_made_again_from_the_batches():
    disk = new_disk()
    position = transactional_log(disk)[3]
    disk.flip(LOG, position + 65)
    disk.remove(f"{DIRECTORY}/{0:020d}.txnindex")
    place = Place(DIRECTORY, 0, 6, 6)
    cleaned, _ = rescue(disk, place, index_interval_bytes=100, may_have_gaps=False)
    SwapJob(disk, DIRECTORY, cleaned, 0).run()
    assert committed(open_log(disk)) == [6]


def test_a_wrong_leader_epoch_is_put_right(disk):
    before = disk.contents()[LOG]
    disk.flip(LOG, 4 * SIZE + 13)
    epochs = EpochSpans([EpochEntry(0, 0)])
    place = Place(DIRECTORY, 0, 30, 30, epochs)
    cleaned, lost = rescue(disk, place, index_interval_bytes=100, may_have_gaps=False)
    SwapJob(disk, DIRECTORY, cleaned, 0).run()
    assert lost == []
    assert disk.contents()[LOG] == before
