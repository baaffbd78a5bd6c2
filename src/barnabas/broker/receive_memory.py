"""The memory that bytes are received in, and whose it is.

| memory      | holds                                                      | whose it is                                          |
|-------------|------------------------------------------------------------|------------------------------------------------------|
| TurnMemory  | what connections sent in one turn, frames that came whole  | lent to handlers until the turn ends                 |
| FrameMemory | one frame that is too long for one read                    | its connection's until the request is answered; the request's own if the connection closes before |

Job: lend memory, take it back, and use it again. Must not know sockets, frames or requests.

Invariants: memory is used again only when no one can read it any more. What is lent is a `memoryview`, and Python does not resize a `bytearray`
of which one exists: `_is_free` asks for that. Memory that is still read when it should be back is left to its reader and never
written to again; `kept_count` counts these cases, which are faults of the reader. Memory grows with bytes that came, not with
lengths that were announced. What lies unused has a bound.
"""

from __future__ import annotations

from typing import Final

#: What the connections of one turn share.
TURN_BYTES: Final = 256 * 1024
#: A frame that does not come whole gets this much room; more as its bytes really come.
FRAME_ROOM_BYTES: Final = 64 * 1024
#: By how much the room grows: few copies for a frame of a megabyte, little room for one that never comes.
FRAME_GROWTH: Final = 4
#: How much memory for frames may lie unused: that of 64 clients which send batches of a megabyte at the same time.
UNUSED_BYTES_MAX: Final = 64 * 1024 * 1024


def _is_free(memory: bytearray) -> bool:
    """Tell whether no view of this memory exists. Its last byte is never lent."""
    try:
        memory.pop()
    except BufferError:
        return False
    memory.append(0)
    return True


class TurnMemory:
    """Memory that all connections of a loop share, from one turn to the next."""

    __slots__ = ("_memory", "kept_count", "position", "view")

    def __init__(self) -> None:
        """Start with all of it unused."""
        self._memory = bytearray(TURN_BYTES + 1)
        self.view = memoryview(self._memory)[:TURN_BYTES]
        #: Where the next read goes.
        self.position = 0
        #: How often somebody still held a view at the end of a turn.
        self.kept_count = 0

    def take_back(self) -> bool:
        """End the time for which it was lent; False if somebody still holds a view, to whom it is left."""
        self.position = 0
        self.view.release()
        is_free = _is_free(self._memory)
        if not is_free:
            self.kept_count += 1
            self._memory = bytearray(TURN_BYTES + 1)
        self.view = memoryview(self._memory)[:TURN_BYTES]
        return is_free


class FrameMemory:
    """Room for one frame, filled from the front."""

    __slots__ = ("filled", "memory", "size", "view")

    def __init__(self, memory: bytearray) -> None:
        """Use this memory but for its last byte."""
        self.memory = memory
        #: Bytes that fit.
        self.size = len(memory) - 1
        self.view = memoryview(memory)[: self.size]
        #: Bytes that are here.
        self.filled = 0


class FramePool:
    """Memory for long frames, used again and again: fresh memory costs a page fault for every 4 KB."""

    __slots__ = ("_spare", "_unused", "kept_count", "unused_bytes")

    def __init__(self) -> None:
        """Start with none."""
        #: By size.
        self._unused: dict[int, list[bytearray]] = {}
        #: By size: how many were unused all the time since the last `trim`.
        self._spare: dict[int, int] = {}
        self.unused_bytes = 0
        #: How often memory that was given back was still held by somebody.
        self.kept_count = 0

    def take(self, size: int, here: int) -> FrameMemory:
        """Give room for a frame of so many bytes of which `here` are here: all of it only if it needs no fresh memory."""
        return FrameMemory(self._find(size) or self._make(min(size, FRAME_GROWTH * here)))

    def grow(self, room: FrameMemory, size: int) -> FrameMemory:
        """Give more room to a frame of `size` bytes that has filled its own."""
        larger = self.take(size, room.filled)
        larger.view[: room.filled] = room.view[: room.filled]
        larger.filled = room.filled
        self.give_back(room)
        return larger

    def give_back(self, room: FrameMemory) -> None:
        """Take memory back that its frame does not need any more."""
        room.view.release()
        memory = room.memory
        if not _is_free(memory):
            self.kept_count += 1
        elif self.unused_bytes + room.size <= UNUSED_BYTES_MAX:
            self._unused.setdefault(room.size, []).append(memory)
            self.unused_bytes += room.size

    def trim(self) -> None:
        """Let go of memory that was not needed since the last call."""
        for size, unused in self._unused.items():
            spare = min(self._spare.get(size, 0), len(unused))
            del unused[:spare]
            self.unused_bytes -= spare * size
            self._spare[size] = len(unused)

    def _find(self, size: int) -> bytearray | None:
        room = _room_for(size)
        unused = self._unused.get(room)
        if not unused:
            return None
        memory = unused.pop()
        self.unused_bytes -= room
        self._spare[room] = min(self._spare.get(room, 0), len(unused))
        return memory

    def _make(self, size: int) -> bytearray:
        return self._find(size) or bytearray(_room_for(size) + 1)


def _room_for(size: int) -> int:
    """Round up to a size that memory comes in."""
    room = FRAME_ROOM_BYTES
    while room < size:
        room *= FRAME_GROWTH
    return room
