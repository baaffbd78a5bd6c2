"""A socket with TLS on top: what the rest reads and sends as if it were plain.

Job: decrypt what comes, encrypt what goes, handshake step by step. OpenSSL works on memory, not on the socket, so that the costly
steps of a handshake can be done on another thread, and that many records leave in one system call. Must not know: frames, who is
connected, polls. Invariants: never waits; what was decrypted and did not fit is kept (`has_more`), since no poll will tell of it;
ciphertext is bounded by one read and by what `seal` was given.
"""

from __future__ import annotations

import ssl
import threading
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.outbox import SEND_PARTS_MAX, Outbox
from barnabas.ports import FileSlice

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from barnabas.broker.outbox import SharedReads

#: What is received at once.
RECEIVED_BYTES_MAX: Final = 256 * 1024
#: More than any handshake: a client that sends on without end is not making one.
HANDSHAKE_BYTES_MAX: Final = 256 * 1024
#: What is encrypted at once: it stays in memory until the client takes it.
SEAL_BYTES_MAX: Final = 256 * 1024


class _Scratch(threading.local):
    """Where bytes are received: one for all connections of a loop, and there may be several brokers in a process."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVED_BYTES_MAX))


_SCRATCH: Final = _Scratch()


class TlsSocket:
    """One connection's TLS, over a non-blocking socket."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, server_name: str | None = None
    ) -> None:
        """Take over a socket; with a server's name this is the client's side."""
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._handshake_bytes = 0
        #: A read was filled to its end: there may be more that a poll does not tell of.
        self.has_more = False

    def fileno(self) -> int:
        """Give the descriptor."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close the socket. No farewell: Kafka's frames have lengths, nothing can be cut off unseen."""
        self._sock.close()

    # Handshake

    def receive_handshake(self) -> bool:
        """Take what has come; False if the other side has closed. BlockingIOError if nothing has; OSError if it is too much."""
        view = _SCRATCH.view
        count = self._sock.recv_into(view)
        self._incoming.write(view[:count])
        self._handshake_bytes += count
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            raise OSError(f"its handshake has more than {HANDSHAKE_BYTES_MAX} bytes")
        return count > 0

    def shake(self) -> bool:
        """Go on with what has come: True once the handshake is done. SSLError ends it. May run on another thread."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.has_more = True  # requests may have come with the last message
        return True

    def take_outgoing(self) -> bytes:
        """Give what is to be sent as it is: a handshake's messages, or the last word of one that failed."""
        return self._outgoing.read()

    def peer_subject(self) -> tuple[tuple[tuple[str, str], ...], ...] | None:
        """Give the other side's name as its certificate has it; None if it has shown none."""
        shown: dict[str, Any] | None = self._tls.getpeercert()
        return shown["subject"] if shown else None

    # Data

    def recv_into(self, view: memoryview) -> int:
        """Read as a socket does: 0 at the end, BlockingIOError if nothing is there, ssl.SSLError (an OSError) for garbage."""
        total, size = 0, len(view)
        is_fresh = True
        self.has_more = False
        while total < size:
            try:
                count = int(self._tls.read(size - total, view[total:]))
            except ssl.SSLWantReadError:
                if total or not is_fresh:
                    break
                scratch = _SCRATCH.view
                received = self._sock.recv_into(scratch)
                if not received:
                    return 0
                self._incoming.write(scratch[:received])
                is_fresh = False
                continue
            except ssl.SSLZeroReturnError:
                count = 0
            if not count:
                return total
            total += count
        else:
            self.has_more = True
        if not total:
            raise BlockingIOError
        return total

    def seal(self, parts: Iterable[Any]) -> bytes:
        """Encrypt; together with what TLS itself has to say."""
        write = self._tls.write
        for part in parts:
            with memoryview(part) as view:
                position, size = 0, len(view)
                while position < size:
                    position += write(view[position:])
        return self._outgoing.read()

    def send(self, sealed: Any, flags: int = 0) -> int:  # noqa: ANN401
        """Send what is sealed already."""
        return self._sock.send(sealed, flags)


class TlsOutbox(Outbox):
    """The parts that a connection with TLS has not sent yet. The first ones may be encrypted already."""

    __slots__ = ("_sealed", "_tls")

    def __init__(self, reads: SharedReads, tls: TlsSocket) -> None:
        """Start empty."""
        super().__init__(reads)
        self._tls = tls
        #: How many parts, from the first on, are encrypted.
        self._sealed = 0

    def append_sealed(self, data: bytes) -> None:
        """Send this as it is, before everything that is not encrypted yet."""
        if data:
            self.insert(self._sealed, data)
            self._sealed += 1

    def clear(self) -> None:
        """Drop everything."""
        super().clear()
        self._sealed = 0

    def send_some(self, sock: Any) -> bool:  # noqa: ANN401
        """Encrypt what fits in one system call, and send it; False, or BlockingIOError, if the socket takes no more now."""
        if not self._sealed:
            self.append_sealed(self._tls.seal(self._take_plain()))
            if not self._sealed:
                return True  # empty parts: an answer without records has one
        part = self[0]
        sent = sock.send(part)
        if sent < len(part):
            self[0] = memoryview(part)[sent:]
            return False
        self.popleft()
        self._sealed -= 1
        return True

    def _take_plain(self) -> list[Any]:
        """Take parts out for one call; a slice of a file is read, a large one piece by piece."""
        taken: list[Any] = []
        size = 0
        while self and len(taken) < SEND_PARTS_MAX and size < SEAL_BYTES_MAX:
            part = self.popleft()
            if type(part) is FileSlice:
                left = SEAL_BYTES_MAX - size
                if part.size > left:
                    rest = FileSlice(part.file, part.position + left, part.size - left)
                    self.appendleft(rest)
                    part = FileSlice(part.file, part.position, left)
                part = self._reads.read(part)
            taken.append(part)
            size += len(part)
        return taken
