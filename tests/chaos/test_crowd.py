"""F25 and its kin: many clients that do not behave, and one that does, on one broker."""

import socket
import struct
from pathlib import Path

from chaos.wire_kit import (
    BrokerProcess,
    RawClient,
    batch,
    encode,
    eventually,
    fetch_request,
    split,
)

from barnabas.wire.messages.metadata import MetadataRequest

MIB = 1024 * 1024


def framed(body):
    return struct.pack(">i", len(body)) + body


def test_two_hundred_clients_that_never_read(tmp_path):
    """Each asks for far more than it takes: the answers stay in files, and the broker stays small."""
    with BrokerProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t", max_message_bytes=10 * MIB)
            for _ in range(4):
                assert client.produce("t", batch(bytes(4 * MIB))).error_code == 0
            before = broker.resident_bytes
            fetch = framed(encode(fetch_request("t", 0, max_bytes=50 * MIB), 11, 1))
            metadata = framed(encode(MetadataRequest(topics=None), 9, 1))
            silent = []
            for number in range(200):
                one = RawClient(broker.bootstrap, receive_buffer=4096)
                one.send_bytes(fetch * 20 if number % 2 else metadata * 1000)
                silent.append(one)
            assert client.produce("t", batch(b"v")).error_code == 0
            assert client.fetch("t", 4).error_code == 0
            grown = broker.resident_bytes - before
            assert grown < 200 * MIB, f"{grown // MIB} MiB for 200 clients that do not read"
            for one in silent:
                one.socket.close()
            assert client.produce("t", batch(b"v")).error_code == 0
        assert broker.terminate() == 0


def test_frames_that_are_announced_and_do_not_come(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            before = broker.resident_bytes
            held = []
            for _ in range(200):
                one = RawClient(broker.bootstrap)
                one.send_bytes(struct.pack(">i", 100 * MIB) + bytes(1000))
                held.append(one)
            assert client.produce("t", batch(b"v")).error_code == 0
            grown = broker.resident_bytes - before
            assert grown < 300 * MIB, f"{grown // MIB} MiB for 200 frames that did not come"
            for one in held:
                one.socket.close()
        assert broker.terminate() == 0


def test_lengths_that_cannot_be_cost_nothing(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            before = broker.resident_bytes
            for length in [0, -1, 2**31 - 1, 104_857_601] * 50:
                with RawClient(broker.bootstrap) as one:
                    one.send_bytes(struct.pack(">i", length))
                    assert one.is_closed_by_peer()
            assert broker.resident_bytes - before < 20 * MIB
            assert client.produce("t", batch(b"v")).error_code == 0
        assert broker.terminate() == 0


def test_connections_that_are_reset_at_every_moment(tmp_path):
    """Close with a reset: before, during and after a request, with an answer under way."""
    with BrokerProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            client.produce("t", batch(bytes(500_000)))
            frame = framed(
                encode(fetch_request("t", 0, max_wait_ms=60_000, min_bytes=2**30), 11, 1)
            )
            whole = framed(encode(fetch_request("t", 0), 11, 1))
            address = split(broker.bootstrap)
            for data in [b"", frame[:2], frame[:20], frame, whole, whole * 30, frame * 30] * 20:
                sock = socket.create_connection(address)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(data)
                sock.close()
            assert client.produce("t", batch(b"v")).error_code == 0
            eventually(lambda: open_sockets(broker.process.pid) <= 4, "all connections are closed")
        assert broker.terminate() == 0


def open_sockets(pid):
    count = 0
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += str(fd.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return count
