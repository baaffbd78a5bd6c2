"""Checking a segment batch by batch; what follows from it is in test_recovery.py."""

import random
import struct

import pytest
from log_kit import DIRECTORY, NOW, append, batch_of, config, new_disk, open_log

from barnabas.core.producer_state import BATCHES_KEPT, ProducerStates
from barnabas.storage.replay import replay
from barnabas.storage.scan import SCAN_BYTES, Scan
from barnabas.storage.segment import MAX_RELATIVE_OFFSET
from barnabas.wire.batch import CRC_START, TRANSACTIONAL, Producer, stamp
from barnabas.wire.control_batch import EndMarker, build_marker

SIZE = len(batch_of(2))


def segment_of(disk, sizes=(10,) * 5):
    log = open_log(disk, config(index_interval_bytes=0))
    for number, size in enumerate(sizes):
        append(log, count=2, size=size, timestamp=NOW + number)
    return log._segments[0]


def scanned(segment):
    scan = Scan(segment, 0)
    scan.run(lambda _position, _header: None)
    return scan, [header.base_offset for _, header in segment.headers(0, scan.valid_bytes)]


def test_good_batches_are_taken_in_order():
    scan, found = scanned(segment_of(new_disk()))
    assert found == [0, 2, 4, 6, 8]
    assert (scan.valid_bytes, scan.next_offset, scan.problem) == (5 * SIZE, 10, "")


def test_those_of_producers_and_the_first_of_each_epoch_are_shown():
    log = open_log(new_disk())
    for epoch in (0, 0, 1, 1):
        append(log, epoch=epoch)
    append(log, epoch=1, producer=Producer(7, 0, 0))
    append(log, epoch=1, producer=Producer(7, 0, 1), size=2 * SCAN_BYTES)
    append(log, epoch=1)
    append(log, epoch=2, size=2 * SCAN_BYTES)
    shown = []
    segment = log._segments[0]
    Scan(segment, 0).run(lambda position, header: shown.append((position, header.base_offset)))
    assert shown == [
        (position, header.base_offset)
        for position, header in segment.headers(0, segment.size)
        if header.base_offset in (0, 2, 4, 5, 7)
    ]


def history(seed):
    """Batches of a few producers, in transactions and not, each with the leader epoch that it is written in."""
    chance = random.Random(seed)
    producers, epoch = chance.randint(1, 4), 0
    for sequence in range(chance.randint(1, 120)):
        kind = chance.random()
        epoch += chance.random() < (0.5 if kind < 0.06 else 0.02)
        producer = Producer(chance.randrange(producers), sequence // 50, sequence)
        size = 2 * SCAN_BYTES if chance.random() < 0.005 else 10
        if kind < 0.06:
            marker = EndMarker(kind < 0.03, coordinator_epoch=sequence)
            yield bytearray(build_marker(marker, producer.id, producer.epoch, NOW)[0]), epoch
        elif kind < 0.1:
            yield batch_of(1), epoch
        else:
            attributes = TRANSACTIONAL if producer.id % 2 else 0
            yield batch_of(1, producer=producer, attributes=attributes, size=size), epoch


def knowledge(producers):
    entries = {
        entry.producer_id: (
            entry.producer_epoch, entry.next_sequence, list(entry.batches), entry.last_timestamp,
            entry.coordinator_epoch, entry.current_txn_first_offset,
        )
        for entry in producers
    }  # fmt: skip
    return entries, producers.transactions.first_unstable(0)


def replayed(segment, run):
    """What replaying the batches that `run` shows makes of producers and aborted transactions; how many there were."""
    producers, shown = ProducerStates(), []
    segment.aborted.reset()

    def visit(position, header):
        shown.append(position)
        replay(producers, segment, position, header, into_index=True)

    run(visit)
    return knowledge(producers), segment.aborted.find(0, 1 << 40, nowait=False), len(shown)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_shown_says_of_producers_what_all_batches_say(seed):
    segment = segment_of(new_disk(), ())
    for offset, (batch, epoch) in enumerate(history(seed)):
        stamp(memoryview(batch), offset, epoch)
        segment.log.write(segment.size, (batch,))
        segment.size += len(batch)

    def show_all(visit):
        for position, header in segment.headers(0, segment.size):
            visit(position, header)

    every, some = replayed(segment, show_all), replayed(segment, Scan(segment, 0).run)
    assert some[:2] == every[:2]
    assert some[2] <= every[2]


def test_a_producer_of_many_batches_is_shown_by_its_last_ones():
    log = open_log(new_disk())
    for sequence in range(100):
        append(log, producer=Producer(7, 0, sequence))
    shown = []
    Scan(log._segments[0], 0).run(lambda _position, header: shown.append(header.base_offset))
    assert shown == [0, *range(100 - BATCHES_KEPT, 100)]


def test_the_indexes_are_those_of_the_appends():
    disk = new_disk()
    segment = segment_of(disk)
    segment.seal()
    before = disk.contents()
    scan, _ = scanned(segment)
    scan.finish()
    assert disk.contents() == before
    assert segment.largest == (NOW + 4, 9)
    assert segment.first_timestamp == NOW
    assert segment.unsynced


@pytest.mark.parametrize(
    "sizes",
    [
        (SCAN_BYTES // 2 - 90, 10, 10),
        (SCAN_BYTES // 2 - 60, 10, 10),
        (SCAN_BYTES // 2 - 20, 10),
        (2 * SCAN_BYTES, 10, 3 * SCAN_BYTES),
    ],
    ids=["window ends in a batch", "in a header", "just behind one", "batches of many windows"],
)
def test_windows_end_anywhere(sizes):
    scan, found = scanned(segment_of(new_disk(), sizes))
    assert found == [2 * number for number in range(len(sizes))]
    assert scan.problem == ""


def replace_batch(disk, segment, number, batch):
    segment.log.write(number * SIZE, (batch,))


def stamped(offset, **shape):
    batch = batch_of(2, **shape)
    stamp(memoryview(batch), offset, 0)
    return batch


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (stamped(3), "a batch with offsets 3 to 4"),
        (stamped(-1), "a batch with offsets -1 to 0"),
        (stamped(MAX_RELATIVE_OFFSET), f"a batch with offsets {MAX_RELATIVE_OFFSET} to"),
        (bytes(SIZE), "a batch of format version 0"),
    ],
    ids=["an offset twice", "a negative one", "one too far for the index", "zeros"],
)
def test_a_batch_out_of_place_is_bad_however_sound(batch, problem):
    disk = new_disk()
    segment = segment_of(disk)
    replace_batch(disk, segment, 2, batch)
    scan, found = scanned(segment)
    assert found == [0, 2]
    assert scan.problem.startswith(problem)
    scan.finish()
    assert scan.cut_bytes == 3 * SIZE
    assert segment.size == 2 * SIZE == len(disk.contents()[segment.log.path])


@pytest.mark.parametrize("size", [10, SCAN_BYTES])
def test_a_gap_is_a_fault_but_in_a_compacted_log(size):
    disk = new_disk()
    segment = segment_of(disk, (10, 10, 10, 10, size))
    replace_batch(disk, segment, 4, stamped(100, size=size))
    scan, found = scanned(segment)
    assert found == [0, 2, 4, 6]
    assert scan.problem == "a batch with offset 100 instead of 8"
    segment.may_have_gaps = True
    assert scanned(segment)[1] == [0, 2, 4, 6, 100]


@pytest.mark.parametrize("length", [0, -5, SIZE, 2**31 - 1])
def test_a_length_that_cannot_be_is_bad(length):
    disk = new_disk()
    segment = segment_of(disk)
    segment.log.write(4 * SIZE + 8, (struct.pack(">i", length),))
    scan, found = scanned(segment)
    assert found == [0, 2, 4, 6]
    assert scan.problem == f"a batch that claims {length + 12} bytes"


def test_a_flipped_bit_is_found_in_every_window():
    for at in (SIZE + CRC_START, SIZE + 2 * SCAN_BYTES, SIZE + 4 * SCAN_BYTES):
        disk = new_disk()
        segment = segment_of(disk, (10, 3 * SCAN_BYTES, 10))
        disk.flip(segment.log.path, at)
        scan, found = scanned(segment)
        assert found == [0]
        assert scan.problem == "a batch with a wrong checksum"


@pytest.mark.parametrize("left", [SIZE + 20, SIZE + 70, SIZE + SCAN_BYTES])
def test_a_file_shorter_than_it_said_is_cut(left):
    disk = new_disk()
    segment = segment_of(disk, (10, 3 * SCAN_BYTES))
    segment.log.truncate(left)
    scan, found = scanned(segment)
    assert found == [0]
    assert scan.problem in ("half a header", "a batch with a wrong checksum")


def test_half_a_header_at_the_end():
    disk = new_disk()
    segment = segment_of(disk)
    segment.log.write(5 * SIZE, (b"x" * 60,))
    segment.size += 60
    scan, found = scanned(segment)
    assert len(found) == 5
    assert scan.problem == "half a header"


def test_cutting_is_on_the_medium_at_once():
    disk = new_disk()
    segment = segment_of(disk)
    disk.sync_dir(DIRECTORY)
    segment.sync()
    disk.flip(segment.log.path, 3 * SIZE + 30)
    scan, _ = scanned(segment)
    scan.finish()
    disk.crash()
    assert len(disk.contents()[segment.log.path]) == 3 * SIZE
