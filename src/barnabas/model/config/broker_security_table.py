"""Settings of the broker: encryption, authentication and authorization.

Job: one line per setting with Kafka's name, type, default, bounds and time of change.
Must not know: who reads a setting.
Invariants: as Kafka 4.3.1 has them, unless a test lists the difference with its reason.
"""

from __future__ import annotations

from typing import Final

from barnabas.model.config.types import (
    Allowed,
    Importance,
    Kind,
    Setting,
    Update,
    at_least,
    one_of,
    settings,
)

_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)

SECURITY_SETTINGS: Final = settings(
    Setting(
        "authorizer.class.name",
        Kind.STRING,
        "",
        "Who decides what a user may do; empty lets everybody do everything. Both names stand for the access rules of this broker.",
        allowed=Allowed(
            "empty, or one of " + ", ".join(_AUTHORIZERS),
            lambda value: value in ("", *_AUTHORIZERS),
        ),
        importance=Importance.LOW,
    ),
    Setting(
        "super.users",
        Kind.STRING,
        "",
        "Users that may do everything, with semicolons: User:NAME.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        Kind.BOOLEAN,
        False,
        "Whether a resource without rules is open to everybody.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        Kind.INT,
        100,
        "How long a failed login is held before its connection closes.",
        allowed=at_least(0),
        importance=Importance.LOW,
    ),
    Setting(
        "connections.max.reauth.ms",
        Kind.LONG,
        0,
        "After how long a connection must log in again; 0 is never.",
    ),
    Setting(
        "sasl.enabled.mechanisms",
        Kind.LIST,
        ("GSSAPI",),
        "The login mechanisms the broker offers.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "sasl.jaas.config",
        Kind.PASSWORD,
        None,
        "The login module and its options, as Kafka writes them.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        Kind.STRING,
        "GSSAPI",
        "The login mechanism brokers use among themselves.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "sasl.server.max.receive.size",
        Kind.INT,
        524_288,
        "The largest message that is read before a login is done.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        Kind.STRING,
        None,
        "Where the public keys are that tokens are signed with: https://, or file:// to a key set (JWKS) on this machine. "
        "It must be among the allowed ones (org.apache.kafka.sasl.oauthbearer.allowed.urls).",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind.LONG,
        3_600_000,
        "How often the keys are read again.",
        importance=Importance.LOW,
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Kind.LONG,
        100,
        "How soon to try again when the keys could not be read, at first.",
        importance=Importance.LOW,
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Kind.LONG,
        10_000,
        "How soon to try again, at most.",
        importance=Importance.LOW,
    ),
    Setting(
        "sasl.oauthbearer.expected.audience",
        Kind.LIST,
        (),
        "For whom a token must be; one of these. Tokens are not taken without it.",
        importance=Importance.LOW,
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer",
        Kind.STRING,
        None,
        "Who must have issued a token. Tokens are not taken without it.",
        importance=Importance.LOW,
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        Kind.INT,
        30,
        "By how much the clocks of whoever issues tokens and of this broker may differ.",
        importance=Importance.LOW,
    ),
    Setting(
        "sasl.oauthbearer.sub.claim.name",
        Kind.STRING,
        "sub",
        "Where the user's name stands in a token.",
        importance=Importance.LOW,
    ),
    Setting(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        Kind.LIST,
        (),
        "The addresses from which keys may be read: whoever may change settings cannot make the broker read others.",
        importance=Importance.LOW,
    ),
    Setting(
        "ssl.cipher.suites",
        Kind.LIST,
        (),
        "The ciphers that may be used; empty leaves it to the library.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.client.auth",
        Kind.STRING,
        "none",
        "Whether clients must show a certificate: required, requested or none.",
        allowed=one_of("required", "requested", "none"),
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.enabled.protocols",
        Kind.LIST,
        (
            "TLSv1.2",
            "TLSv1.3",
        ),
        "The versions of TLS that may be used.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.endpoint.identification.algorithm",
        Kind.STRING,
        "https",
        "How a server's name is checked against its certificate; empty does not check.",
        importance=Importance.LOW,
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.key.password",
        Kind.PASSWORD,
        None,
        "The password of the private key.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.keystore.certificate.chain",
        Kind.PASSWORD,
        None,
        "The broker's certificates, as PEM.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.keystore.key",
        Kind.PASSWORD,
        None,
        "The broker's private key, as PEM.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.keystore.location",
        Kind.STRING,
        None,
        "The file with the broker's key and certificates.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.keystore.password",
        Kind.PASSWORD,
        None,
        "The password of that file.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.keystore.type",
        Kind.STRING,
        "JKS",
        "The format of that file.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.principal.mapping.rules",
        Kind.STRING,
        "DEFAULT",
        "How the name in a certificate becomes a user's name.",
        importance=Importance.LOW,
    ),
    Setting(
        "ssl.protocol",
        Kind.STRING,
        "TLSv1.3",
        "The version of TLS the broker prefers.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.truststore.certificates",
        Kind.PASSWORD,
        None,
        "The certificates the broker trusts, as PEM.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.truststore.location",
        Kind.STRING,
        None,
        "The file with the certificates the broker trusts.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.truststore.password",
        Kind.PASSWORD,
        None,
        "The password of that file.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "ssl.truststore.type",
        Kind.STRING,
        "JKS",
        "The format of that file.",
        update=Update.PER_BROKER,
    ),
    Setting(
        "zookeeper.digest.credentials",
        Kind.PASSWORD,
        None,
        "USER:PASSWORD with which the broker makes itself known to ZooKeeper (its digest scheme).",
    ),
    Setting(
        "zookeeper.set.acl",
        Kind.BOOLEAN,
        False,
        "Whether what the broker creates in ZooKeeper may be read and changed only by who has zookeeper.digest.credentials.",
        importance=Importance.HIGH,
    ),
    Setting(
        "zookeeper.ssl.client.enable",
        Kind.BOOLEAN,
        False,
        "Whether the broker speaks TLS with ZooKeeper.",
    ),
    Setting(
        "zookeeper.ssl.keystore.location",
        Kind.STRING,
        None,
        "The file with the key and certificates that ZooKeeper is shown, as PEM.",
    ),
    Setting(
        "zookeeper.ssl.keystore.password",
        Kind.PASSWORD,
        None,
        "The password of the private key in that file.",
    ),
    Setting(
        "zookeeper.ssl.truststore.location",
        Kind.STRING,
        None,
        "The file with the certificates by which ZooKeeper is known, as PEM.",
    ),
)
