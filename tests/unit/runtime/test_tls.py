"""TLS as the settings say: what is offered, to whom, and what happens when files change."""

import contextlib
import logging
import socket
import ssl
import time

import pytest
import security_kit

import barnabas
from barnabas.broker.outbox import SharedReads
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.runtime import server as server_module
from barnabas.runtime import tls as tls_module
from barnabas.runtime.tls import TlsSettings, openssl_cipher, server_context
from barnabas.runtime.tls_problem import TlsProblem
from barnabas.runtime.tls_socket import TlsOutbox, TlsSocket
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest

PATIENCE_S = 30


@pytest.fixture
def files(tmp_path):
    return security_kit.make_certificates(tmp_path)


def settings(files, **more):
    texts = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }
    return {**texts, **{name.replace("_", "."): text for name, text in more.items()}}


def client_context(files):
    return ssl.create_default_context(cafile=files.authority)


def connect(broker, context, listener="SSL"):
    host, _, port = broker.bootstrap_of(listener).rpartition(":")
    sock = socket.create_connection((host, int(port)), PATIENCE_S)
    return context.wrap_socket(sock, server_hostname=host)


def ask_versions(sock):
    """Ask for the API versions; True once answered whole."""
    header = frame.request_header(18, 0, 7, "test")
    sock.sendall(b"".join(map(bytes, frame.finish(ApiVersionsRequest().encode(0), header))))
    size = int.from_bytes(read(sock, 4))
    return read(sock, size)[:4] == (7).to_bytes(4)


def read(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        assert more, "closed"
        data += more
    return data


def common_name(sock):
    return dict(part[0] for part in sock.getpeercert()["subject"])["commonName"]


@pytest.mark.parametrize(
    ("protocols", "offered", "version"),
    [
        ("TLSv1.2,TLSv1.3", None, "TLSv1.3"),
        ("TLSv1.2", None, "TLSv1.2"),
        ("TLSv1.3", None, "TLSv1.3"),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_2, None),
    ],
)
def test_versions(files, protocols, offered, version):
    context = client_context(files)
    if offered:
        context.maximum_version = offered
    with barnabas.Broker(settings=settings(files, ssl_enabled_protocols=protocols)) as broker:
        if version is None:
            with pytest.raises(ssl.SSLError):
                connect(broker, context)
            return
        with connect(broker, context) as sock:
            assert sock.version() == version
            assert ask_versions(sock)


@pytest.mark.parametrize(
    ("suites", "version", "cipher"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", None),
    ],
)
def test_ciphers(files, suites, version, cipher):
    with (
        barnabas.Broker(settings=settings(files, ssl_cipher_suites=suites)) as broker,
        connect(broker, client_context(files)) as sock,
    ):
        assert sock.version() == version
        assert cipher in (None, sock.cipher()[0])


def test_names_of_ciphers():
    assert openssl_cipher("TLS_RSA_WITH_AES_128_CBC_SHA256") == "AES128-SHA256"
    assert (
        openssl_cipher("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")
        == "ECDHE-RSA-CHACHA20-POLY1305"
    )
    assert openssl_cipher("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384") == "DHE-RSA-AES256-GCM-SHA384"


def test_keys_as_text_and_with_a_password(files):
    pem = files.server.read_text()
    cut = pem.index("-----BEGIN CERTIFICATE")
    texts = settings(files)
    del texts["ssl.keystore.location"]
    texts |= {"ssl.keystore.key": pem[:cut], "ssl.keystore.certificate.chain": pem[cut:]}
    with barnabas.Broker(settings=texts) as broker, connect(broker, client_context(files)) as sock:
        assert ask_versions(sock)


@pytest.mark.parametrize(
    "content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nhush\n-----END CERTIFICATE-----\n"]
)
def test_keys_that_cannot_be_read(files, content):
    files.server.write_text(content)
    with pytest.raises(TlsProblem, match=r"cannot be read from .*server\.pem") as caught:
        barnabas.Broker(settings=settings(files))
    assert "hush" not in str(caught.value)


def test_a_wrong_password_of_a_key(files):
    from cryptography.hazmat.primitives.asymmetric import ec

    files.server.write_bytes(
        security_kit.key_bytes(ec.generate_private_key(ec.SECP256R1()), "hush")
    )
    config = BrokerConfig(settings(files, ssl_key_password="wrong-hush"))
    with pytest.raises(TlsProblem) as caught:
        server_context(TlsSettings(config, "SSL"))
    assert "hush" not in str(caught.value)


def test_certificates_of_clients_name_them(files):
    texts = settings(
        files, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(.*?),O=.*$/$1/U"
    )
    with barnabas.Broker(settings=texts) as broker:
        context = client_context(files)
        context.load_cert_chain(files.client)
        with connect(broker, context) as sock:
            assert ask_versions(sock)
            (link,) = broker._broker.server._connections.values()
            assert str(link.principal) == "User:ALICE"


def test_a_certificate_that_no_rule_makes_a_user_of_is_refused(files, caplog):
    texts = settings(
        files, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=bob,.*$/bob/"
    )
    context = client_context(files)
    context.load_cert_chain(files.client)
    with barnabas.Broker(settings=texts) as broker, connect(broker, context) as sock:
        assert is_closed(sock)
    assert "no rule of ssl.principal.mapping.rules fits CN=alice" in caplog.text


@pytest.mark.parametrize("shown", ["nobody", "stranger"])
def test_clients_without_a_good_certificate_are_refused(files, shown):
    with barnabas.Broker(settings=settings(files, ssl_client_auth="required")) as broker:
        context = client_context(files)
        if shown == "stranger":
            context.load_cert_chain(files.stranger)
        # With TLS 1.3 the client learns of it when it reads.
        with pytest.raises(OSError), connect(broker, context) as sock:  # noqa: PT011 (SSLError or reset)
            ask_versions(sock)


def test_requested_certificates_may_be_missing(files):
    with (
        barnabas.Broker(settings=settings(files, ssl_client_auth="requested")) as broker,
        connect(broker, client_context(files)) as sock,
    ):
        assert ask_versions(sock)
        (link,) = broker._broker.server._connections.values()
        assert str(link.principal) == "User:ANONYMOUS"


def wait_for_name(broker, context, name):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with connect(broker, context) as sock:
            if common_name(sock) == name:
                return
        assert time.monotonic() < deadline, "the old certificate is still shown"


def test_a_changed_file_is_read_again(files, monkeypatch):
    monkeypatch.setattr(tls_module, "LOOK_AGAIN_MS", 0)
    context = client_context(files)
    with (
        barnabas.Broker(settings=settings(files)) as broker,
        connect(broker, context) as before,
    ):
        assert common_name(before) == "localhost"
        security_kit.renew_server(files, "renewed")
        wait_for_name(broker, context, "renewed")
        assert ask_versions(before), "connections that were open stay"


def test_a_bad_file_leaves_what_was(files, monkeypatch, caplog):
    monkeypatch.setattr(tls_module, "LOOK_AGAIN_MS", 0)
    caplog.set_level(logging.ERROR)
    context = client_context(files)
    with barnabas.Broker(settings=settings(files)) as broker:
        files.server.write_text("nonsense")
        deadline = time.monotonic() + PATIENCE_S
        while "stay as they were" not in caplog.text:
            with connect(broker, context) as sock:
                assert common_name(sock) == "localhost"
            assert time.monotonic() < deadline


def test_a_changed_setting_is_taken(files):
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    (files.folder / "other").mkdir()
    other = security_kit.make_certificates(files.folder / "other")
    context = client_context(files)
    context.load_verify_locations(other.authority)
    texts = settings(files) | {"listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}
    security_kit.renew_server(other, "elsewhere")
    with barnabas.Broker(settings=texts) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_of("PLAINTEXT")})
        entry = ConfigEntry(
            "listener.name.ssl.ssl.keystore.location",
            str(other.server),
            incremental_operation=AlterConfigOpType.SET,
        )
        type_entry = ConfigEntry(
            "listener.name.ssl.ssl.keystore.type",
            "PEM",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry, type_entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(PATIENCE_S)
        wait_for_name(broker, context, "elsewhere")


# Clients that do no good


def is_closed(sock):
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def raw(broker):
    host, _, port = broker.bootstrap_of("SSL").rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10" + bytes(16), b"\x16\x03\x01\xff\xff" + bytes(300)],
)
def test_garbage_closes_one_connection_and_nothing_else(files, garbage):
    with (
        barnabas.Broker(settings=settings(files)) as broker,
        raw(broker) as sock,
        connect(broker, client_context(files)) as good,
    ):
        sock.sendall(garbage)
        sock.shutdown(socket.SHUT_WR)
        assert is_closed(sock)
        assert ask_versions(good)


def test_a_handshake_without_end_is_closed(files, monkeypatch):
    monkeypatch.setattr(server_module, "PROOF_MS_MAX", 2000)  # who is good must be done by then
    with (
        barnabas.Broker(settings=settings(files)) as broker,
        raw(broker) as silent,
        raw(broker) as half,
        connect(broker, client_context(files)) as good,
    ):
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert ask_versions(good)
        assert is_closed(silent)
        assert is_closed(half)
        assert ask_versions(good), "who is done stays"


def test_connections_that_come_and_go_leave_nothing_behind(files):
    with barnabas.Broker(settings=settings(files)) as broker:
        server = broker._broker.server
        before = len(server.loop._timers)
        for _ in range(50):
            with raw(broker) as sock:
                sock.sendall(b"garbage")
                assert is_closed(sock)
        assert len(server.loop._timers) - before < 10


def test_bytes_that_come_one_by_one(files):
    """A whole conversation through a socket that carries little at a time."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(files).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with barnabas.Broker(settings=settings(files)) as broker, raw(broker) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(call):
            while True:
                try:
                    result = call()
                except ssl.SSLWantReadError:
                    result = None
                data = outgoing.read()
                for position in range(0, len(data), 7):
                    sock.sendall(data[position : position + 7])
                if result is not None:
                    return result
                incoming.write(sock.recv(11))

        step(lambda: client.do_handshake() or True)
        header = frame.request_header(18, 0, 7, "test")
        request = b"".join(map(bytes, frame.finish(ApiVersionsRequest().encode(0), header)))
        step(lambda: client.write(request))
        assert step(lambda: client.read(8))[4:] == (7).to_bytes(4)


def tls_pair(files):
    """A server's socket with a client's at the other end, both done with their handshake."""
    near, far = socket.socketpair()
    config = BrokerConfig({"log.dirs": "/data", **settings(files)})
    context = server_context(TlsSettings(config, "SSL"))
    ends = [TlsSocket(near, context), TlsSocket(far, client_context(files), "127.0.0.1")]
    near.setblocking(False)
    far.setblocking(False)
    shaking = list(ends)
    while shaking:
        for end in ends:
            with contextlib.suppress(BlockingIOError):
                end.receive_handshake()
            if end in shaking and end.shake():
                shaking.remove(end)
            end.send(end.take_outgoing())
    return ends


def test_a_part_without_bytes_is_sent_by_sending_nothing(files):
    """Answers to fetches without records have such a part: if it was the last one, sealing it gave nothing to send, and an error."""
    server, client = tls_pair(files)
    outbox = TlsOutbox(SharedReads(), server)
    outbox.extend([b"answer", b""])
    while outbox and outbox.send_some(server):
        pass
    assert not outbox
    outbox.append(b"")
    assert outbox.send_some(server)
    assert not outbox
    room = memoryview(bytearray(100))
    assert bytes(room[: client.recv_into(room)]) == b"answer"
    server.close()
    client.close()
