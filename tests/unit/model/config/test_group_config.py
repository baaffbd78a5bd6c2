"""Settings of single groups: described with their layers, changed within the broker's bounds."""

import pytest

from barnabas.model.config.alter import ConfigChange
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.config.group_config import (
    GROUP_CONFIG,
    alter_group,
    describe_group,
    read_group,
    replace_group,
)
from barnabas.model.errors import ErrorCode, KafkaError

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
BROKER = BrokerConfig({"group.consumer.session.timeout.ms": "46000"})
SET, DELETE = 0, 1


def test_every_setting_has_one_of_the_broker_behind_it():
    entries = {one.name: one for one in describe_group(BROKER, {SESSION: "50000"}, None)}
    assert set(entries) == set(GROUP_CONFIG)
    assert [tuple(one) for one in entries[SESSION].synonyms] == [
        (SESSION, "50000", 8),
        (f"group.{SESSION}", "46000", 4),
        (f"group.{SESSION}", "45000", 5),
    ]
    assert (entries[INTERVAL].value, entries[INTERVAL].source) == ("5000", 5)


def test_only_those_asked_for_are_described():
    assert [one.name for one in describe_group(BROKER, {}, {SESSION, "other"})] == [SESSION]


def test_changes_are_applied_to_what_is_there():
    changed = alter_group(BROKER, {SESSION: "50000"}, [ConfigChange(INTERVAL, SET, "6000")])
    assert read_group(BROKER, changed) == {SESSION: 50_000, INTERVAL: 6000}
    assert alter_group(BROKER, changed, [ConfigChange(SESSION, DELETE, None)]) == {INTERVAL: "6000"}
    assert replace_group(BROKER, [(SESSION, "60000")]) == {SESSION: "60000"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, "44999"),
        (SESSION, "60001"),
        (SESSION, "x"),
        (INTERVAL, "4999"),
        (INTERVAL, "15001"),
        ("share.session.timeout.ms", "45000"),
    ],
)
def test_what_the_broker_does_not_allow_is_refused(name, value):
    with pytest.raises(KafkaError) as refused:
        alter_group(BROKER, {}, [ConfigChange(name, SET, value)])
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_session_is_longer_than_the_interval():
    bounds = {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.max.heartbeat.interval.ms": "15000",
    }
    broker = BrokerConfig(bounds)
    with pytest.raises(KafkaError):
        replace_group(broker, [(SESSION, "7000"), (INTERVAL, "7000")])
