"""Our tables of settings and errors against Apache Kafka's, name by name.

`data/kafka-4.3.1-settings.json` holds what `tools/capture_kafka_settings.py` found. Where ours differ, it is written
here with the reason, and nowhere else.
"""

import json
import subprocess
from pathlib import Path

import peers
import pytest
from capture_kafka_settings import capture

from barnabas.model.config import (
    BROKER_SETTINGS,
    NOT_APPLICABLE,
    TOPIC_SETTINGS,
    TOPIC_SYNONYMS,
    BrokerConfig,
    ConfigProblem,
    parse,
    render,
    resolve_topic,
)
from barnabas.model.errors import ErrorCode

RECORDED = Path(__file__).parent / "data/kafka-4.3.1-settings.json"
KAFKA = json.loads(RECORDED.read_text())
PUBLIC = {name for name, facts in KAFKA["broker"].items() if facts[4] == "public"}

DEFAULTS_THAT_DIFFER = {
    "broker.id": "a node that was given no number is node 1, as it needs no cluster to ask",
    "node.id": "the same",
    "log.dir": "data is kept beside whoever starts the broker, not in /tmp, where a restart of the machine loses it",
    "socket.send.buffer.bytes": "an answer of 1 MB leaves with fewer wake-ups of reader and broker: docs/adr/0006",
}
BOUNDS_THAT_DIFFER = {
    "broker.id": "-1 asks for a number from KRaft or ZooKeeper in Kafka; here it would be the number itself",
}
UPDATES_THAT_DIFFER = {
    "listeners": "a listener is opened at the start only",
    "listener.security.protocol.map": "the same",
}
NOT_IN_KAFKA_4 = {
    "allow.everyone.if.no.acl.found": "belongs to Kafka's authorizer, which has a table of its own",
    "super.users": "the same",
    "controlled.shutdown.max.retries": "Kafka 3.9: asking a ZooKeeper-era controller",
    "controlled.shutdown.retry.backoff.ms": "the same",
    "leader.imbalance.per.broker.percentage": "Kafka 3.9: the ZooKeeper-era controller reads it",
    "offsets.commit.required.acks": "Kafka 3.9; Kafka 4 always waits for all",
    "reserved.broker.max.id": "Kafka 3.9: ids above it are drawn through ZooKeeper",
    "zookeeper.connect": "Kafka 3.9: the cluster is coordinated by ZooKeeper",
    "zookeeper.connection.timeout.ms": "the same",
    "zookeeper.session.timeout.ms": "the same",
    "zookeeper.set.acl": "the same",
    "zookeeper.ssl.client.enable": "the same",
    "zookeeper.ssl.keystore.location": "the same",
    "zookeeper.ssl.keystore.password": "the same",
    "zookeeper.ssl.truststore.location": "the same",
    "zookeeper.digest.credentials": "Kafka takes them from a JAAS file, by a property of Java's",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": "a property of Java's in Kafka",
    "leader.replication.throttled.rate": "known to Kafka as a dynamic setting only",
    "follower.replication.throttled.rate": "the same",
    "replica.alter.log.dirs.io.max.bytes.per.second": "the same",
}
NEWER_ERRORS = {  # Kafka 4.4
    "GROUP_DELETION_FAILED": [134, False],
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": [135, False],
    "CONTROLLER_ID_NOT_REGISTERED": [136, False],
}


def test_topics_have_all_settings_of_kafka_and_no_other():
    assert sorted(TOPIC_SETTINGS) == sorted(KAFKA["topic"])


@pytest.mark.parametrize("name", KAFKA["topic"])
def test_topic_setting_is_kafkas(name):
    kind, default, bounds, _update, visibility = KAFKA["topic"][name]
    setting = TOPIC_SETTINGS[name]
    assert setting.kind.name == kind
    assert render(setting.default) == default
    assert setting.internal == (visibility == "internal")
    assert_bounds(setting, bounds)


def test_topic_settings_fall_back_on_the_same_broker_settings():
    ours = {
        name: [[synonym.name, str(synonym.factor)] for synonym in synonyms]
        for name, synonyms in TOPIC_SYNONYMS.items()
    }
    assert ours == KAFKA["synonyms"]


def test_a_topic_without_settings_gets_the_tables_defaults():
    in_force = resolve_topic(BrokerConfig(), {})
    for name, setting in TOPIC_SETTINGS.items():
        if not setting.internal:
            assert getattr(in_force, name.replace(".", "_")) == setting.default, name


def test_every_public_setting_of_a_kafka_broker_is_known():
    assert sorted(PUBLIC - set(BROKER_SETTINGS) - set(NOT_APPLICABLE)) == []


def test_no_setting_both_means_something_and_does_not():
    assert sorted(set(BROKER_SETTINGS) & set(NOT_APPLICABLE)) == []


def test_settings_that_kafka_does_not_have_are_listed_with_a_reason():
    assert sorted(set(BROKER_SETTINGS) - set(KAFKA["broker"])) == sorted(NOT_IN_KAFKA_4)


@pytest.mark.parametrize("name", sorted(set(BROKER_SETTINGS) & set(KAFKA["broker"])))
def test_broker_setting_is_kafkas(name):
    kind, default, bounds, update, visibility = KAFKA["broker"][name]
    setting = BROKER_SETTINGS[name]
    assert setting.kind.name == kind
    if name == "listener.security.protocol.map":  # a map without an order in Kafka
        assert sorted(render(setting.default).split(",")) == sorted(default.split(","))
    else:
        assert (render(setting.default) == default) == (name not in DEFAULTS_THAT_DIFFER)
    assert (setting.update.value == update) == (name not in UPDATES_THAT_DIFFER)
    assert setting.internal == (visibility == "internal")
    if name not in BOUNDS_THAT_DIFFER:
        assert_bounds(setting, bounds)


def test_errors_are_kafkas():
    ours = {code.name: [int(code), code.retriable] for code in ErrorCode}
    assert ours == KAFKA["errors"] | NEWER_ERRORS


def assert_bounds(setting, bounds):
    """Kafka writes bounds as [1,...], [1,...,9] or [1,...,9] or -1: the ends pass, what lies beyond does not."""
    if not bounds:
        return
    interval, _, also = bounds.partition(" or ")
    ends = [float(end) for end in interval.strip("[]").split(",") if end != "..."]
    step = 0.001 if setting.kind.name == "DOUBLE" else 1
    passing = [*ends, *([float(also)] if also else [])]
    failing = [ends[0] - step, *([ends[1] + step] if len(ends) == 2 else [])]
    for number in passing:
        parse(setting, as_text(setting, number))
    for number in failing:
        with pytest.raises(ConfigProblem, match=setting.name):
            parse(setting, as_text(setting, number))


def as_text(setting, number):
    return str(number) if setting.kind.name == "DOUBLE" else str(int(number))


@pytest.mark.java
def test_the_record_is_what_kafka_says():
    lib = peers.kafka_lib("4.3.1") if peers.java() else None
    if lib is None:
        pytest.skip(peers.reason())
    try:
        captured = json.loads(capture(lib))
    except subprocess.CalledProcessError as error:
        pytest.fail(error.stderr)
    # The order of this map changes from one Java process to the next.
    for facts in (captured, KAFKA):
        row = facts["broker"]["listener.security.protocol.map"]
        row[1] = ",".join(sorted(row[1].split(",")))
    assert captured == KAFKA
