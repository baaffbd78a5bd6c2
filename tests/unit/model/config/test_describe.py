"""What DescribeConfigs tells. The expected synonyms and sources were seen on Apache Kafka 4.3.1."""

import pytest

from barnabas.model.config import (
    BrokerConfig,
    ConfigSource,
    Kind,
    describe_broker,
    describe_dynamic_default,
    describe_topic,
)

TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG
BROKER = ConfigSource.DYNAMIC_BROKER_CONFIG
DEFAULT_BROKER = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


def topic_entry(broker, overrides, name):
    (entry,) = describe_topic(broker, overrides, [name])
    return entry


def broker_entry(broker, name):
    (entry,) = describe_broker(broker, [name])
    return entry


def test_all_layers_show_from_the_strongest_down():
    broker = BrokerConfig(
        {"log.segment.bytes": "1073741824"},
        {"log.segment.bytes": "2000000"},
        {"log.segment.bytes": "3000000"},
    )
    entry = topic_entry(broker, {"segment.bytes": " 2097152 "}, "segment.bytes")
    assert (entry.value, entry.source, entry.kind) == ("2097152", TOPIC, Kind.INT)
    assert entry.synonyms == (
        ("segment.bytes", "2097152", TOPIC),
        ("log.segment.bytes", "2000000", BROKER),
        ("log.segment.bytes", "3000000", DEFAULT_BROKER),
        ("log.segment.bytes", "1073741824", STATIC),
        ("log.segment.bytes", "1073741824", DEFAULT),
    )
    assert not entry.is_default
    own = broker_entry(broker, "log.segment.bytes")
    assert (own.value, own.source, own.synonyms) == ("2000000", BROKER, entry.synonyms[1:])


def test_other_units_show_below_the_name_itself():
    broker = BrokerConfig({"log.retention.hours": "168"}, {"log.retention.ms": "777"})
    expected = (
        ("log.retention.ms", "777", BROKER),
        ("log.retention.hours", "168", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    )
    entry = topic_entry(broker, {}, "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("777", BROKER, expected)
    assert broker_entry(broker, "log.retention.ms").synonyms == expected
    assert broker_entry(broker, "log.retention.hours").synonyms == expected[1:]


def test_a_coarser_unit_alone_reads_as_the_default():
    broker = BrokerConfig({"log.retention.hours": "2"})
    entry = topic_entry(broker, {}, "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("7200000", DEFAULT, ())


def test_the_flush_scheduler_stands_behind_the_flush_interval():
    assert topic_entry(BrokerConfig(), {}, "flush.ms").synonyms == ()
    broker = BrokerConfig({}, {"log.flush.interval.ms": "5"})
    assert topic_entry(broker, {}, "flush.ms").synonyms == (
        ("log.flush.interval.ms", "5", BROKER),
        ("log.flush.scheduler.interval.ms", "9223372036854775807", DEFAULT),
    )


def test_all_settings_of_a_topic():
    entries = describe_topic(BrokerConfig(), {})
    names = [entry.name for entry in entries]
    assert len(names) == 33
    assert names == sorted(names)
    assert "internal.segment.bytes" not in names
    assert all(entry.is_default and not entry.read_only for entry in entries)
    assert all(entry.documentation and not entry.is_sensitive for entry in entries)
    assert [entry.name for entry in describe_topic(BrokerConfig(), {}, [])] == names


def test_an_internal_setting_shows_where_it_is_set():
    entry = topic_entry(BrokerConfig(), {"internal.segment.bytes": "5"}, "internal.segment.bytes")
    assert (entry.value, entry.source) == ("5", TOPIC)
    assert describe_broker(BrokerConfig(), ["log.initial.task.delay.ms"]) == []
    set_in_file = BrokerConfig({"log.initial.task.delay.ms": "5"})
    assert broker_entry(set_in_file, "log.initial.task.delay.ms").value == "5"


def test_unknown_names_are_left_out():
    assert describe_topic(BrokerConfig(), {}, ["nope"]) == []
    assert describe_broker(BrokerConfig(), ["nope"]) == []


def test_passwords_do_not_show():
    broker = BrokerConfig({"ssl.key.password": "hunter2"})
    entry = broker_entry(broker, "ssl.key.password")
    assert entry.is_sensitive
    assert entry.source is STATIC
    assert "hunter2" not in repr(describe_broker(broker))


@pytest.mark.parametrize(
    ("name", "read_only"),
    [("num.partitions", True), ("log.segment.bytes", False), ("ssl.keystore.location", False)],
)
def test_what_may_change(name, read_only):
    assert broker_entry(BrokerConfig(), name).read_only is read_only


def test_a_setting_that_nobody_set_has_no_value():
    entry = broker_entry(BrokerConfig(), "log.retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == (None, DEFAULT, ())


def test_settings_for_all_brokers():
    broker = BrokerConfig({"log.segment.bytes": "2000000"}, {}, {"log.segment.bytes": "3000000"})
    (entry,) = describe_dynamic_default(broker)
    assert (entry.name, entry.value, entry.source) == (
        "log.segment.bytes",
        "3000000",
        DEFAULT_BROKER,
    )
    assert entry.synonyms == (("log.segment.bytes", "3000000", DEFAULT_BROKER),)
    assert describe_dynamic_default(broker, ["log.roll.ms"]) == []
    assert describe_dynamic_default(BrokerConfig()) == []
