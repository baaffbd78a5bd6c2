"""What kazoo is told of who the broker is."""

import pytest

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.config.types import ConfigProblem
from barnabas.runtime.zookeeper_access import access_options


def test_nothing_is_told_unless_it_is_set() -> None:
    assert access_options(BrokerConfig()) == {}


def test_credentials_and_the_rule_that_only_they_may() -> None:
    texts = {"zookeeper.digest.credentials": "broker:hush:7", "zookeeper.set.acl": "true"}
    options = access_options(BrokerConfig(texts))
    assert options["auth_data"] == [("digest", "broker:hush:7")]
    (rule,) = options["default_acl"]
    assert rule.id.scheme == "digest"
    assert rule.id.id.startswith("broker:")
    assert "hush" not in rule.id.id


def test_credentials_that_are_none() -> None:
    with pytest.raises(ConfigProblem) as caught:
        access_options(BrokerConfig({"zookeeper.digest.credentials": "hush"}))
    assert "hush" not in caught.value.message


def test_a_rule_needs_somebody() -> None:
    with pytest.raises(ConfigProblem, match=r"zookeeper\.digest\.credentials"):
        BrokerConfig({"zookeeper.set.acl": "true"})


def test_tls() -> None:
    texts = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": "/keys.pem",
        "zookeeper.ssl.truststore.location": "/ca.pem",
    }
    options = access_options(BrokerConfig(texts))
    assert options["use_ssl"]
    assert options["check_hostname"]
    assert (options["ca"], options["certfile"], options["keyfile"]) == (
        "/ca.pem",
        "/keys.pem",
        "/keys.pem",
    )
