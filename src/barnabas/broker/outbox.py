"""What a connection has to send: bytes and slices of files, in order, in as few system calls as pay.

Slices up to `COPY_SLICE_BYTES` are read and leave in one call with the bytes around them; what of them does not leave is
read again, so that a reader who takes nothing keeps nothing in memory. Larger ones go as the world has it (`send_file`).

Many readers who wait at the end of a log are sent the same range in the same turn: `SharedReads` reads it once. That is
right because bytes that were found for a reader never change.

Knows nothing of frames, polls or who is connected.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from barnabas.ports import FileSlice

if TYPE_CHECKING:
    from barnabas.ports import File

#: A slice up to this size is copied into the same system call as the bytes around it.
COPY_SLICE_BYTES: Final = 256 * 1024
#: Buffers per sendmsg; the system's limit is 1024.
SEND_PARTS_MAX: Final = 128
#: Bytes per sendmsg: as many as fit into a send buffer of the default size, which Linux doubles.
SEND_BYTES_MAX: Final = 1024 * 1024
#: What is kept of one turn's reads for others of the same turn.
SHARED_BYTES_MAX: Final = 4 * 1024 * 1024


class SharedReads:
    """The range read last from each file in this turn."""

    __slots__ = ("_latest", "_size_bytes")

    def __init__(self) -> None:
        """Start with none."""
        self._latest: dict[File, tuple[int, bytes]] = {}
        self._size_bytes = 0

    def read(self, part: FileSlice) -> bytes | memoryview:
        """Return the bytes of a slice; OSError if the file ends before it does."""
        latest = self._latest.get(part.file)
        if latest is not None:
            position, data = latest
            start = part.position - position
            if start == 0 and part.size == len(data):
                return data
            if start >= 0 and start + part.size <= len(data):
                return memoryview(data)[start : start + part.size]
        data = part.read()
        if len(data) != part.size:
            # A reply shorter than its announced length would garble all after it.
            raise OSError(errno.EIO, f"{part.file.path} ends before {part.position + part.size}")
        self._keep(part, data)
        return data

    def forget(self) -> None:
        """Keep nothing beyond the turn."""
        if self._latest:
            self._latest.clear()
            self._size_bytes = 0

    def _keep(self, part: FileSlice, data: bytes) -> None:
        self._size_bytes += len(data)
        if self._size_bytes > SHARED_BYTES_MAX:
            self._latest.clear()
            self._size_bytes = len(data)
        self._latest[part.file] = (part.position, data)


class Outbox(deque[Any]):
    """The parts that one connection has not sent yet: bytes and FileSlices."""

    __slots__ = ("_reads",)

    #: The flag of a call behind which more comes at once, where there is one.
    more_flag = 0

    def __init__(self, reads: SharedReads) -> None:
        """Start empty; slices are read through `reads`."""
        super().__init__()
        self._reads = reads

    def append_sealed(self, data: bytes) -> None:
        """Send this before everything that still has to be encrypted: here nothing has."""
        if data:
            self.append(data)

    def send_some(self, sock: Any) -> bool:  # noqa: ANN401
        """Send with one system call; False, or BlockingIOError, if the socket takes no more now."""
        part = self[0]
        if type(part) is bytes and len(self) == 1:  # what most replies are
            sent = sock.send(part)
            if sent == len(part):
                self.clear()
                return True
            return self._drop(sent, len(part))
        if type(part) is FileSlice and part.size > COPY_SLICE_BYTES:
            return self._drop(self.send_file(sock, part), part.size)
        return self._send_gathered(sock)

    def send_file(self, sock: Any, part: FileSlice) -> int:  # noqa: ANN401
        """Send from a large slice; how many bytes of it went. OSError if the file ends before."""
        raise NotImplementedError

    def _send_gathered(self, sock: Any) -> bool:  # noqa: ANN401
        gathered, size = self._gather()
        flags = self.more_flag if len(gathered) < len(self) else 0
        if len(gathered) == 1:
            return self._drop(sock.send(gathered[0], flags), size)
        return self._drop(sock.sendmsg(gathered, (), flags), size)

    def _gather(self) -> tuple[list[Any], int]:
        """Collect buffers for one call, small slices read into them, up to the first large slice; with their size."""
        gathered: list[Any] = []
        size = 0
        for part in self:
            if type(part) is FileSlice:
                if part.size > COPY_SLICE_BYTES:
                    break
                part = self._reads.read(part)
            gathered.append(part)
            size += len(part)
            if len(gathered) == SEND_PARTS_MAX or size >= SEND_BYTES_MAX:
                break
        return gathered, size

    def _drop(self, sent: int, offered: int) -> bool:
        """Forget what was sent; tell whether all was that the socket was offered."""
        is_all = sent == offered
        while self and (sent or not len(self[0])):  # an empty part is sent by sending nothing
            part = self[0]
            size = len(part)
            if size > sent:
                if type(part) is FileSlice:
                    part.position += sent
                    part.size -= sent
                else:
                    self[0] = memoryview(part)[sent:]
                break
            sent -= size
            self.popleft()
        return is_all
