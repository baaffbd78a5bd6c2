"""Client settings under Kafka's names, checked, as one value.

Job: from texts, as `kafka.*` options or -X give them, to a frozen, picklable object; a sentence for everything that cannot be. Must not
know who uses them, or open a file.

Invariants: no secret is in a repr or an error; a setting that was not given has Kafka's default, but for `max.partition.fetch.bytes` and
`batch.size`, which are 4 MB and 256 KB, as reading and writing in bulk want it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.jaas import JaasError, read_jaas
from barnabas.client.setting_names import SYNONYMS, WITHOUT_EFFECT
from barnabas.wire.compression import BY_NAME as CODECS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from barnabas.client.talk import Address

DEFAULT_PORT: Final = 9092
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"
_PORT_MAX: Final = 65_535
_INT_MAX: Final = 2**31 - 1


class SettingError(ValueError):
    """A setting that cannot be used, in one sentence."""


def _setting(
    name: str, default: object, parse: Callable[[str, str], Any], *, secret: bool = False
) -> Any:  # noqa: ANN401
    return field(default=default, repr=not secret, metadata={"name": name, "parse": parse})


# -- how values are read -----------------------------------------------------------------------


def _text(_name: str, value: str) -> str:
    return value


def _integer(lowest: int, highest: int = _INT_MAX) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise SettingError(f"{name}={value!r}: a number from {lowest} to {highest} is expected")
        return number

    return parse


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    known = {each.lower(): each for each in allowed}

    def parse(name: str, value: str) -> str:
        if value.lower() not in known:
            choices = ", ".join(f"'{each}'" for each in allowed)
            raise SettingError(f"{name}={value!r}: allowed are {choices}")
        return known[value.lower()]

    return parse


def _truth(name: str, value: str) -> bool:
    return _one_of("true", "false")(name, value) == "true"


def _pem_store(name: str, value: str) -> str:
    if value.lower().endswith((".jks", ".p12", ".pfx", ".keystore")):
        raise SettingError(
            f"{name}={value!r} is a Java key store, which only Java reads: give a PEM file "
            "(keytool -importkeystore to PKCS12, then openssl pkcs12 -nokeys -out ca.pem)"
        )
    return value


def _store_type(name: str, value: str) -> str:
    if value.upper() != "PEM":
        raise SettingError(
            f"{name}={value!r}: only PEM files can be read here, not Java's key stores"
        )
    return value


def parse_addresses(name: str, value: str) -> tuple[Address, ...]:
    """Read `HOST:PORT,HOST`; a protocol in front is dropped, as librdkafka does."""
    addresses = []
    for item in value.split(","):
        host, colon, port = item.strip().rpartition("://")[2].rpartition(":")
        if not colon or port.endswith("]"):
            host, port = (f"{host}:{port}" if colon else port), str(DEFAULT_PORT)
        if not host or not port.isdigit() or not 0 < int(port) <= _PORT_MAX:
            raise SettingError(f"{name}={value!r}: {item.strip()!r} is not HOST:PORT")
        addresses.append((host.strip("[]"), int(port)))
    return tuple(addresses)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Everything that a client can be told. Make it with `parse`, or with fields in tests and tools."""

    bootstrap: tuple[Address, ...] = _setting("bootstrap.servers", (), parse_addresses)
    client_id: str = _setting("client.id", "barnabas", _text)

    security_protocol: str = _setting("security.protocol", "PLAINTEXT", _one_of(*PROTOCOLS))
    sasl_mechanism: str = _setting("sasl.mechanism", "", _one_of(*MECHANISMS))
    sasl_username: str = _setting("sasl.username", "", _text)
    sasl_password: str = _setting("sasl.password", "", _text, secret=True)
    oauth_endpoint: str = _setting("sasl.oauthbearer.token.endpoint.url", "", _text)
    oauth_client_id: str = _setting("sasl.oauthbearer.client.id", "", _text)
    oauth_client_secret: str = _setting("sasl.oauthbearer.client.secret", "", _text, secret=True)
    oauth_scope: str = _setting("sasl.oauthbearer.scope", "", _text)
    #: What gives the token of OAUTHBEARER when there is no endpoint to ask; only code can set it.
    token_provider: Callable[[], str] | None = field(default=None, repr=False)

    ssl_ca_location: str = _setting("ssl.ca.location", "", _pem_store)
    ssl_truststore_location: str = _setting("ssl.truststore.location", "", _pem_store)
    ssl_truststore_type: str = _setting("ssl.truststore.type", "PEM", _store_type)
    ssl_ca_pem: str = _setting("ssl.ca.pem", "", _text)
    ssl_certificate_location: str = _setting("ssl.certificate.location", "", _pem_store)
    ssl_keystore_location: str = _setting("ssl.keystore.location", "", _pem_store)
    ssl_keystore_type: str = _setting("ssl.keystore.type", "PEM", _store_type)
    ssl_key_location: str = _setting("ssl.key.location", "", _text)
    ssl_key_password: str = _setting("ssl.key.password", "", _text, secret=True)
    ssl_identification: str = _setting(
        "ssl.endpoint.identification.algorithm", "https", _one_of("https", "none", "")
    )
    ssl_verification: bool = _setting("enable.ssl.certificate.verification", True, _truth)

    request_timeout_ms: int = _setting("request.timeout.ms", 30_000, _integer(1))
    api_timeout_ms: int = _setting("default.api.timeout.ms", 60_000, _integer(0))
    delivery_timeout_ms: int = _setting("delivery.timeout.ms", 120_000, _integer(0))
    connect_timeout_ms: int = _setting("socket.connection.setup.timeout.ms", 10_000, _integer(1))
    retry_backoff_ms: int = _setting("retry.backoff.ms", 100, _integer(1))
    retry_backoff_max_ms: int = _setting("retry.backoff.max.ms", 1_000, _integer(1))
    receive_buffer_bytes: int = _setting("receive.buffer.bytes", -1, _integer(-1))
    send_buffer_bytes: int = _setting("send.buffer.bytes", -1, _integer(-1))

    isolation_level: str = _setting(
        "isolation.level", READ_UNCOMMITTED, _one_of(READ_UNCOMMITTED, READ_COMMITTED)
    )
    max_partition_fetch_bytes: int = _setting(
        "max.partition.fetch.bytes", 4 * 1024 * 1024, _integer(1, 1024 * 1024 * 1024)
    )
    fetch_max_bytes: int = _setting(
        "fetch.max.bytes", 50 * 1024 * 1024, _integer(1, 1024 * 1024 * 1024)
    )

    #: Kept for the record: a producer with sequences always waits for all replicas.
    acks: str = _setting("acks", "all", _one_of("all", "-1", "0", "1"))
    batch_size: int = _setting("batch.size", 256 * 1024, _integer(0))
    compression_type: str = _setting("compression.type", "none", _one_of(*CODECS))
    max_request_size: int = _setting("max.request.size", 1024 * 1024, _integer(1))
    max_in_flight: int = _setting("max.in.flight.requests.per.connection", 5, _integer(1, 5))
    transaction_timeout_ms: int = _setting("transaction.timeout.ms", 60_000, _integer(1))

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, lenient: bool = False) -> Self:
        """Read settings by their names; SettingError for what cannot be.

        `lenient` passes over unknown names: for who has them checked elsewhere.
        """
        known = _by_name(cls)
        values: dict[str, Any] = {}
        for given, value in texts.items():
            name = SYNONYMS.get(given, given)
            if name in known:
                target, parse = known[name]
                values[target] = parse(given, value)
            elif name == "sasl.jaas.config":
                values = {**_from_jaas(value), **values}
            elif name in ("ssl.certificate.pem", "ssl.key.pem"):
                raise SettingError(
                    f"{given} cannot be given as text here: write it to a file and name that by "
                    "ssl.certificate.location and ssl.key.location"
                )
            elif name not in WITHOUT_EFFECT and not lenient:
                raise SettingError(_unknown(given, known))
        settings = cls(**values)
        settings._check()
        return settings

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401  # fields of many types
        """Copy with some fields changed."""
        return replace(self, **changes)

    @property
    def uses_tls(self) -> bool:
        """Are connections encrypted?"""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Does the client say who it is?"""
        return self.security_protocol.startswith("SASL")

    def _check(self) -> None:
        if not self.bootstrap:
            raise SettingError(
                "bootstrap.servers is missing: give HOST:PORT of one or more brokers"
            )
        if not self.uses_sasl:
            return
        if not self.sasl_mechanism:
            raise SettingError(
                f"security.protocol={self.security_protocol} needs sasl.mechanism: one of {', '.join(MECHANISMS)}"
            )
        if self.sasl_mechanism == "OAUTHBEARER":
            if not (self.oauth_endpoint or self.token_provider):
                raise SettingError(
                    "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, where tokens are given out"
                )
        elif not (self.sasl_username and self.sasl_password):
            raise SettingError(
                f"sasl.mechanism={self.sasl_mechanism} needs sasl.username and sasl.password, or sasl.jaas.config"
            )


def _by_name(cls: type[ClientSettings]) -> dict[str, tuple[str, Callable[[str, str], Any]]]:
    return {
        each.metadata["name"]: (each.name, each.metadata["parse"])
        for each in fields(cls)
        if each.metadata
    }


#: Options of login modules, and the fields that they fill.
_JAAS_OPTIONS: Final = {
    "username": "sasl_username",
    "password": "sasl_password",
    "clientId": "oauth_client_id",
    "clientSecret": "oauth_client_secret",
    "scope": "oauth_scope",
}


def _from_jaas(text: str) -> dict[str, str]:
    try:
        _, options = read_jaas(text)
    except JaasError as problem:
        raise SettingError(str(problem)) from None
    return {_JAAS_OPTIONS[name]: value for name, value in options.items() if name in _JAAS_OPTIONS}


def _unknown(name: str, known: Mapping[str, object]) -> str:
    names = [*known, *SYNONYMS, *sorted(WITHOUT_EFFECT), "sasl.jaas.config"]
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"there is no client setting '{name}'{hint}"
