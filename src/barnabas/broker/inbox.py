"""What one connection has sent and nobody has handled yet, in the order in which it came.

| state   | holds                                                   | what is next                                     |
|---------|---------------------------------------------------------|--------------------------------------------------|
| rest    | bytes behind a request that waits, or part of a length  | `take_rest` once the request ended, or `receive` |
| frame   | the first part of a frame that needs memory of its own  | `receive`, until it is whole                     |
| piece   | bytes that were received and are to be handled          | `take`; nothing is received before               |

Job: receive bytes and keep them in order. Must not know what a frame says, nor whether its socket is plain or encrypted. Invariants: there
is one piece at most, and only `receive` makes one: what is received later cannot be handled earlier. A piece lies in the memory of
the turn or fills a frame's own.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.broker.receive_memory import FrameMemory, FramePool, TurnMemory

SIZE_BYTES: Final = 4
_SIZE: Final = struct.Struct(">i")


class Inbox:
    """See the module."""

    __slots__ = ("_end", "_frame", "_frame_bytes", "_is_piece", "_pool", "_start", "_view", "rest")

    def __init__(self, pool: FramePool) -> None:
        """Have received nothing; long frames get memory of the pool."""
        self._pool = pool
        self.rest = b""
        self._frame: FrameMemory | None = None
        #: The size of that frame, its length included.
        self._frame_bytes = 0
        self._is_piece = False
        self._view = memoryview(b"")
        self._start = self._end = 0

    def has_piece(self) -> bool:
        """Tell whether bytes are to be handled before more is received."""
        return self._is_piece

    def receive(self, sock: Any, turn: TurnMemory, bytes_max: int) -> int:  # noqa: ANN401  (plain, or with TLS)
        """Read once; how many bytes came, 0 at the end of the stream. What the socket raises is the caller's."""
        assert not self._is_piece, "what came first is handled first"
        assert len(self.rest) < SIZE_BYTES, "requests that are here already are handled first"
        if self._frame is not None:
            return self._receive_frame(sock, self._frame)
        view, start = turn.view, turn.position
        position = start + len(self.rest)
        view[start:position] = self.rest
        count = int(sock.recv_into(view[position : position + bytes_max]))
        if count:
            self.rest = b""
            turn.position = position + count
            self._set_piece(view, start, turn.position)
        return count

    def _receive_frame(self, sock: Any, frame: FrameMemory) -> int:  # noqa: ANN401
        size = self._frame_bytes
        count = int(sock.recv_into(frame.view[frame.filled : min(size, frame.size)]))
        frame.filled += count
        if frame.filled == size:
            self._set_piece(frame.view, 0, size)
        elif frame.filled == frame.size:
            self._frame = self._pool.grow(frame, size)
        return count

    def _set_piece(self, view: memoryview, start: int, end: int) -> None:
        self._is_piece = True
        self._view, self._start, self._end = view, start, end

    def take(self) -> tuple[memoryview, int, int, FrameMemory | None]:
        """Give the piece, and the memory that it fills if that is its own: the caller gives it back to the pool."""
        assert self._is_piece, "nothing was received"
        piece = self._view, self._start, self._end, self._frame
        self._is_piece = False
        self._view = memoryview(b"")
        self._frame = None
        return piece

    def take_rest(self) -> bytes:
        """Give what was kept, to be handled now."""
        rest, self.rest = self.rest, b""
        return rest

    def keep(self, view: memoryview, position: int, end: int, *, is_frame: bool) -> None:
        """Keep what could not be handled yet; `is_frame` if it begins with a frame that is not whole and whose size is allowed."""
        size = end - position
        if not is_frame:
            self.rest = bytes(view[position:end])
            return
        self._frame_bytes = _SIZE.unpack_from(view, position)[0] + SIZE_BYTES
        self._frame = frame = self._pool.take(self._frame_bytes, size)
        frame.view[:size] = view[position:end]
        frame.filled = size

    def clear(self) -> None:
        """Drop everything."""
        frame, self._frame = self._frame, None
        self._is_piece = False
        self._view = memoryview(b"")
        self.rest = b""
        if frame is not None:
            self._pool.give_back(frame)
