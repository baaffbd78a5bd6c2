"""Names of settings with a listener in them, and which of them counts."""

import pytest

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.config.describe import ConfigSource, describe_broker
from barnabas.model.config.listener_settings import ListenerSetting, split_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("listener.name.in.ssl.client.auth", ListenerSetting("in", None, "ssl.client.auth")),
        ("listener.name.a.b.ssl.client.auth", ListenerSetting("a.b", None, "ssl.client.auth")),
        (
            "listener.name.in.plain.sasl.jaas.config",
            ListenerSetting("in", "plain", "sasl.jaas.config"),
        ),
        ("listener.name.in.max.connections", ListenerSetting("in", None, "max.connections")),
        ("listener.name.in", None),
        ("listener.name.in.log.dirs", None),
        ("ssl.client.auth", None),
    ],
)
def test_names_taken_apart(name: str, expected: ListenerSetting | None) -> None:
    assert split_name(name) == expected


def test_the_closest_name_counts() -> None:
    config = BrokerConfig(
        {
            "connections.max.reauth.ms": "1",
            "listener.name.in.connections.max.reauth.ms": "2",
            "listener.name.in.plain.connections.max.reauth.ms": "3",
        }
    )
    setting = "connections.max.reauth.ms"
    assert config.of_listener(setting, "OUT") == 1
    assert config.of_listener(setting, "IN") == 2
    assert config.of_listener(setting, "IN", "SCRAM-SHA-256") == 2
    assert config.of_listener(setting, "IN", "PLAIN") == 3


def test_passwords_of_a_listener_are_not_described() -> None:
    secret = 'x required user_alice="hush";'
    config = BrokerConfig({}, {"listener.name.in.plain.sasl.jaas.config": secret})
    entry = next(one for one in describe_broker(config) if one.name.startswith("listener.name."))
    assert entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG
    assert entry.is_sensitive
    assert "hush" not in repr(entry)


def test_settings_without_effect_are_told_by_their_whole_name() -> None:
    name = "listener.name.in.oauthbearer.sasl.server.callback.handler.class"
    config = BrokerConfig({name: "org.example.Handler"})
    assert any(name in warning for warning in config.warnings)
    assert name not in config.static
