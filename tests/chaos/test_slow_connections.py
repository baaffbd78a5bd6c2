"""B8: thousands of connections, clients that send a byte now and then, handshakes that never end. Each costs little, the slow ones end, and others are served."""

import contextlib
import resource
import socket
import struct

from chaos.wire_kit import BrokerProcess, RawClient, batch, encode, eventually, split
from security_kit import make_certificates
from vulnerability_kit import JAAS

import barnabas
from barnabas.runtime import server
from barnabas.runtime.disk import max_connections
from barnabas.wire.messages.api_versions import ApiVersionsRequest

MIB = 1024 * 1024
ANY = ApiVersionsRequest()
#: As many as a broker takes here, and others beside them; the tests' own ends are of another process.
CROWD = min(10_000, max_connections() - 100)


def started(folder):
    """A broker that keeps a crowd waiting rather than sending it away."""
    return BrokerProcess(folder / "data", settings=["socket.listen.backlog.size=4000"])


@contextlib.contextmanager
def crowd_of(count, bootstrap):
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(split(bootstrap), 30))
            for _ in range(count)
        ]


def test_ten_thousand_connections_that_send_a_byte_at_a_time(tmp_path):
    """As many of them as this machine lets a process have."""
    whole = encode(ANY, 0, 7)
    frame = struct.pack(">i", len(whole)) + whole
    with started(tmp_path) as broker, RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        before = broker.resident_bytes
        with crowd_of(CROWD, broker.bootstrap) as crowd:
            for byte in frame[:-1]:
                for one in crowd[::50]:
                    one.sendall(bytes([byte]))
                assert client.produce("t", batch(b"v")).error_code == 0
            assert client.end_offset("t") == len(frame) - 1
            grown = broker.resident_bytes - before
            assert grown < CROWD * 16 * 1024 + 32 * MIB, f"{grown // MIB} MiB"
            for one in crowd[::50]:
                one.sendall(frame[-1:])
                assert struct.unpack(">ii", one.recv(8))[1] == 7
        assert client.produce("t", batch(b"v")).error_code == 0
        assert broker.terminate() == 0


def test_more_connections_than_descriptors_wait_and_harm_nobody(tmp_path):
    with started(tmp_path) as broker, RawClient(broker.bootstrap) as client:
        client.create_topic("t", 20)
        client.produce("t", batch(b"v"))
        limit = 256
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with crowd_of(limit + 50, broker.bootstrap):
            eventually(lambda: "cannot accept" in broker.log, "descriptors run out")
            for number in range(20):
                assert client.produce("t", batch(b"v"), partition=number).error_code == 0
            assert broker.log.count("cannot accept") == 1, "once a minute is enough"
        with RawClient(broker.bootstrap) as late:
            assert late.ask(ANY, 0).error_code == 0
        assert broker.terminate() == 0


def test_a_login_that_comes_byte_by_byte_is_ended(monkeypatch):
    monkeypatch.setattr(server, "PROOF_MS_MAX", 300)
    settings = {
        "listeners": "SAFE://127.0.0.1:0",
        "listener.security.protocol.map": "SAFE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SAFE",
        "listener.name.safe.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": JAAS,
    }
    with barnabas.Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
        client.send_bytes(struct.pack(">i", 500_000))

        def is_gone():
            try:
                client.send_bytes(b"\0")
            except OSError:
                return True
            return False

        eventually(is_gone, "who does not log in has to go, whatever it sends")
        connections = broker._broker.server
        eventually(lambda: connections.connection_count == 0, "nothing is left of it")


def test_half_a_handshake_is_ended_and_others_are_served(tmp_path, monkeypatch):
    files = make_certificates(tmp_path)
    settings = {
        "listeners": "SAFE://127.0.0.1:0,OPEN://127.0.0.1:0",
        "listener.security.protocol.map": "SAFE:SSL,OPEN:PLAINTEXT",
        "inter.broker.listener.name": "OPEN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
    }
    monkeypatch.setattr(server, "PROOF_MS_MAX", 300)
    with barnabas.Broker(settings=settings) as broker:
        (_, host, port), (_, open_host, open_port) = broker._broker.addresses
        half = [RawClient(f"{host}:{port}") for _ in range(50)]
        for client in half:
            client.send_bytes(
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
            )  # a ClientHello begins
        with RawClient(f"{open_host}:{open_port}") as other:
            assert other.ask(ANY, 0).error_code == 0
            for client in half:
                assert client.is_closed_by_peer()
                client.socket.close()
            assert other.ask(ANY, 0).error_code == 0
