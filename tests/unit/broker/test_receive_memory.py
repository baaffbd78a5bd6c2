"""Memory that is lent: it is used again only when nobody reads it any more."""

import pytest

from barnabas.broker import receive_memory
from barnabas.broker.receive_memory import (
    FRAME_ROOM_BYTES,
    TURN_BYTES,
    FramePool,
    TurnMemory,
)

MB = 1024 * 1024


def test_the_memory_of_a_turn_is_used_again():
    turn = TurnMemory()
    turn.view[:5] = b"first"
    before = turn._memory
    assert turn.take_back()
    assert turn._memory is before
    assert len(turn.view) == TURN_BYTES
    assert turn.kept_count == 0


def test_a_view_that_is_kept_keeps_its_bytes():
    turn = TurnMemory()
    turn.view[:5] = b"first"
    kept = turn.view[:5]
    turn.position = 5
    assert not turn.take_back()
    turn.view[:5] = b"other"
    assert bytes(kept) == b"first"
    assert (turn.kept_count, turn.position) == (1, 0)
    assert turn.take_back()


def test_what_the_owner_lent_cannot_be_read_through_its_own_view_any_more():
    turn = TurnMemory()
    view = turn.view
    turn.take_back()
    with pytest.raises(ValueError, match="released"):
        view[0]


def test_a_claimed_size_gets_room_by_what_came():
    room = FramePool().take(100 * MB, here=8)
    assert room.size == FRAME_ROOM_BYTES


def test_room_grows_with_what_came_and_keeps_it():
    pool = FramePool()
    room = pool.take(MB, here=FRAME_ROOM_BYTES)
    assert room.size < MB
    while room.size < MB:
        room.view[room.filled : room.size] = bytes([room.filled % 251]) * (room.size - room.filled)
        room.filled = room.size
        before = bytes(room.view)
        room = pool.grow(room, MB)
        assert bytes(room.view[: room.filled]) == before
    assert room.size == MB


def test_memory_that_was_used_before_is_given_whole():
    pool = FramePool()
    room = pool.take(MB, here=MB)
    memory = room.memory
    pool.give_back(room)
    assert pool.unused_bytes == MB
    again = pool.take(MB - 10, here=4)
    assert again.memory is memory
    assert pool.unused_bytes == 0


def test_memory_that_is_still_read_is_not_used_again():
    pool = FramePool()
    room = pool.take(MB, here=MB)
    room.view[:4] = b"mine"
    kept = room.view[:4]
    memory = room.memory
    pool.give_back(room)
    assert pool.kept_count == 1
    assert pool.take(MB, here=MB).memory is not memory
    assert bytes(kept) == b"mine"


@pytest.mark.source
def test_what_lies_unused_has_a_bound(monkeypatch):
    monkeypatch.setattr(receive_memory, "UNUSED_BYTES_MAX", 3 * MB)
    pool = FramePool()
    for room in [pool.take(MB, here=MB) for _ in range(5)]:
        pool.give_back(room)
    assert pool.unused_bytes == 3 * MB


def test_what_was_not_needed_for_a_while_is_let_go():
    pool = FramePool()
    for room in [pool.take(MB, here=MB) for _ in range(3)]:
        pool.give_back(room)
    pool.trim()
    for _ in range(4):  # one is needed now and then, two are not
        pool.give_back(pool.take(MB, here=MB))
    pool.trim()
    assert pool.unused_bytes == MB
    pool.trim()
    assert pool.unused_bytes == 0
