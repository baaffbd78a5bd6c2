"""The layers of settings on top of each other."""

import pytest

from barnabas.model.config import BrokerConfig, ConfigProblem, Listener, resolve_topic


def test_layers():
    static = {"log.segment.bytes": "2000000", "log.index.interval.bytes": "1"}
    config = BrokerConfig(static)
    assert config.get("log.segment.bytes") == 2_000_000
    changed = config.with_dynamic({}, {"log.segment.bytes": "3000000"})
    assert changed.get("log.segment.bytes") == 3_000_000
    changed = changed.with_dynamic({"log.segment.bytes": "4000000"}, changed.dynamic_default)
    assert changed.get("log.segment.bytes") == 4_000_000
    assert changed.get("log.index.interval.bytes") == 1
    assert config.get("log.segment.bytes") == 2_000_000


def test_typed_values():
    config = BrokerConfig({"log.dirs": "/a, /b"})
    assert config.get_int("num.partitions") == 1
    assert config.get_bool("auto.create.topics.enable") is True
    assert config.get_float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.get_str("compression.type") == "producer"
    assert config.get_list("log.dirs") == config.log_dirs == ("/a", "/b")
    assert config.get_list("advertised.listeners") == ()
    assert config.get("log.retention.ms") is None
    with pytest.raises(KeyError):
        config.get("no.such.setting")


def test_the_single_directory_counts_where_there_is_no_list():
    assert BrokerConfig({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b"}).log_dirs == ("/b",)


@pytest.mark.parametrize(
    ("static", "node_id"),
    [
        ({}, 1),
        ({"node.id": "0"}, 0),
        ({"broker.id": "7"}, 7),
        ({"broker.id": "7", "node.id": "7"}, 7),
    ],
)
def test_both_names_of_the_brokers_number(static, node_id):
    config = BrokerConfig(static)
    assert config.node_id == config.get("node.id") == config.get("broker.id") == node_id


def test_listeners():
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            "advertised.listeners": "INSIDE://here:5",
        }
    )
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT", "INSIDE"]
    assert config.advertised_listeners == (Listener("INSIDE", "PLAINTEXT", "here", 5),)
    assert BrokerConfig().advertised_listeners == ()


def test_what_has_no_effect_is_said_and_not_kept():
    later = "log.local.retention.bytes"
    config = BrokerConfig({"num.io.threads": "8", later: "7", "node.id": "2"})
    assert "num.io.threads" not in config.static
    assert config.static[later] == "7"
    io_threads, throttle = config.warnings
    assert io_threads.startswith("num.io.threads has no effect: ")
    assert throttle == f"{later} has no effect yet: it belongs to tiered storage"
    assert BrokerConfig().warnings == ()


@pytest.mark.parametrize(
    ("static", "part"),
    [
        ({"log.segment.byte": "1"}, "did you mean log.segment.bytes?"),
        ({"log.segment.bytes": "1"}, "at least 1048576"),
        ({"listeners": "SSL://:9092"}, "speaks TLS and has no key"),
        ({"authorizer.class.name": "some.Authorizer"}, "kafka.security.authorizer.AclAuthorizer"),
        ({"super.users": "User:root;alice"}, "'alice' is no principal"),
    ],
)
def test_wrong_settings_are_refused(static, part):
    with pytest.raises(ConfigProblem) as caught:
        BrokerConfig(static)
    assert part in caught.value.message


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.minutes": "5", "log.retention.ms": "9"}, 9),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(static, retention_ms):
    assert BrokerConfig(static).log_config.retention_ms == retention_ms


@pytest.mark.parametrize(
    ("static", "attribute", "value"),
    [
        ({"log.roll.hours": "1"}, "segment_ms", 3_600_000),
        ({"log.roll.hours": "1", "log.roll.ms": "5"}, "segment_ms", 5),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "5"}, "flush_ms", 5),
        ({"log.flush.scheduler.interval.ms": "5", "log.flush.interval.ms": "6"}, "flush_ms", 6),
        ({"message.max.bytes": "5"}, "max_message_bytes", 5),
        ({"log.cleanup.policy": "compact"}, "cleanup_policy", ("compact",)),
        ({"compression.type": "zstd"}, "compression_type", "zstd"),
    ],
)
def test_topics_follow_the_broker(static, attribute, value):
    assert getattr(BrokerConfig(static).log_config, attribute) == value


def test_topics_come_before_the_broker():
    config = BrokerConfig({"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    assert resolve_topic(config, {"retention.ms": "7"}).retention_ms == 7
    assert resolve_topic(config, {}).retention_ms == 6


def test_topics_with_the_same_settings_share_them():
    config = BrokerConfig()
    assert resolve_topic(config, {}) is resolve_topic(config, {}) is config.log_config
    ab = resolve_topic(config, {"retention.ms": "7", "flush.ms": "5"})
    assert ab is resolve_topic(config, {"flush.ms": "5", "retention.ms": "7"})


def test_sharing_is_bounded():
    config = BrokerConfig()
    first = resolve_topic(config, {"retention.ms": "0"})
    for retention in range(1, 2000):
        resolve_topic(config, {"retention.ms": str(retention)})
    assert len(config._shared_log_configs) <= 1024
    assert resolve_topic(config, {"retention.ms": "0"}) == first


@pytest.mark.parametrize("overrides", [{"nope": "1"}, {"retention.ms": "x"}])
def test_wrong_topic_settings_are_refused(overrides):
    with pytest.raises(ConfigProblem):
        resolve_topic(BrokerConfig(), overrides)
