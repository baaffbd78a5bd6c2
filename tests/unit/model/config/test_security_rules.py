"""Settings under which a listener could not do what it says are refused before it listens."""

import pytest

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.config.security_rules import client_auth_of
from barnabas.model.config.types import ConfigProblem

URL = "https://issuer/keys"
PEM = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/keys.pem"}
TOKENS = {
    "listeners": "SASL_PLAINTEXT://:1",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": URL,
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": URL,
    "sasl.oauthbearer.expected.issuer": "i",
    "sasl.oauthbearer.expected.audience": "a",
}
PLAIN = {
    "listeners": "SASL_PLAINTEXT://:1",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'x.P required user_a="hush";',
}
MEMBER = {"zookeeper.connect": "localhost:2181", "sasl.mechanism.inter.broker.protocol": "PLAIN"}


@pytest.mark.parametrize(
    "good",
    [
        {"listeners": "SSL://:1", **PEM},
        {"listeners": "SSL://:1", "ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
        {"listeners": "IN://:1", "listener.security.protocol.map": "IN:SSL",
         "listener.name.in.ssl.keystore.type": "PEM", "listener.name.in.ssl.keystore.location": "/x"},
        {"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        PLAIN,
        TOKENS,
        {**PLAIN, **MEMBER, "listener.name.sasl_plaintext.plain.sasl.jaas.config":
            'x.P required username="a" password="hush" user_a="hush";'},
    ],
)  # fmt: skip
def test_good(good: dict[str, str]) -> None:
    BrokerConfig(good)


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        ({"listeners": "SSL://:1"}, "has no key"),
        ({"listeners": "SSL://:1", "ssl.keystore.location": "/k.jks"}, "keytool -importkeystore -srckeystore /k.jks"),
        ({"listeners": "SSL://:1", **PEM, "ssl.client.auth": "required"}, "trusts nobody"),
        ({"listeners": "SSL://:1", **PEM, "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1 is not"),
        ({"listeners": "SASL_PLAINTEXT://:1"}, "GSSAPI, which is not supported"),
        ({"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": ""}, "offers no mechanism"),
        ({**PLAIN, "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'x.P required password="hush";'}, "names nobody"),
        ({"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN"}, "is not set"),
        ({**PLAIN, "listener.name.sasl_plaintext.plain.sasl.jaas.config": "hush"}, "cannot be read"),
        ({**TOKENS, "sasl.oauthbearer.jwks.endpoint.url": ""}, "tokens cannot be checked without"),
        ({**TOKENS, "sasl.oauthbearer.expected.issuer": ""}, "expected.issuer"),
        ({**TOKENS, "sasl.oauthbearer.expected.audience": ""}, "expected.audience"),
        ({**TOKENS, "org.apache.kafka.sasl.oauthbearer.allowed.urls": ""}, "is not among"),
        ({**TOKENS, "sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd"}, "is not among"),
        ({**TOKENS, "sasl.oauthbearer.jwks.endpoint.url": "http://x",
          "org.apache.kafka.sasl.oauthbearer.allowed.urls": "http://x"}, "neither https"),
        ({**PLAIN, **MEMBER}, "no username and password"),
        ({**PLAIN, **MEMBER, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "offered there"),
        ({**MEMBER, "inter.broker.listener.name": "IN"}, "there are the listeners PLAINTEXT"),
    ],
)  # fmt: skip
def test_bad(bad: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        BrokerConfig(bad)
    assert part in caught.value.message
    assert "hush" not in caught.value.message


def test_where_clients_log_in_only_the_listeners_own_setting_asks_for_certificates() -> None:
    texts = {
        "listeners": "SSL://:1,SASL_SSL://:2",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        **PEM,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.client.auth": "required",
    }
    config = BrokerConfig(texts)
    assert (client_auth_of(config, "SSL"), client_auth_of(config, "SASL_SSL")) == (
        "required",
        "none",
    )
    own = BrokerConfig({**texts, "listener.name.sasl_ssl.ssl.client.auth": "requested"})
    assert client_auth_of(own, "SASL_SSL") == "requested"
