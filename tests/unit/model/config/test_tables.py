"""Looking names up."""

from dataclasses import replace

import pytest

from barnabas.model.config import (
    NOT_APPLICABLE,
    TOPIC_SETTINGS,
    ConfigProblem,
    broker_setting,
    nearest,
    topic_setting,
)
from barnabas.model.config.tables import AREAS, BROKER_SETTINGS, broker_synonyms
from barnabas.model.config.types import parse, render


def test_each_setting_is_in_one_area():
    assert sum(len(area) for area in AREAS.values()) == len(BROKER_SETTINGS)


@pytest.mark.parametrize("setting", [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()])
def test_every_default_is_allowed_and_every_setting_explained(setting):
    if setting.default is not None:
        assert parse(setting, render(setting.default)) == setting.default
    assert setting.documentation.endswith(".")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("log.segment.byte", "log.segment.bytes"),
        ("num.partition", "num.partitions"),
        ("advertised.listener", "advertised.listeners"),
        ("qqqqqqqq", None),
    ],
)
def test_nearest_name(wrong, right):
    assert nearest(wrong) == right
    with pytest.raises(ConfigProblem) as caught:
        broker_setting(wrong)
    assert caught.value.name == wrong
    assert ("did you mean" in caught.value.message) == (right is not None)
    assert right is None or right in caught.value.message


def test_nearest_topic_setting():
    with pytest.raises(ConfigProblem, match=r"'retention\.msec'; did you mean retention\.ms\?"):
        topic_setting("retention.msec")
    assert topic_setting("retention.ms").name == "retention.ms"


def test_a_setting_that_means_nothing_here_says_why():
    with pytest.raises(ConfigProblem, match="means nothing here: there are no thread pools"):
        broker_setting("num.io.threads")
    assert all(reason for reason in NOT_APPLICABLE.values())


def test_settings_of_one_listener_are_those_of_all():
    one = broker_setting("listener.name.my.own.ssl.keystore.location")
    assert one == replace(BROKER_SETTINGS["ssl.keystore.location"], name=one.name)
    assert broker_setting("listener.name.x.plain.sasl.jaas.config").sensitive


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("listener.name.x.ssl.keystor.location", "listener.name.x.ssl.keystore.location?"),
        ("listener.name.x.log.dirs", "no setting named"),
        ("listener.name.x.sasl.login.class", "no Java here"),
    ],
)
def test_settings_that_a_listener_cannot_have(name, part):
    with pytest.raises(ConfigProblem) as caught:
        broker_setting(name)
    assert part in caught.value.message


def test_units_of_one_setting_come_finest_first():
    retention = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert broker_synonyms("log.retention.hours") == retention
    assert broker_synonyms("log.roll.ms") == ("log.roll.ms", "log.roll.hours")
    assert broker_synonyms("log.segment.bytes") == ("log.segment.bytes",)
    assert broker_synonyms("log.flush.interval.ms")[1] == "log.flush.scheduler.interval.ms"
    assert broker_synonyms("log.flush.scheduler.interval.ms") == (
        "log.flush.scheduler.interval.ms",
    )
