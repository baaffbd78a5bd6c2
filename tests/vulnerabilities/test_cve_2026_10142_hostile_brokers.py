"""CVE-2026-10142: a client believed the length that a broker announced. Our own client, which the tools and other parts use, takes no frame that it could not have asked for."""

import socket
import struct
import threading

import pytest
from vulnerability_kit import memory_below

from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.runtime.blocking_client import BlockingClient

ANSWERS = {
    "a length of 2^31 - 1": struct.pack(">i", 2**31 - 1) + bytes(64),
    "a length of -1": struct.pack(">i", -1) + bytes(64),
    "a length of 0": struct.pack(">i", 0) + bytes(64),
    "an array of 2^31 - 1": struct.pack(">iihi", 10, 1, 0, 2**31 - 1),
    "nothing of sense": struct.pack(">i", 60) + b"\xff" * 60,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_hostile_broker_says_is_not_believed(name):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                with sock:
                    sock.recv(65536)
                    sock.sendall(ANSWERS[name])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        settings = ClientSettings.parse(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "request.timeout.ms": "1000",
                "default.api.timeout.ms": "1500",
            }
        )
        client = BlockingClient(settings)
        with memory_below(8 * 1024 * 1024), pytest.raises(ClientError):
            client.connect()
        client.close()
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)
