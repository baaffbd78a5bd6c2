"""One blocking connection that sends our generated messages in any version: for what no stock client can be made to send."""

import contextlib
import socket
import struct

from barnabas.wire import frame

TIMEOUT_S = 30


class WireClient:
    """Requests and responses one at a time, in order."""

    def __init__(self, bootstrap):
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.correlation_id = 0

    def send(self, request, version):
        """Write the request without waiting for anything."""
        self.correlation_id += 1
        head = struct.pack(">hhih", request.API_KEY, version, self.correlation_id, -1)
        if version >= request.FLEXIBLE_FROM:
            head += b"\0"
        body = head + b"".join(bytes(part) for part in request.encode(version))
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self):
        """The next frame without its length, or None when the broker has closed the connection."""
        head = self._exactly(4)
        return head and self._exactly(struct.unpack(">i", head)[0])

    def ask(self, request, version):
        """The decoded response; a wrong header, or a byte too many or too few, is an error."""
        self.send(request, version)
        data = self.receive()
        assert data is not None, f"{request} version {version}: the broker closed the connection"
        header = frame.response_header(self.correlation_id, request.API_KEY, version)
        assert data[: len(header)] == header
        _, response_type = frame.message_types(request.API_KEY)
        return response_type.decode(data, version, len(header))

    def _exactly(self, size):
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while len(data) < size and (more := self.socket.recv(size - len(data))):
                data += more
        return data if len(data) == size else None

    def close(self):
        self.socket.close()
