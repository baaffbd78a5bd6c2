"""Links to brokers that answer nonsense, late, or not at all: one error each, bounded memory, and the next link works."""

import contextlib
import resource
import socket
import struct
import threading

import pytest

from barnabas.client.errors import (
    AuthenticationFailed,
    ClientError,
    Unreachable,
    UnsupportedByBroker,
)
from barnabas.client.settings import ClientSettings
from barnabas.client.talk import Collect, Post, usable
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.runtime.client_io import Wires
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse

API_VERSIONS, METADATA, HANDSHAKE, AUTHENTICATE = 18, 3, 17, 36
SERVED = [ApiVersion(api_key=key, min_version=0, max_version=12) for key in (3, 18, 36)]


class Server:
    """Answers each request with what a function by its key makes: a message, raw bytes of a whole frame, or None to hang up."""

    def __init__(self, **answers):
        self.answers = {
            API_VERSIONS: lambda head: ApiVersionsResponse(
                api_keys=SERVED, finalized_features=[], supported_features=[]
            ),
            METADATA: lambda head: self.metadata(),
            **{int(name[1:]): answer for name, answer in answers.items()},
        }
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.seen = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def metadata(self):
        host, port = self.address
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=host, port=port)], topics=[]
        )

    def serve(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            with link, contextlib.suppress(OSError, struct.error, ValueError, MemoryError):
                while self.answer(link):
                    pass

    def answer(self, link):
        (length,) = struct.unpack(">i", link.recv(4, socket.MSG_WAITALL))
        head = frame.decode_request_header(memoryview(link.recv(length, socket.MSG_WAITALL)))
        self.seen.append(head.api_key)
        answer = self.answers[head.api_key](head)
        if answer is None:
            return False
        if not isinstance(answer, bytes):
            header = frame.response_header(head.correlation_id, head.api_key, head.api_version)
            answer = b"".join(map(bytes, frame.finish(answer.encode(head.api_version), header)))
        link.sendall(answer)
        return True

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@pytest.fixture
def serve():
    servers = []

    def start(**answers):
        servers.append(Server(**answers))
        return servers[-1]

    yield start
    for each in servers:
        each.close()


def client_of(server, **changes):
    settings = ClientSettings(
        bootstrap=(server.address,), api_timeout_ms=0, request_timeout_ms=10_000
    )
    return BlockingClient(settings.replace(**changes))


def brokers(server, **changes):
    with client_of(server, **changes) as client:
        return client.brokers()


def test_a_sound_broker(serve):
    assert brokers(serve()) == [1]


def test_memory_is_taken_as_bytes_come(serve, monkeypatch):
    monkeypatch.setattr("barnabas.runtime.client_link.FIRST_BYTES", 8)
    assert brokers(serve()) == [1]


@pytest.mark.parametrize(
    "length",
    [0, 3, -1, 2**31 - 1, 600 * 1024],
    ids=["zero", "short", "negative", "huge", "too large for a greeting"],
)
def test_lengths_that_cannot_be(serve, length):
    server = serve(_18=lambda head: struct.pack(">i", length) + b"12345678")
    with pytest.raises(
        UnsupportedByBroker, match=f"an answer of {length} bytes: is it a Kafka broker"
    ):
        brokers(server)


def test_what_is_no_broker(serve):
    server = serve(_18=lambda head: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(UnsupportedByBroker, match="is it a Kafka broker"):
        brokers(server)


def test_an_answer_to_another_request(serve):
    server = serve(_3=lambda head: struct.pack(">ii", 8, head.correlation_id + 1) + b"\0\0\0\0")
    with pytest.raises(UnsupportedByBroker, match="an answer to another request"):
        brokers(server)


def test_an_answer_that_cannot_be_read(serve):
    server = serve(_3=lambda head: struct.pack(">iiB", 7, head.correlation_id, 0) + b"\xff\xff")
    with pytest.raises(UnsupportedByBroker, match="cannot be read"):
        brokers(server)


def test_hanging_up(serve):
    for key in ("_18", "_3"):
        with pytest.raises(Unreachable, match="closed the connection"):
            brokers(serve(**{key: lambda head: None}))


def test_nobody_there(serve):
    server = serve()
    server.close()
    server.close = lambda: None
    with pytest.raises(Unreachable, match="connection refused"):
        brokers(server)


def test_no_answer_in_time(serve):
    server = serve(_3=lambda head: b"")
    with pytest.raises(Unreachable, match="timed out"):
        brokers(server, request_timeout_ms=100)


def test_half_an_answer_in_time(serve):
    server = serve(_3=lambda head: struct.pack(">i", 100) + b"12")
    with pytest.raises(Unreachable, match="timed out"):
        brokers(server, request_timeout_ms=100)


def test_a_link_that_broke_is_made_anew(serve):
    answers = [None]
    server = serve()
    server.answers[METADATA] = lambda head: answers.pop() if answers else server.metadata()
    with client_of(server) as client:
        with pytest.raises(ClientError):
            client.brokers()
        assert client.brokers() == [1]


def ask_all(addresses):
    """A conversation with several brokers at once: how many brokers each of them knows."""
    tickets = set()
    for address in addresses:
        tickets |= {(yield Post(address, MetadataRequest(topics=[])))}
    counts = []
    while tickets:
        reply = yield Collect(tickets)
        tickets.remove(reply.ticket)
        counts.append(len(usable(reply.answer).brokers))
    return counts


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1100, reason="too few descriptors are allowed"
)
def test_several_links_of_a_process_with_many_files(serve):
    """Descriptors above 1023 are more than select() takes."""
    servers = [serve(), serve()]
    with contextlib.ExitStack() as held:
        for _ in range(1024):
            held.enter_context(socket.socket())
        wires = Wires(ClientSettings(bootstrap=(servers[0].address,)))
        held.callback(wires.close)
        assert wires.run(ask_all([each.address for each in servers])) == [1, 1]


def test_an_old_broker_says_which_versions_it_has(serve):
    def refuse(head):
        body = b"".join(map(bytes, ApiVersionsResponse(error_code=35, api_keys=SERVED).encode(0)))
        return struct.pack(">ii", len(body) + 4, head.correlation_id) + body

    with pytest.raises(UnsupportedByBroker, match="too old"):
        brokers(serve(_18=refuse))


def test_a_request_that_is_not_served(serve):
    with client_of(serve()) as client, pytest.raises(UnsupportedByBroker, match="FindCoordinator"):
        client.coordinator_of("g", 0)


LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "u", "sasl_password": "hush"}


def scram_answers(*messages):
    left = list(messages)
    return {
        "_17": lambda head: SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]),
        "_36": lambda head: left.pop(0),
    }


def test_a_mechanism_that_is_not_there(serve):
    server = serve(_17=lambda head: SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "X"]))
    with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-256; it has PLAIN, X"):
        brokers(server, sasl_mechanism="SCRAM-SHA-256", **LOGIN)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (SaslAuthenticateResponse(error_code=58, error_message="no such user"), "no such user"),
        (SaslAuthenticateResponse(error_code=58, error_message=None), "does not accept"),
        (SaslAuthenticateResponse(error_code=34, error_message=None), "step of authentication"),
        (
            SaslAuthenticateResponse(error_message=None, auth_bytes=b"r=1,s=AAAA,i=1"),
            "does not belong",
        ),
    ],
)
def test_logins_that_fail(serve, answer, words):
    server = serve(**scram_answers(answer))
    with pytest.raises(AuthenticationFailed, match=words) as raised:
        brokers(server, sasl_mechanism="SCRAM-SHA-256", **LOGIN)
    assert "hush" not in str(raised.value)
    assert METADATA not in server.seen


def test_a_session_is_renewed_before_it_ends(serve):
    accepted = SaslAuthenticateResponse(error_message=None, session_lifetime_ms=1)
    server = serve(_17=lambda head: SaslHandshakeResponse(mechanisms=[]), _36=lambda head: accepted)
    with client_of(server, sasl_mechanism="PLAIN", **LOGIN) as client:
        while (
            server.seen.count(AUTHENTICATE) < 2
        ):  # how many requests fit into a millisecond, nobody knows
            client.metadata([])
    assert METADATA in server.seen


def test_tls_that_is_none(serve):
    server = serve()
    server.answers[API_VERSIONS] = lambda head: None
    with pytest.raises((AuthenticationFailed, Unreachable)):
        brokers(server, security_protocol="SSL", ssl_verification=False, connect_timeout_ms=500)


@pytest.mark.parametrize(
    "change",
    [
        {"ssl_ca_location": "/nowhere.pem"},
        {"ssl_certificate_location": "/nowhere.pem"},
        {"ssl_ca_pem": "x"},
    ],
)
def test_files_that_cannot_be_used(serve, change):
    with pytest.raises(AuthenticationFailed, match="cannot be used"):
        brokers(serve(), security_protocol="SSL", **change)
