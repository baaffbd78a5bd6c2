"""CVE-2024-31141: clients' settings could name files and variables of the process to be read (`${file:…}`). Here such text is text, in settings of the
broker, of topics and of our own client; and there are no config providers."""

import pytest
from chaos.wire_kit import RawClient
from vulnerability_kit import broker_with_login

from barnabas.client.settings import ClientSettings
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC = 2


@pytest.fixture
def secret(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_text("key=treasure\n")
    monkeypatch.setenv("BARNABAS_TREASURE", "treasure")
    return path


def references(path):
    return [
        f"${{file:{path}:key}}",
        f"${{file:{path}}}",
        "${env:BARNABAS_TREASURE}",
        "$BARNABAS_TREASURE",
    ]


def test_a_brokers_settings_are_not_resolved(secret):
    for text in references(secret):
        config = BrokerConfig({"broker.rack": text})
        assert config.get("broker.rack") == text


def test_a_clients_settings_are_not_resolved(secret):
    for text in references(secret):
        given = {"bootstrap.servers": "127.0.0.1:1", "client.id": text}
        assert ClientSettings.parse(given).client_id == text


def test_providers_have_no_effect_and_that_is_said():
    assert any(
        "config.providers" in one for one in BrokerConfig({"config.providers": "file"}).warnings
    )


def test_a_topics_settings_are_not_resolved(secret):
    with broker_with_login() as (_, open_), RawClient(open_) as client:
        client.create_topic("t")
        for text in references(secret):
            change = AlterableConfig(
                name="leader.replication.throttled.replicas", config_operation=0, value=text
            )
            resource = AlterConfigsResource(
                resource_type=TOPIC, resource_name="t", configs=[change]
            )
            client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            asked = DescribeConfigsResource(
                resource_type=TOPIC, resource_name="t", configuration_keys=None
            )
            told = client.ask(DescribeConfigsRequest(resources=[asked]), 4)
            assert "treasure" not in str(told)
