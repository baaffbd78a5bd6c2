"""Making a segment again without its damage."""

import pytest
from log_kit import DIRECTORY, append, batch_of, config, new_disk, open_log, read_all

from barnabas.storage.rescue import Lost, Place, rescue
from barnabas.storage.swap import SwapJob
from barnabas.wire.batch import headers

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
