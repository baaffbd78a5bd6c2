"""TLS as the settings say: keys, certificates, whom to trust; read again when they change.

Job: OpenSSL contexts for listeners and for connections to other brokers. Must not know: connections.
Invariants: what cannot be read leaves what was read before in force, and is told once; private keys and their passwords are in no
message; TLS 1.2 is the oldest there is; a client cannot ask for another handshake on the same connection.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.distinguished_name import MappingRules, Subject, subject_text
from barnabas.model.config.security_rules import client_auth_of
from barnabas.runtime.tls_problem import TlsProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.handshakes import Handshakes
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.runtime.loop import Loop

#: How often files are looked at, at most: when somebody connects.
LOOK_AGAIN_MS: Final = 1_000
_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_AUTH: Final = {
    "required": ssl.CERT_REQUIRED,
    "requested": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
}
_TLS_13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")  # fmt: skip

log = logging.getLogger(__name__)


class TlsSettings:
    """What one listener's settings say, with values read."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        """Read the settings; files are read later."""
        self._config = config
        self.listener = listener

    def get(self, name: str) -> Any:  # noqa: ANN401
        """Give the value of `ssl.NAME`."""
        return self._config.of_listener(f"ssl.{name}", self.listener)

    @property
    def client_auth(self) -> str:
        """Tell whether clients must show a certificate."""
        return client_auth_of(self._config, self.listener)

    def fingerprint(self) -> tuple[object, ...]:
        """Give what changes when a context would: settings, and when files were written."""
        names = (
            "keystore.location", "keystore.certificate.chain", "keystore.key", "key.password",
            "truststore.location", "truststore.certificates", "enabled.protocols", "cipher.suites",
            "endpoint.identification.algorithm",
        )  # fmt: skip
        return (
            *(self.get(name) for name in names),
            self.client_auth,
            *(_stamp(self.get(f"{store}.location")) for store in ("keystore", "truststore")),
        )


def _stamp(path: str | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of a listener; TlsProblem if something cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_key(context, settings)
    context.verify_mode = _AUTH[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context with which this broker connects to others; TlsProblem if something cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    context.check_hostname = bool(settings.get("endpoint.identification.algorithm"))
    has_trust = settings.get("truststore.location") or settings.get("truststore.certificates")
    if has_trust:
        _load_trust(context, settings)
    else:
        context.load_default_certs()
    _load_key(context, settings)
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [_VERSIONS[name] for name in settings.get("enabled.protocols") or _VERSIONS]
    ciphers = list(settings.get("cipher.suites") or ())
    older = [cipher for cipher in ciphers if cipher not in _TLS_13]
    if ciphers and not older:
        versions = [ssl.TLSVersion.TLSv1_3]
    elif ciphers and len(older) == len(ciphers):
        versions = [ssl.TLSVersion.TLSv1_2]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(openssl_cipher(cipher) for cipher in older))
        except ssl.SSLError:
            raise TlsProblem(
                f"ssl.cipher.suites has none that is known: {', '.join(older)}"
            ) from None


def openssl_cipher(name: str) -> str:
    """Write a cipher's standard name (TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) as OpenSSL does; others stay as they are."""
    exchange, with_, rest = name.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return name
    rest = rest.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    rest = rest.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    parts = [] if exchange == "RSA" else [exchange]
    return "-".join([*parts, rest]).replace("_", "-")


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    password = settings.get("key.password") or ""
    location = settings.get("keystore.location")
    place = location or "ssl.keystore.key and ssl.keystore.certificate.chain"
    try:
        with _key_file(settings) as path:
            context.load_cert_chain(path, password=lambda: password)
    except (OSError, ValueError) as problem:  # SSLError is an OSError
        reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None)
        raise TlsProblem(
            f"the key and certificates of {settings.listener} cannot be read from {place}:"
            f" {reason or 'is it PEM, and ssl.key.password right?'}"
        ) from None


@contextlib.contextmanager
def _key_file(settings: TlsSettings) -> Iterator[str]:
    """Give a file with key and certificates: OpenSSL reads them from nowhere else here."""
    location = settings.get("keystore.location")
    if location is not None:
        yield location
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only its owner can read it
        file.write(
            f"{settings.get('keystore.key')}\n{settings.get('keystore.certificate.chain')}\n"
        )
        file.flush()
        yield file.name


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    location, text = settings.get("truststore.location"), settings.get("truststore.certificates")
    try:
        context.load_verify_locations(location, cadata=None if location else text)
    except (OSError, ValueError):
        raise TlsProblem(
            f"the certificates that {settings.listener} trusts cannot be read from"
            f" {location or 'ssl.truststore.certificates'}: is it PEM?"
        ) from None


class TlsListener:
    """The TLS of one listener, kept as its settings and files are."""

    def __init__(
        self, loop: Loop, config: BrokerConfig, listener: str, handshakes: Handshakes
    ) -> None:
        """Read everything; TlsProblem if it cannot be."""
        self._loop = loop
        self._settings = TlsSettings(config, listener)
        self._fingerprint = self._settings.fingerprint()
        self._config = config
        self._looked_ms = 0
        self._is_reading = False
        self.handshakes = handshakes
        self.context = server_context(self._settings)
        try:
            self._rules = MappingRules(str(self._settings.get("principal.mapping.rules")))
        except ValueError as problem:
            raise TlsProblem(f"ssl.principal.mapping.rules: {problem}") from None

    def name_of(self, subject: Subject) -> str:
        """Make a user's name of the name in a certificate; ValueError if no rule fits: nobody is let in then, as in Kafka."""
        return self._rules.apply(subject_text(subject))

    def look(self, config: BrokerConfig, now_ms: int) -> None:
        """See whether settings or files have changed, and if so read them beside the loop: the next connections use them."""
        if config is self._config and now_ms - self._looked_ms < LOOK_AGAIN_MS:
            return
        self._looked_ms, self._config = now_ms, config
        settings = TlsSettings(config, self._settings.listener)
        fingerprint = settings.fingerprint()
        if fingerprint == self._fingerprint or self._is_reading:
            return
        self._is_reading = True
        self._fingerprint, self._settings = fingerprint, settings
        self._loop.run(lambda: server_context(settings), self._on_read)

    def _on_read(self, context: ssl.SSLContext | None, problem: BaseException | None) -> None:
        self._is_reading = False
        name = self._settings.listener
        if context is None:
            log.error("the certificates of %s stay as they were: %s", name, problem)
        else:
            self.context = context
            log.info("the certificates of %s were read again", name)
