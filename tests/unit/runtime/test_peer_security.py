"""Connections to other brokers that ask for TLS and logins."""

import random
import socket
import ssl
import threading

import pytest
import security_kit

import barnabas
from barnabas.broker.receive_memory import TURN_BYTES
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.runtime.loop import Loop
from barnabas.runtime.peer_security import PeerSecurity
from barnabas.runtime.peers import RealPeers
from barnabas.wire import frame
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return security_kit.make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(files):
    tokens = security_kit.Tokens(files.folder)
    with barnabas.Broker(settings=security_kit.all_listeners(files, tokens)) as broker:
        security_kit.make_scram_users(broker.bootstrap, {"admin": "admin-hush-1"})
        yield broker


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


class Asking:
    """Asks for metadata at once, and stops the loop with the answer or with the reason why there is none."""

    def __init__(self, loop, size=0):
        self.loop = loop
        self.size = size
        self.answer = None
        self.reason = None

    def on_connected(self):
        assert self.answer is None

    def on_frame(self, reply):
        header = frame.response_header(7, MetadataRequest.API_KEY, 1)
        self.answer = MetadataResponse.decode(reply, 1, len(header))
        self.loop.stop()

    def on_closed(self, reason):
        self.reason = reason
        self.loop.stop()


def ask(loop, broker, listener, config):
    peers = RealPeers(loop, PeerSecurity(lambda: config))
    asking = Asking(loop)
    host, _, port = broker.bootstrap_of(listener).rpartition(":")
    peer = peers.connect(host, int(port), asking)
    header = frame.request_header(MetadataRequest.API_KEY, 1, 7, "test")
    peer.send(frame.finish(MetadataRequest(topics=[]).encode(1), header))
    loop.run_forever()
    peers.close()
    return asking


def settings(files, listener, mechanism="PLAIN", password="admin-hush-1", trust=None):
    jaas = f'x.LoginModule required username="admin" password="{password}" user_admin="x";'
    return BrokerConfig(
        {
            "listeners": f"{listener}://127.0.0.1:9092",
            "inter.broker.listener.name": listener,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files.client),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trust or files.authority),
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": jaas,
        }
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_login(loop, broker, files, listener, mechanism):
    asking = ask(loop, broker, listener, settings(files, listener, mechanism))
    assert asking.reason is None
    assert asking.answer.brokers[0].node_id == 1


@pytest.mark.parametrize("listener", ["SSL", "MUTUAL"])
def test_tls(loop, broker, files, listener):
    assert ask(loop, broker, listener, settings(files, "SSL")).answer is not None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_wrong_password(loop, broker, files, mechanism):
    config = settings(files, "SASL_SSL", mechanism, "no-hush-9")
    reason = ask(loop, broker, "SASL_SSL", config).reason
    assert "refused this broker's login" in reason
    assert "no-hush-9" not in reason


def test_a_broker_that_nobody_vouches_for_is_left(loop, broker, files):
    config = settings(files, "SSL", trust=files.stranger)
    assert "certificate verify failed" in ask(loop, broker, "SSL", config).reason


def test_a_mechanism_that_is_not_offered(loop, files):
    plain = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    with barnabas.Broker(settings=plain) as broker:
        reason = ask(loop, broker, "SASL_PLAINTEXT", settings(files, "SASL_PLAINTEXT")).reason
    assert "it offers SCRAM-SHA-256" in reason


class Collecting:
    """Keeps what it is sent, until enough has come."""

    def __init__(self, loop, wanted):
        self.loop = loop
        self.wanted = wanted
        self.frames = []
        self.reason = None

    def on_connected(self):
        pass

    def on_frame(self, reply):
        self.frames.append(bytes(reply))
        if len(self.frames) == self.wanted:
            self.loop.stop()

    def on_closed(self, reason):
        self.reason = reason
        self.loop.stop()


@pytest.mark.parametrize("seed", range(3))
def test_replies_over_tls_come_whole_and_in_order_however_they_are_cut(loop, files, seed):
    rng = random.Random(seed)
    sizes = (0, 3, 100, 16_384, TURN_BYTES - 4, TURN_BYTES, 1 << 20, 5 << 20)
    bodies = [rng.randbytes(rng.choice(sizes)) for _ in range(30)]
    stream = b"".join(len(body).to_bytes(4) + body for body in bodies)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    problems = []

    def serve():
        try:
            sock, _address = listener.accept()
            sock.settimeout(60)
            with context.wrap_socket(sock, server_side=True) as secure:
                position = 0
                while position < len(stream):
                    end = position + rng.choice((1, 1000, 16_384, 100_000, 1 << 20))
                    secure.sendall(stream[position:end])
                    position = end
                secure.recv(1)
        except OSError as problem:
            problems.append(problem)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        peers = RealPeers(loop, PeerSecurity(lambda: settings(files, "SSL")))
        collecting = Collecting(loop, len(bodies))
        peers.connect(*listener.getsockname(), collecting)
        loop.run_forever()
        peers.close()
        thread.join()
    assert collecting.reason is None
    assert collecting.frames == bodies
    assert peers._memory.pool.kept_count == 0
