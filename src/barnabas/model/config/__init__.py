"""The settings of brokers and topics: which there are, how they are read, shown and changed.

`types` says what a setting is; the `…_table` modules list them and `tables` joins those;
`broker_config` puts the layers on top of each other; `log_config` is a topic's part of that;
`describe` and `alter` stand behind the requests of the same names; `properties` and `listeners`
read what people write. Import from here.
"""

from barnabas.model.config.alter import (
    AlterOperation,
    ConfigChange,
    alter_broker,
    alter_topic,
    check_topic,
    replace_broker,
    replace_topic,
)
from barnabas.model.config.broker_config import BrokerConfig, resolve_topic
from barnabas.model.config.describe import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    describe_broker,
    describe_dynamic_default,
    describe_topic,
)
from barnabas.model.config.listeners import Listener, parse_listeners
from barnabas.model.config.log_config import LogConfig, build_log_config
from barnabas.model.config.not_applicable import NOT_APPLICABLE
from barnabas.model.config.properties import parse_properties
from barnabas.model.config.tables import BROKER_SETTINGS, broker_setting, nearest, topic_setting
from barnabas.model.config.topic_table import TOPIC_SETTINGS, TOPIC_SYNONYMS
from barnabas.model.config.types import ConfigProblem, Kind, Setting, Value, parse, render

__all__ = [
    "BROKER_SETTINGS",
    "NOT_APPLICABLE",
    "TOPIC_SETTINGS",
    "TOPIC_SYNONYMS",
    "AlterOperation",
    "BrokerConfig",
    "ConfigChange",
    "ConfigEntry",
    "ConfigProblem",
    "ConfigSource",
    "ConfigSynonym",
    "Kind",
    "Listener",
    "LogConfig",
    "Setting",
    "Value",
    "alter_broker",
    "alter_topic",
    "broker_setting",
    "build_log_config",
    "check_topic",
    "describe_broker",
    "describe_dynamic_default",
    "describe_topic",
    "nearest",
    "parse",
    "parse_listeners",
    "parse_properties",
    "render",
    "replace_broker",
    "replace_topic",
    "resolve_topic",
    "topic_setting",
]
