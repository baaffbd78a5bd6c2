"""What a connection has to send, over a socket of the system.

Large slices of files go by `sendfile`, which saves a copy and costs two calls for each, and wakes the client for each (docs/adr/0006 has the figures).
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from barnabas.broker.outbox import Outbox

if TYPE_CHECKING:
    from barnabas.ports import FileSlice


class SocketOutbox(Outbox):
    """See the module."""

    __slots__ = ()

    #: What follows comes at once: do not send a packet, and wake the client, for a head alone.
    more_flag = getattr(socket, "MSG_MORE", 0)

    def send_file(self, sock: socket.socket, part: FileSlice) -> int:
        """Send from a large slice with one system call."""
        sent = os.sendfile(sock.fileno(), part.file.fileno(), part.position, part.size)
        if sent == 0:
            raise OSError(errno.EIO, f"{part.file.path} ends before {part.position}")
        return sent
