"""Handshakes with a damaged certificate: OpenSSL has no name for some of what is wrong with them. Each is refused, and others are served."""

import contextlib
import random
import socket
import ssl

from chaos.wire_kit import BrokerProcess, split
from security_kit import make_certificates

HANDSHAKES = 60
TIMEOUT_S = 30
#: In the flight of a client that begins with its certificate.
CERTIFICATE = slice(20, 60)


def client_context(files):
    """Of TLS 1.2: there the certificate can be damaged on its way."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(files.authority)
    context.load_cert_chain(files.client)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def shake(address, context, damage=None):
    """Shake hands; `damage` changes what is sent in the second flight. Tells whether the broker agreed."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    with socket.create_connection(address, TIMEOUT_S) as connection:
        for flight in range(4):
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                return True
            data = bytearray(outgoing.read())
            if flight == 1 and damage is not None:
                damage(data)
            connection.sendall(data)
            got = connection.recv(65_536)
            if not got:
                return False
            incoming.write(got)
    return False


def test_damaged_certificates_harm_nobody(tmp_path):
    files, rng = make_certificates(tmp_path), random.Random(7)

    def damage(data):
        data[rng.choice(range(*CERTIFICATE.indices(len(data))))] ^= 0x55

    settings = [
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={files.server}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={files.authority}",
        "ssl.client.auth=required",
        "security.inter.broker.protocol=SSL",
    ]
    with BrokerProcess(
        tmp_path / "data", listen=["SSL://127.0.0.1:0"], settings=settings
    ) as broker:
        address, context = split(broker.bootstrap), client_context(files)
        for _ in range(HANDSHAKES):
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                assert not shake(address, context, damage)
        assert shake(address, context)
        assert "TLS handshake failed: [SSL] ASN1 lib" in broker.log
        assert broker.terminate() == 0
