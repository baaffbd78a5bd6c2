"""What DescribeConfigs tells: every setting with its value, its source and what stands behind it.

Job: entries for a topic, for a broker, and for the cluster's dynamic defaults, as Kafka gives them.
Must not know: the messages that carry them, which resources exist, who may ask.
Invariants: an entry's source is that of its first synonym; the value of a password is never in an
entry; entries come in the order of their names.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model.config.listener_settings import PREFIX
from barnabas.model.config.tables import (
    BROKER_SETTINGS,
    broker_setting,
    broker_synonyms,
    topic_setting,
)
from barnabas.model.config.topic_table import TOPIC_SETTINGS, TOPIC_SYNONYMS
from barnabas.model.config.types import Kind, Update, parse, render

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.model.config.types import Setting


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """One layer's value for a setting, under the name the layer has for it."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting as DescribeConfigs shows it. `synonyms` go from the strongest layer down."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    kind: Kind
    documentation: str

    @property
    def is_default(self) -> bool:
        """Whether nobody set it (version 0 of the request asks this)."""
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a topic with these settings of its own; no names, or None, means all."""
    return [
        _topic_entry(broker, overrides, setting)
        for name, setting in sorted(TOPIC_SETTINGS.items())
        if (not names or name in names) and (not setting.internal or name in overrides)
    ]


def describe_broker(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe this broker; no names, or None, means all."""
    own = {name: broker_setting(name) for name in _of_listeners(broker)}
    return [
        _broker_entry(broker, setting, broker_layers(broker, name))
        for name, setting in sorted({**BROKER_SETTINGS, **own}.items())
        if (not names or name in names) and (not setting.internal or name in broker.static)
    ]


def _of_listeners(broker: BrokerConfig) -> list[str]:
    """List the settings that single listeners have for themselves."""
    layers = (broker.static, broker.dynamic_default, broker.dynamic)
    return [name for layer in layers for name in layer if name.startswith(PREFIX)]


def describe_dynamic_default(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe what was set for all brokers at once (the broker resource with an empty name)."""
    entries = []
    for name, text in sorted(broker.dynamic_default.items()):
        if names and name not in names:
            continue
        setting = broker_setting(name)
        synonym = _synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entries.append(_entry(setting, synonym.value, _read_only(setting), (synonym,)))
    return entries


def _topic_entry(
    broker: BrokerConfig, overrides: Mapping[str, str], setting: Setting
) -> ConfigEntry:
    name = setting.name
    layers: tuple[ConfigSynonym, ...] = ()
    if name in TOPIC_SYNONYMS:
        layers = broker_layers(broker, TOPIC_SYNONYMS[name][0].name)
    if name in overrides:
        value = render(parse(topic_setting(name), overrides[name]))
        own = ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        return _entry(setting, value, False, (own, *layers))
    return _entry(setting, render(broker.topic_defaults[name]), False, layers)


def _broker_entry(
    broker: BrokerConfig, setting: Setting, layers: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    value = None if setting.sensitive else render(broker.get(setting.name))
    return _entry(setting, value, _read_only(setting), layers)


def _entry(
    setting: Setting, value: str | None, read_only: bool, synonyms: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(
        setting.name,
        value,
        source,
        setting.sensitive,
        read_only,
        synonyms,
        setting.kind,
        setting.documentation,
    )


def _read_only(setting: Setting) -> bool:
    return setting.update is Update.READ_ONLY


def broker_layers(broker: BrokerConfig, name: str) -> tuple[ConfigSynonym, ...]:
    """List each layer's value of a broker setting, with its other units behind it.

    As in Kafka the list begins at the name itself: log.retention.hours does not show under
    log.retention.ms while the latter is not set, and the source then reads as the default.
    """
    names = broker_synonyms(name)
    found = [
        _synonym(synonym, texts[synonym], source)
        for texts, source in (
            (broker.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (broker.static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for synonym in names
        if synonym in texts
    ]
    found += [
        ConfigSynonym(
            synonym, render(BROKER_SETTINGS[synonym].default), ConfigSource.DEFAULT_CONFIG
        )
        for synonym in names
        if synonym in BROKER_SETTINGS and BROKER_SETTINGS[synonym].default is not None
    ]
    while found and found[0].name != name:
        del found[0]
    return tuple(found)


def _synonym(name: str, text: str, source: ConfigSource) -> ConfigSynonym:
    setting = broker_setting(name)
    value = None if setting.sensitive else render(parse(setting, text))
    return ConfigSynonym(name, value, source)
