"""Making a segment again with batches that another replica has in place of the damaged ones."""

from log_kit import DIRECTORY, append, batch_of, new_disk, open_log

from barnabas.storage.rescue import Place, rescue
from barnabas.storage.swap import SwapJob

SIZE = len(batch_of(3))
LOG = f"{DIRECTORY}/{0:020d}.log"
PLACE = Place(DIRECTORY, 0, 30, 30)


def make_disk():
    """A closed segment with the offsets from 0 to 29, and an active one."""
    disk = new_disk()
    log = open_log(disk)
    for _ in range(10):
        append(log, count=3)
    log.roll(0)
    append(log, count=3)
    log.close(clean=True)
    return disk


def make_again(disk, spares):
    cleaned, lost = rescue(
        disk, PLACE, index_interval_bytes=100, may_have_gaps=False, spares=spares
    )
    job = SwapJob(disk, DIRECTORY, cleaned, 0)
    job.run()
    assert job.error is None
    return [(one.first_offset, one.last_offset) for one in lost]


def test_copies_take_the_place_of_what_is_damaged():
    disk = make_disk()
    good = disk.contents()[LOG]
    for number in (4, 5, 9):
        disk.flip(LOG, number * SIZE + 70)
    spares = {(12, 17): good[4 * SIZE : 6 * SIZE], (27, 29): good[9 * SIZE :]}
    assert make_again(disk, spares) == []
    assert disk.contents()[LOG] == good


def test_what_nobody_has_is_lost_as_before():
    disk = make_disk()
    good = disk.contents()[LOG]
    disk.flip(LOG, 4 * SIZE + 70)
    disk.flip(LOG, 7 * SIZE + 70)
    assert make_again(disk, {(12, 14): good[4 * SIZE : 5 * SIZE]}) == [(21, 23)]
    assert disk.contents()[LOG][: 7 * SIZE] == good[: 7 * SIZE]


def test_an_empty_copy_says_that_there_is_nothing_between():
    disk = make_disk()
    good = disk.contents()[LOG]
    disk.flip(LOG, 4 * SIZE + 70)
    assert make_again(disk, {(12, 14): b""}) == []
    assert disk.contents()[LOG] == good[: 4 * SIZE] + good[5 * SIZE :]
