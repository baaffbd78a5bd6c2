"""What a follower takes from its leader, and what it does not."""

import pytest
from log_kit import batch_of

from barnabas.storage.leader_batches import whole_batches
from barnabas.wire.batch import BatchError, stamp
from barnabas.wire.control_batch import EndMarker, build_marker


def stamped(base_offset, count=1, epoch=0):
    batch = bytearray(batch_of(count))
    stamp(memoryview(batch), base_offset, epoch)
    return bytes(batch)


def test_whole_batches_are_taken_and_a_piece_of_one_is_left():
    data = stamped(5, 2) + stamped(7) + stamped(8)
    for cut in (1, 20, 70):
        taken = whole_batches(memoryview(data[:-cut]), 5)
        assert [one.header.base_offset for one in taken] == [5, 7]
        assert [data[one.start : one.end] for one in taken] == [stamped(5, 2), stamped(7)]
    assert whole_batches(memoryview(data[:30]), 5) == []
    assert whole_batches(memoryview(b""), 5) == []


def test_offsets_may_be_missing():
    taken = whole_batches(memoryview(stamped(9) + stamped(20)), 5)
    assert [one.header.base_offset for one in taken] == [9, 20]


def test_the_first_may_begin_before_the_end_if_it_ends_behind():
    assert len(whole_batches(memoryview(stamped(3, 5)), 5)) == 1


def test_markers_are_read():
    abort, _ = build_marker(EndMarker(commit=False, coordinator_epoch=3), 7, 0, 1000)
    commit, _ = build_marker(EndMarker(commit=True, coordinator_epoch=3), 7, 0, 1000)
    taken = [whole_batches(one, 0)[0] for one in (abort, commit)]
    assert [one.is_abort for one in taken] == [True, False]
    assert taken[0].marker == EndMarker(commit=False, coordinator_epoch=3)


def damaged(position, value):
    batch = bytearray(stamped(5, 2))
    batch[position] = value
    return bytes(batch)


@pytest.mark.parametrize(
    "data",
    [
        stamped(4),
        stamped(5) + stamped(5),
        stamped(5, 3) + stamped(7, 3),
        damaged(-1, 255),
        damaged(16, 1),
        damaged(11, 5),
        damaged(23, 255),
        stamped(5) + damaged(11, 5),
        stamped(5, epoch=-2),
    ],
    ids=[
        "old",
        "again",
        "overlaps",
        "bytes",
        "format",
        "length",
        "delta",
        "second length",
        "epoch",
    ],
)
def test_bad_ones_are_refused_with_all_others(data):
    with pytest.raises(BatchError):
        whole_batches(memoryview(data), 5)
