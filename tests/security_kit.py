"""What tests of logins and TLS need: certificates, tokens, settings for every kind of listener."""

from __future__ import annotations

import datetime
import ipaddress
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ISSUER = "https://issuer.example"
AUDIENCE = "barnabas"
KEY_PASSWORD = "key-hush-7"
PASSWORDS = {"admin": "admin-hush-1", "alice": "alice-hush-2"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass
class Certificates:
    """Files in one folder, in PEM."""

    folder: Path
    #: Who signed everybody.
    authority: Path
    #: Key and certificates of a broker at 127.0.0.1 and localhost.
    server: Path
    #: Key and certificates of CN=alice.
    client: Path
    #: The same as two files, as librdkafka and kafka-python want them.
    client_key: Path
    client_certificate: Path
    #: A client that another authority signed.
    stranger: Path


def make_certificates(folder: Path) -> Certificates:
    """Make an authority, a server, a client and a stranger."""
    authority_key, authority = _authority("Test authority")
    other_key, other = _authority("Another authority")
    server = signed(authority_key, authority, "localhost", is_server=True)
    client = signed(authority_key, authority, "alice")
    stranger = signed(other_key, other, "alice")
    files = Certificates(
        folder,
        *(
            folder / f"{name}.pem"
            for name in ("ca", "server", "client", "client-key", "client-cert", "stranger")
        ),
    )
    files.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    files.server.write_bytes(bundle(*server))
    files.client.write_bytes(bundle(*client))
    files.client_key.write_bytes(key_bytes(client[0]))
    files.client_certificate.write_bytes(client[1].public_bytes(Encoding.PEM))
    files.stranger.write_bytes(bundle(*stranger))
    (folder / "ca-key.pem").write_bytes(key_bytes(authority_key))
    return files


def renew_server(files: Certificates, common_name: str) -> None:
    """Give the server another certificate of the same authority, under the same file name."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any = load_pem_private_key((files.folder / "ca-key.pem").read_bytes(), None)
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    fresh = files.server.with_suffix(".new")
    fresh.write_bytes(bundle(*signed(key, authority, common_name, is_server=True)))
    fresh.replace(files.server)


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "AT"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Castle, Ltd."),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: Any) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
    )


def _authority(common_name: str) -> tuple[Any, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    built = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, built.sign(key, hashes.SHA256())


def signed(
    authority_key: Any, authority: x509.Certificate, common_name: str, *, is_server: bool = False
) -> tuple[Any, x509.Certificate]:
    """Make a key and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    built = _builder(_name(common_name), authority.subject, key).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
        critical=False,
    )
    if is_server:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return key, built.sign(authority_key, hashes.SHA256())


def key_bytes(key: Any, password: str | None = None) -> bytes:
    """Write a private key."""
    secrecy = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secrecy))


def bundle(key: Any, certificate: x509.Certificate, password: str | None = None) -> bytes:
    """Write key and certificate into one file, as Kafka reads it."""
    return key_bytes(key, password) + certificate.public_bytes(Encoding.PEM)


class Tokens:
    """Signs tokens, and has the key set that a broker checks them with."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / "keys.json"
        public = json.loads(ECAlgorithm.to_jwk(self._key.public_key())) | {"kid": "one"}
        self.path.write_text(json.dumps({"keys": [public]}))

    @property
    def url(self) -> str:
        return self.path.as_uri()

    def make(self, name: str, lifetime_s: int = 600, **claims: Any) -> str:
        now = int(time.time())
        good = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + lifetime_s}
        return jwt.encode({**good, **claims}, self._key, "ES256", headers={"kid": "one"})


def plain_jaas() -> str:
    """Name the users that log in by PLAIN."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


def all_listeners(files: Certificates, tokens: Tokens) -> dict[str, str]:
    """Give settings with a listener of every kind, each on a free port of its own."""
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }
    names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")
    jaas = {
        f"listener.name.{name}.plain.sasl.jaas.config": plain_jaas()
        for name in ("sasl_plaintext", "sasl_ssl")
    }
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(
            [*(f"{name}:{name}" for name in names[:4]), "MUTUAL:SSL"]
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "1",
        "sasl.oauthbearer.jwks.endpoint.url": tokens.url,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": tokens.url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        **tls,
        **jaas,
    }


def make_scram_users(bootstrap: str, passwords: Mapping[str, str] = PASSWORDS) -> None:
    """Let users log in by SCRAM, asked for on a listener that lets everybody."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    changes = [
        UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for name, password in passwords.items()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for change in changes:  # librdkafka takes one for each user at a time
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(30)
