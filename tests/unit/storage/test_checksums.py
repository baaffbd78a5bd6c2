"""Checksums of the small files beside a log, and what they find at a clean start."""

import pytest
from log_kit import DIRECTORY, NOW, append, config, files, new_disk, open_log

from barnabas.storage import checksums
from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.checksums import Sum, sum_of
from barnabas.wire.batch import TRANSACTIONAL, Producer
from barnabas.wire.control_batch import EndMarker

PATH = f"{DIRECTORY}/{checksums.FILE_NAME}"


def closed_log():
    """An aborted transaction in each of two segments, another one open."""
    disk = new_disk()
    log = open_log(disk)
    for sequence in range(2):
        append(log, producer=Producer(7, 0, sequence), attributes=TRANSACTIONAL, epoch=sequence)
        log.append_marker(EndMarker(commit=False, coordinator_epoch=0), 7, 0, sequence, NOW)
        log.roll(NOW)
    append(log, producer=Producer(8, 0, 0), attributes=TRANSACTIONAL, epoch=1)
    log.close(clean=True)
    return disk


def aborted(log):
    return [
        (one.first_offset, one.last_offset)
        for segment in log.segments
        for one in segment.aborted.find(0, 100, nowait=False)[0]
    ]


def check(disk):
    log = open_log(disk, recovery_point=5)
    assert aborted(log) == [(0, 1), (2, 3)]
    assert log.producers.transactions.first_unstable(5) == 4
    assert log.epochs.entries == [(0, 0), (1, 2)]
    return log


def test_text_and_back():
    sums = {"b": Sum(3, 4_294_967_295), "a": Sum(0, 0)}
    assert checksums.encode(sums) == b"0\n2\na 0 0\nb 3 4294967295\n"
    assert checksums.decode(checksums.encode(sums)) == sums
    with pytest.raises(CorruptCheckpoint, match="two numbers"):
        checksums.decode(b"0\n1\na b c\n")


def test_every_small_file_is_in_it():
    disk = closed_log()
    sums = checksums.read(disk, DIRECTORY)
    found = files(disk)
    assert sums == {name: sum_of(found[name]) for name in sums}
    endings = {name.rpartition(".")[2] for name in sums}
    assert endings == {"txnindex", "snapshot", "leader-epoch-checkpoint"}
    check(disk)


@pytest.mark.parametrize("damage", [None, b"", b"0\n7\n", b"0\n1\nx y z\n"])
def test_without_it_the_others_are_taken_as_they_are(damage):
    disk = closed_log()
    disk.remove(PATH)
    if damage is not None:
        disk.write_file_atomically(PATH, damage)
    check(disk)


def test_every_flipped_bit_in_a_small_file_is_found():
    disk = closed_log()
    before = files(disk)
    for name, content in before.items():
        if not name.endswith(
            (".txnindex", ".snapshot", "leader-epoch-checkpoint", checksums.FILE_NAME)
        ):
            continue
        for place in range(len(content)):
            damaged = new_disk()
            for other, data in before.items():
                damaged.write_file_atomically(f"{DIRECTORY}/{other}", data)
            damaged.flip(f"{DIRECTORY}/{name}", place, place % 8)
            check(damaged)


def test_files_that_are_gone_or_exchanged():
    disk = closed_log()
    before = files(disk)
    for suffix in (".txnindex", ".snapshot"):
        names = [name for name in before if name.endswith(suffix)]
        for name in names:
            disk.remove(f"{DIRECTORY}/{name}")
            check(disk).close(clean=False)
            disk = closed_log()
        for name, other in zip(names, reversed(names), strict=True):
            disk.write_file_atomically(f"{DIRECTORY}/{name}", before[other])
        check(disk).close(clean=False)
        disk = closed_log()


def test_it_counts_for_nothing_once_somebody_else_has_written():
    disk = closed_log()
    content = disk.read_file(PATH)
    log = open_log(disk, config())
    append(log, epoch=5)
    log.close(clean=True)
    disk.write_file_atomically(PATH, content)
    assert open_log(disk).epochs.latest == 5
