"""What the settings of listeners must be for logins and TLS to work as they say.

Job: refuse a configuration under which a listener could not do what its protocol promises, before it listens.
Must not know: how logins and TLS are done. Invariants: a configuration that passes here leaves no login unchecked: each mechanism
has what it checks against; no problem tells a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.config.jaas import parse_jaas
from barnabas.model.config.types import ConfigProblem

if TYPE_CHECKING:
    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.model.config.jaas import Jaas
    from barnabas.model.config.listeners import Listener

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
#: With which a broker can log in at another one.
_OF_BROKERS: Final = MECHANISMS[:3]
_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


def check_security(config: BrokerConfig) -> None:
    """Raise `ConfigProblem` for the first listener that could not do what it says."""
    for listener in config.listeners:
        if listener.is_encrypted:
            check_tls(config, listener.name)
        if listener.wants_login:
            _check_logins(config, listener)
    if config.get("zookeeper.connect") is not None:
        _check_inter_broker(config)
    if config.get("zookeeper.set.acl") and config.get("zookeeper.digest.credentials") is None:
        raise ConfigProblem(
            "zookeeper.set.acl", "zookeeper.set.acl needs zookeeper.digest.credentials"
        )


def jaas_of(config: BrokerConfig, listener: str, mechanism: str) -> Jaas:
    """Read the login module of a mechanism of a listener; `ConfigProblem` if there is none."""
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.of_listener("sasl.jaas.config", listener, mechanism)
    if text is None:
        raise ConfigProblem(name, f"{name} is not set, and {mechanism} needs it")
    try:
        return parse_jaas(str(text))
    except ValueError as problem:
        raise ConfigProblem(name, f"{name} cannot be read: {problem}") from None


def mechanisms_of(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Give the login mechanisms of a listener."""
    found = config.of_listener("sasl.enabled.mechanisms", listener)
    assert isinstance(found, tuple)
    return found


def _check_logins(config: BrokerConfig, listener: Listener) -> None:
    mechanisms = mechanisms_of(config, listener.name)
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            raise ConfigProblem(
                "sasl.enabled.mechanisms",
                f"{listener} offers {mechanism}, which is not supported; sasl.enabled.mechanisms (or"
                f" listener.name.{listener.name.lower()}.sasl.enabled.mechanisms) may list {', '.join(MECHANISMS)}",
            )
    if not mechanisms:
        raise ConfigProblem(
            "sasl.enabled.mechanisms", f"{listener} wants logins and offers no mechanism for them"
        )
    if PLAIN in mechanisms and not jaas_of(config, listener.name, PLAIN).users:
        name = f"listener.name.{listener.name.lower()}.plain.sasl.jaas.config"
        raise ConfigProblem(name, f'{name} names nobody who may log in: user_NAME="PASSWORD"')
    if OAUTHBEARER in mechanisms:
        _check_tokens(config, listener)


def _check_tokens(config: BrokerConfig, listener: Listener) -> None:
    """Let no token be taken whose signature, issuer or audience nobody checks (CVE-2026-110985)."""
    for name in ("jwks.endpoint.url", "expected.issuer", "expected.audience"):
        setting = f"sasl.oauthbearer.{name}"
        if not config.of_listener(setting, listener.name, OAUTHBEARER):
            raise ConfigProblem(
                setting,
                f"{listener} offers OAUTHBEARER, and tokens cannot be checked without {setting}",
            )
    url = str(config.of_listener("sasl.oauthbearer.jwks.endpoint.url", listener.name, OAUTHBEARER))
    allowed = config.get_list("org.apache.kafka.sasl.oauthbearer.allowed.urls")
    if url not in allowed:
        raise ConfigProblem(
            "sasl.oauthbearer.jwks.endpoint.url",
            f"{url} is not among org.apache.kafka.sasl.oauthbearer.allowed.urls ({', '.join(allowed) or 'none'})",
        )
    if not url.startswith(("https://", "file://")):
        raise ConfigProblem(
            "sasl.oauthbearer.jwks.endpoint.url",
            f"{url} is neither https:// nor file://: keys that anybody could exchange on their way prove nothing",
        )


def check_tls(config: BrokerConfig, listener: str) -> None:
    """Raise `ConfigProblem` if a listener has no key and certificate that can be read."""
    for store in ("keystore", "truststore"):
        _check_store(config, listener, store)
    texts = [
        config.of_listener(f"ssl.keystore.{name}", listener)
        for name in ("location", "certificate.chain", "key")
    ]
    if texts[0] is None and (texts[1] is None or texts[2] is None):
        raise ConfigProblem(
            "ssl.keystore.location",
            f"{listener} speaks TLS and has no key: set ssl.keystore.location to a PEM file with the private key and the"
            " certificates, or ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    auth = client_auth_of(config, listener)
    trusts = [
        config.of_listener(f"ssl.truststore.{name}", listener)
        for name in ("location", "certificates")
    ]
    if auth != "none" and trusts == [None, None]:
        raise ConfigProblem(
            "ssl.truststore.location",
            f"{listener} looks at clients' certificates (ssl.client.auth={auth}) and trusts nobody's: set ssl.truststore.location",
        )
    for protocol in config.of_listener("ssl.enabled.protocols", listener) or ():  # type: ignore[union-attr]
        if protocol not in _PROTOCOLS:
            raise ConfigProblem(
                "ssl.enabled.protocols",
                f"{protocol} is not a version of TLS that is safe; there are {', '.join(_PROTOCOLS)}",
            )


def client_auth_of(config: BrokerConfig, listener: str) -> str:
    """Tell whether clients must show a certificate. Where they log in, only the listener's own setting asks for one, as in Kafka."""
    own = f"listener.name.{listener.lower()}.ssl.client.auth"
    wants_login = any(one.name == listener and one.wants_login for one in config.listeners)
    if wants_login and own not in config.static and own not in config.dynamic:
        return "none"
    return str(config.of_listener("ssl.client.auth", listener))


def _check_store(config: BrokerConfig, listener: str, store: str) -> None:
    location = config.of_listener(f"ssl.{store}.location", listener)
    kind = config.of_listener(f"ssl.{store}.type", listener)
    if location is not None and kind != "PEM":
        raise ConfigProblem(
            f"ssl.{store}.type",
            f"ssl.{store}.type is {kind}, and only PEM is read here. If {location} is PEM, set ssl.{store}.type=PEM; else convert it:"
            f" keytool -importkeystore -srckeystore {location} -destkeystore {store}.p12 -deststoretype PKCS12 &&"
            f" openssl pkcs12 -in {store}.p12 -out {store}.pem",
        )


def _check_inter_broker(config: BrokerConfig) -> None:
    name = config.inter_broker_listener
    listener = next((one for one in config.listeners if one.name == name), None)
    if listener is None:
        names = ", ".join(one.name for one in config.listeners)
        raise ConfigProblem(
            "inter.broker.listener.name",
            f"inter.broker.listener.name is {name}; there are the listeners {names}",
        )
    if not listener.wants_login:
        return
    mechanism = config.get_str("sasl.mechanism.inter.broker.protocol")
    if mechanism not in _OF_BROKERS or mechanism not in mechanisms_of(config, name):
        raise ConfigProblem(
            "sasl.mechanism.inter.broker.protocol",
            f"brokers log in at {listener} with {mechanism}: sasl.mechanism.inter.broker.protocol must be one of"
            f" {', '.join(_OF_BROKERS)}, and offered there",
        )
    options = jaas_of(config, name, mechanism).options
    if not options.get("username") or not options.get("password"):
        setting = f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigProblem(setting, f"{setting} has no username and password for this broker")
