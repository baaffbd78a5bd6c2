"""What a connection received: in order, and one piece at a time."""

import random

import pytest

from barnabas.broker.inbox import Inbox
from barnabas.broker.receive_memory import FramePool, TurnMemory


class Source:
    """A socket that has these bytes, and gives at most so many at once."""

    def __init__(self, data, at_once=1 << 30):
        self.data = data
        self.at_once = at_once

    def recv_into(self, view):
        if not self.data:
            raise BlockingIOError
        count = min(len(view), len(self.data), self.at_once)
        view[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


def framed(body):
    return len(body).to_bytes(4) + body


def test_a_second_read_before_the_first_is_handled_is_impossible():
    """Over TLS a second piece was read, and handled as if a frame began there: record bytes became requests."""
    inbox, turn = Inbox(FramePool()), TurnMemory()
    source = Source(framed(b"one") + framed(b"two"), at_once=4)
    inbox.receive(source, turn, 1000)
    assert inbox.has_piece()
    with pytest.raises(AssertionError):
        inbox.receive(source, turn, 1000)
    inbox.take()
    assert not inbox.has_piece()
    inbox.receive(source, turn, 1000)


def test_whole_requests_that_are_here_are_handled_before_more_is_read():
    inbox, turn = Inbox(FramePool()), TurnMemory()
    inbox.keep(memoryview(framed(b"waits")), 0, 9, is_frame=False)
    with pytest.raises(AssertionError):
        inbox.receive(Source(b"more"), turn, 1000)
    assert inbox.take_rest() == framed(b"waits")
    inbox.receive(Source(b"more"), turn, 1000)


def test_a_closed_connection_gives_its_memory_back():
    pool = FramePool()
    inbox = Inbox(pool)
    inbox.keep(memoryview(framed(bytes(100_000))), 0, 50_000, is_frame=True)
    inbox.clear()
    assert pool.unused_bytes > 0
    assert pool.kept_count == 0


@pytest.mark.parametrize("seed", range(30))
def test_every_frame_comes_out_whole_and_in_order(seed):
    """Frames of all sizes, cut anywhere; some wait, so that what follows them is kept."""
    chance = random.Random(seed)
    bodies = [chance.randbytes(chance.choice([1, 3, 50, 5000, 70_000, 300_000])) for _ in range(40)]
    source = Source(
        b"".join(map(framed, bodies)), at_once=chance.choice([1, 3000, 90_000, 1 << 30])
    )
    if source.at_once == 1:
        source.data = source.data[:200_000]
    sent = source.data
    pool, turn = FramePool(), TurnMemory()
    inbox = Inbox(pool)
    handled = b""
    while source.data or inbox.rest:
        if len(inbox.rest) >= 4:  # a request that waited is answered
            rest = inbox.take_rest()
            view, start, end, memory = memoryview(bytearray(rest)), 0, len(rest), None
        else:
            inbox.receive(source, turn, chance.choice([500, 16_384, 60_000]))
            if not inbox.has_piece():
                continue
            view, start, end, memory = inbox.take()
        position, has_one = start, False
        while end - position >= 4:
            size = int.from_bytes(view[position : position + 4])
            is_whole = position + 4 + size <= end
            if not is_whole or (has_one and chance.random() < 0.2):
                break
            handled += bytes(view[position : position + 4 + size])
            position += 4 + size
            has_one = True
        if position < end:
            is_frame = end - position >= 4 and not is_whole
            inbox.keep(view, position, end, is_frame=is_frame)
        del view
        if memory is not None:
            pool.give_back(memory)
        if turn.position:
            assert turn.take_back(), "nobody holds memory of the turn"
    assert sent.startswith(handled)
    assert len(sent) - len(handled) <= 300_004
    if source.at_once > 1:
        assert handled == sent
    assert pool.kept_count == 0
