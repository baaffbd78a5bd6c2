"""Changing settings. The error codes were seen on Apache Kafka 4.3.1, but for the names it does not know."""

import pytest

from barnabas.model.config import (
    BrokerConfig,
    ConfigChange,
    alter_broker,
    alter_topic,
    check_topic,
    replace_broker,
    replace_topic,
)
from barnabas.model.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = range(4)
BASE = BrokerConfig()


def topic(overrides, *changes, broker=BASE):
    return alter_topic(broker, overrides, [ConfigChange(*change) for change in changes])


@pytest.mark.parametrize(
    ("overrides", "change", "result"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", SET, "6"), {"retention.ms": "6"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, None), {}),
        ({}, ("retention.ms", DELETE, None), {}),
        ({}, ("nope", DELETE, ""), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            ("cleanup.policy", APPEND, "delete,compact"),
            {"cleanup.policy": "compact,delete"},
        ),
        (
            {"cleanup.policy": "delete,compact"},
            ("cleanup.policy", SUBTRACT, "delete"),
            {"cleanup.policy": "compact"},
        ),
        ({}, ("cleanup.policy", SUBTRACT, "delete,compact"), {"cleanup.policy": ""}),
        ({}, ("cleanup.policy", SET, ""), {"cleanup.policy": ""}),
        ({}, ("preallocate", SET, "TRUE"), {"preallocate": "TRUE"}),
        ({}, ("retention.bytes", SET, "-5"), {"retention.bytes": "-5"}),
    ],
)
def test_changes_of_a_topic(overrides, change, result):
    before = dict(overrides)
    assert topic(overrides, change) == result
    assert overrides == before


@pytest.mark.parametrize(
    ("changes", "code", "part"),
    [
        ([("retention.ms", SET, "abc")], ErrorCode.INVALID_CONFIG, "'abc'"),
        ([("nope", SET, "1")], ErrorCode.INVALID_CONFIG, "'nope'"),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG, "no list"),
        ([("nope", APPEND, "5")], ErrorCode.INVALID_CONFIG, "no list"),
        ([("retention.ms", SUBTRACT, "5")], ErrorCode.INVALID_CONFIG, "no list"),
        ([("cleanup.policy", APPEND, "bogus")], ErrorCode.INVALID_CONFIG, "compact, delete"),
        ([("segment.bytes", SET, "13")], ErrorCode.INVALID_CONFIG, "at least 1048576"),
        ([("compression.type", SET, "GZIP")], ErrorCode.INVALID_CONFIG, "gzip"),
        ([("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG, "tiered"),
        (
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
            ErrorCode.INVALID_CONFIG,
            "(10) is more than",
        ),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([("retention.ms", 4, "5")], ErrorCode.INVALID_REQUEST, "no operation"),
        ([("retention.ms", -1, "5")], ErrorCode.INVALID_REQUEST, "no operation"),
        (
            [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "twice",
        ),
    ],
)
def test_refused_changes_of_a_topic(changes, code, part):
    with pytest.raises(KafkaError) as caught:
        topic({}, *changes)
    assert caught.value.code is code
    assert part in caught.value.message


def test_a_topic_is_checked_together_with_what_the_broker_gives_it():
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError, match="is more than"):
        topic({}, ("min.compaction.lag.ms", SET, "6"), broker=broker)


def test_replacing_all_settings_of_a_topic():
    assert replace_topic(BASE, [("retention.ms", "5"), ("flush.ms", "6")]) == {
        "retention.ms": "5",
        "flush.ms": "6",
    }
    assert replace_topic(BASE, []) == {}
    for configs, code in [
        ([("retention.ms", "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", "5"), ("retention.ms", "5")], ErrorCode.INVALID_REQUEST),
    ]:
        with pytest.raises(KafkaError) as caught:
            replace_topic(BASE, configs)
        assert caught.value.code is code
    check_topic(BASE, {"retention.ms": "5"})


def broker_change(broker, *changes, cluster_wide=False):
    return alter_broker(broker, [ConfigChange(*c) for c in changes], cluster_wide=cluster_wide)


def test_changes_of_a_broker_start_from_the_layer_they_are_for():
    broker = BrokerConfig({}, {"log.roll.ms": "5"}, {"log.roll.ms": "6"})
    change = ("log.segment.bytes", SET, "2000000")
    assert broker_change(broker, change) == {"log.roll.ms": "5", "log.segment.bytes": "2000000"}
    assert broker_change(broker, change, cluster_wide=True) == {
        "log.roll.ms": "6",
        "log.segment.bytes": "2000000",
    }
    assert broker_change(broker, ("log.roll.ms", DELETE, None)) == {}
    assert broker_change(BASE, ("log.cleanup.policy", APPEND, "compact")) == {
        "log.cleanup.policy": "delete,compact"
    }


@pytest.mark.parametrize(
    ("change", "cluster_wide", "code", "part"),
    [
        (("num.partitions", SET, "5"), False, ErrorCode.INVALID_REQUEST, "cannot change"),
        (("advertised.listeners", SET, "x"), True, ErrorCode.INVALID_REQUEST, "cannot change"),
        (("log.segment.bytes", SET, "3"), False, ErrorCode.INVALID_REQUEST, "at least 1048576"),
        (("message.max.bytes", SET, "abc"), True, ErrorCode.INVALID_REQUEST, "'abc'"),
        (("ssl.client.auth", SET, "none"), True, ErrorCode.INVALID_REQUEST, "name the broker"),
        (("log.segment.bytes", APPEND, "1"), False, ErrorCode.INVALID_CONFIG, "no list"),
        (("log.segment.byte", APPEND, "x"), False, ErrorCode.INVALID_CONFIG, "no list"),
        (("log.retention.ms", SET, "0"), False, ErrorCode.INVALID_REQUEST, "comes to 0"),
        (("log.segment.byte", SET, "5"), False, ErrorCode.INVALID_REQUEST, "did you mean"),
        (("num.io.threads", SET, "5"), True, ErrorCode.INVALID_REQUEST, "means nothing here"),
    ],
)
def test_refused_changes_of_a_broker(change, cluster_wide, code, part):
    with pytest.raises(KafkaError) as caught:
        broker_change(BASE, change, cluster_wide=cluster_wide)
    assert caught.value.code is code
    assert part in caught.value.message


def test_replacing_all_dynamic_settings_of_a_broker():
    broker = BrokerConfig({}, {"log.roll.ms": "5"})
    assert replace_broker(broker, [("log.segment.bytes", "2000000")], cluster_wide=False) == {
        "log.segment.bytes": "2000000"
    }
    with pytest.raises(KafkaError, match="cannot change"):
        replace_broker(broker, [("num.partitions", "2")], cluster_wide=True)
