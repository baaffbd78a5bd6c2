"""The broker's settings in force, and with them those of every topic.

Job: put the layers on top of each other (this broker's dynamic settings, the cluster's, the
configuration file, the table's defaults), check the whole, and give typed values.
Must not know: files, command lines, who changes a setting at run time.
Invariants: never changes once built: a change makes a new one by `with_dynamic`; every value has
passed its bounds and the rules between settings; reading a value costs one dict look-up.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from barnabas.model.config.listener_settings import names_of
from barnabas.model.config.listeners import (
    Listener,
    parse_advertised,
    parse_listeners,
    parse_protocol_map,
)
from barnabas.model.config.log_config import LogConfig, build_log_config
from barnabas.model.config.rules import check_rules
from barnabas.model.config.security_rules import check_security
from barnabas.model.config.tables import (
    BROKER_SETTINGS,
    broker_setting,
    is_without_effect,
    topic_setting,
)
from barnabas.model.config.topic_table import TOPIC_SETTINGS, TOPIC_SYNONYMS
from barnabas.model.config.types import Value, parse, render
from barnabas.model.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Mapping

# Topics with the same settings share one LogConfig; past this many kinds sharing starts anew.
_SHARED_LOG_CONFIGS_MAX: Final = 1024
_NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})


class BrokerConfig:
    """All settings of one broker. Raises `ConfigProblem` when they make no sense."""

    __slots__ = (
        "_shared_log_configs",
        "_topic_defaults",
        "_values",
        "advertised_listeners",
        "dynamic",
        "dynamic_default",
        "listeners",
        "static",
        "warnings",
    )

    def __init__(
        self,
        static: Mapping[str, str] = _NO_TEXTS,
        dynamic: Mapping[str, str] = _NO_TEXTS,
        dynamic_default: Mapping[str, str] = _NO_TEXTS,
    ) -> None:
        """Take the texts of each layer; `dynamic` is this broker's, `dynamic_default` all's."""
        self.warnings = _warnings(static)
        self.static: Mapping[str, str] = MappingProxyType(_with_one_id(static))
        self.dynamic: Mapping[str, str] = MappingProxyType(dict(dynamic))
        self.dynamic_default: Mapping[str, str] = MappingProxyType(dict(dynamic_default))
        self._values = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        for layer in (self.static, self.dynamic_default, self.dynamic):
            self._values.update(
                (name, parse(broker_setting(name), text)) for name, text in layer.items()
            )
        self.listeners = self._read_listeners()
        self.advertised_listeners = self._read_advertised()
        self._topic_defaults = {name: self._topic_default(name) for name in TOPIC_SETTINGS}
        check_rules(self._values, self._topic_defaults)
        check_security(self)
        self._shared_log_configs: dict[tuple[tuple[str, str], ...], LogConfig] = {}

    def with_dynamic(
        self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]
    ) -> BrokerConfig:
        """Make the config that is in force once these dynamic settings are."""
        return BrokerConfig(self.static, dynamic, dynamic_default)

    def get(self, name: str) -> Value:
        """Give the value in force. A name that is in no table is an error of the caller."""
        return self._values[name]

    def of_listener(self, name: str, listener: str, mechanism: str | None = None) -> Value:
        """Give the value that is in force for a listener, and for a login mechanism of it."""
        for one in names_of(name, listener, mechanism):
            if one in self._values:
                return self._values[one]
        raise AssertionError(f"no setting {name}")

    def get_int(self, name: str) -> int:
        """Give a whole number that is always set."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def get_bool(self, name: str) -> bool:
        """Give a yes or no."""
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def get_float(self, name: str) -> float:
        """Give a number."""
        value = self._values[name]
        assert isinstance(value, float)
        return value

    def get_str(self, name: str) -> str:
        """Give a string that is always set."""
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        """Give a list; one that is not set is empty."""
        value = self._values[name]
        assert value is None or isinstance(value, tuple)
        return value or ()

    @property
    def node_id(self) -> BrokerId:
        """The number of this broker."""
        return BrokerId(self.get_int("node.id"))

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The directories of the logs; at least one."""
        return self.get_list("log.dirs") or self.get_list("log.dir")

    @property
    def log_config(self) -> LogConfig:
        """The settings of a topic that has none of its own."""
        return resolve_topic(self, _NO_TEXTS)

    @property
    def topic_defaults(self) -> Mapping[str, Value]:
        """The value of each topic setting where the topic does not say."""
        return MappingProxyType(self._topic_defaults)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers use among themselves."""
        name = self.get("inter.broker.listener.name")
        if name is None:
            protocol = self.get_str("security.inter.broker.protocol")
            names = [listener.name for listener in self.listeners]
            return protocol if protocol in names else names[0]
        return str(name).upper()

    def _read_listeners(self) -> tuple[Listener, ...]:
        protocols = parse_protocol_map(self.get_str("listener.security.protocol.map"))
        return parse_listeners(render(self.get("listeners")) or "", protocols)

    def _read_advertised(self) -> tuple[Listener, ...]:
        advertised = self.get_list("advertised.listeners")
        return parse_advertised(",".join(advertised), self.listeners)

    def _topic_default(self, name: str) -> Value:
        for synonym in TOPIC_SYNONYMS.get(name, ()):
            value = self._values[synonym.name]
            if value is None:
                continue
            if synonym.factor != 1:
                value = cast("int", value) * synonym.factor
            # Any negative time means "for ever", which a topic writes as -1.
            return max(cast("int", value), -1) if name == "retention.ms" else value
        return TOPIC_SETTINGS[name].default


def _with_one_id(static: Mapping[str, str]) -> dict[str, str]:
    """Drop what means nothing here, and let node.id and broker.id speak for each other."""
    texts = {name: text for name, text in static.items() if is_without_effect(name) is None}
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in texts:
            texts.setdefault(other, texts[name])
    return texts


def _warnings(static: Mapping[str, str]) -> tuple[str, ...]:
    """Say which settings of the configuration file have no effect, and why."""
    found = []
    for name in static:
        reason = is_without_effect(name)
        if reason is not None:
            found.append(f"{name} has no effect: {reason}")
        elif name in BROKER_SETTINGS and (feature := BROKER_SETTINGS[name].feature):
            found.append(f"{name} has no effect yet: it belongs to {feature.value}")
    return tuple(found)


def resolve_topic(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Give the settings in force for a topic with these texts of its own.

    Overrides were checked when they were set; a wrong one is a `ConfigProblem` all the same.
    """
    shared = broker._shared_log_configs
    key = tuple(sorted(overrides.items()))
    found = shared.get(key)
    if found is None:
        values = dict(broker._topic_defaults)
        values.update((name, parse(topic_setting(name), text)) for name, text in key)
        found = build_log_config(values)
        if len(shared) >= _SHARED_LOG_CONFIGS_MAX:
            shared.clear()
        shared[key] = found
    return found
