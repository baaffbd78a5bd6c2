"""A range of a file that several readers are sent is read once in a turn."""

import random

import pytest

from barnabas.broker.outbox import COPY_SLICE_BYTES, SHARED_BYTES_MAX, SharedReads
from barnabas.ports import FileSlice

CONTENT = random.Random(1).randbytes(3 * COPY_SLICE_BYTES)


class CountingFile:
    """A file that notes what is read from it."""

    path = "counted"

    def __init__(self):
        self.reads = []

    def read(self, position, size):
        self.reads.append((position, size))
        return CONTENT[position : position + size]


def test_a_range_and_what_lies_within_it_are_read_once():
    file, reads = CountingFile(), SharedReads()
    assert reads.read(FileSlice(file, 100, 50)) == CONTENT[100:150]
    assert reads.read(FileSlice(file, 100, 50)) == CONTENT[100:150]
    assert reads.read(FileSlice(file, 120, 30)) == CONTENT[120:150]
    assert file.reads == [(100, 50)]


@pytest.mark.parametrize(("position", "size"), [(99, 2), (149, 2), (150, 1), (90, 100)])
def test_what_reaches_beyond_is_read(position, size):
    file, reads = CountingFile(), SharedReads()
    reads.read(FileSlice(file, 100, 50))
    assert reads.read(FileSlice(file, position, size)) == CONTENT[position : position + size]
    assert len(file.reads) == 2


def test_nothing_is_kept_beyond_the_turn_or_above_the_bound():
    file, reads = CountingFile(), SharedReads()
    reads.read(FileSlice(file, 0, 10))
    reads.forget()
    reads.read(FileSlice(file, 0, 10))
    assert len(file.reads) == 2
    others = [CountingFile() for _ in range(SHARED_BYTES_MAX // COPY_SLICE_BYTES + 1)]
    for other in others:
        reads.read(FileSlice(other, 0, COPY_SLICE_BYTES))
    assert sum(len(data) for _, data in reads._latest.values()) <= SHARED_BYTES_MAX
    reads.read(FileSlice(others[-1], 0, 10))
    assert len(others[-1].reads) == 1
