"""Parts leave in order, whole and once, however little the socket takes."""

import contextlib
import random
import socket

import pytest

from barnabas.broker.outbox import (
    COPY_SLICE_BYTES,
    SEND_PARTS_MAX,
    SharedReads,
)
from barnabas.ports import FileSlice
from barnabas.runtime.disk import RealDisk
from barnabas.runtime.socket_outbox import SocketOutbox

CONTENT = random.Random(1).randbytes(3 * COPY_SLICE_BYTES)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(CONTENT)
    disk = RealDisk()
    yield disk.open(str(path))
    disk.close()


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    yield ours, theirs
    ours.close()
    theirs.close()


def send_all(outbox, pair):
    """Send until nothing is left, reading whenever the socket is full; what arrived."""
    ours, theirs = pair
    arrived = bytearray()
    while outbox:
        try:
            outbox.send_some(ours)
        except BlockingIOError:
            arrived += theirs.recv(1000)
    ours.shutdown(socket.SHUT_WR)
    while piece := theirs.recv(65536):
        arrived += piece
    return bytes(arrived)


class CountingFile:
    """A file that notes what is read from it."""

    path = "counted"

    def __init__(self):
        self.reads = []

    def read(self, position, size):
        self.reads.append((position, size))
        return CONTENT[position : position + size]


@pytest.mark.parametrize(
    "sizes",
    [
        [(0, 10)],
        [(0, 0), (5, 0)],
        [(0, COPY_SLICE_BYTES), (7, COPY_SLICE_BYTES + 1), (9, 3)],
        [(0, 2 * COPY_SLICE_BYTES), (100, 2 * COPY_SLICE_BYTES)],
        [(n, n % 5) for n in range(2 * SEND_PARTS_MAX)],
    ],
)
def test_heads_and_slices_leave_in_order(file, pair, sizes):
    outbox = SocketOutbox(SharedReads())
    expected = b""
    for number, (position, size) in enumerate(sizes):
        head = b"head %d" % number
        outbox.extend([head, FileSlice(file, position, size)])
        expected += head + CONTENT[position : position + size]
    assert send_all(outbox, pair) == expected


def test_a_reader_who_takes_nothing_keeps_nothing_in_memory(pair):
    outbox, sender = SocketOutbox(SharedReads()), pair[0]
    for _ in range(100):
        outbox.extend([b"head", FileSlice(CountingFile(), 0, COPY_SLICE_BYTES)])
    with contextlib.suppress(BlockingIOError):
        while outbox.send_some(sender):
            pass
    unsent = list(outbox)
    assert sum(part.size for part in unsent if type(part) is FileSlice) > COPY_SLICE_BYTES
    assert sum(len(part) for part in unsent if type(part) is not FileSlice) <= 100 * len(b"head")


@pytest.mark.parametrize("size", [10, COPY_SLICE_BYTES + 1])
def test_a_file_that_is_shorter_than_announced_is_an_error(file, pair, size):
    outbox = SocketOutbox(SharedReads())
    outbox.append(FileSlice(file, len(CONTENT) - 1, size))
    with pytest.raises(OSError, match="ends before"):
        send_all(outbox, pair)
