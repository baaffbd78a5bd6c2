"""Settings of single consumer groups: the table, and how they are described, changed and checked.

Job: what DescribeConfigs and the alter requests say and do for groups (resource type 32). Must not know: the messages, which groups
exist, where the texts are stored. Groups of other kinds (share, streams) have no settings here, as there are none.
Invariants: what `alter_group` and `replace_group` give can be read by `read_group`; each value lies between the broker's
minimum and maximum of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.config.alter import ConfigChange, apply_changes, as_texts
from barnabas.model.config.describe import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    broker_layers,
)
from barnabas.model.config.types import ConfigProblem, Kind, Setting, at_least, parse, settings
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from barnabas.model.config.broker_config import BrokerConfig

GROUP_CONFIG: Final = settings(
    Setting(
        "consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "After how long without a report a member counts as gone.",
        allowed=at_least(1),
    ),
    Setting(
        "consumer.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "How often members report.",
        allowed=at_least(1),
    ),
    Setting(
        "consumer.assignment.interval.ms",
        Kind.INT,
        1000,
        "How much time lies at least between two assignments.",
        allowed=at_least(0),
    ),
)


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None
) -> list[ConfigEntry]:
    """List the settings of a group with where each value comes from; `names` None or empty: all."""
    return [
        _entry(broker, overrides, setting)
        for name, setting in GROUP_CONFIG.items()
        if not names or name in names
    ]


def _entry(broker: BrokerConfig, overrides: Mapping[str, str], setting: Setting) -> ConfigEntry:
    layers = broker_layers(broker, f"group.{setting.name}")
    if setting.name in overrides:
        own = ConfigSynonym(
            setting.name, overrides[setting.name], ConfigSource.DYNAMIC_GROUP_CONFIG
        )
        layers = (own, *layers)
    return ConfigEntry(
        setting.name,
        layers[0].value,
        layers[0].source,
        False,
        False,
        layers,
        setting.kind,
        setting.documentation,
    )


def alter_group(
    broker: BrokerConfig, overrides: Mapping[str, str], changes: Sequence[ConfigChange]
) -> dict[str, str]:
    """Give a group's settings after these changes (IncrementalAlterConfigs)."""
    changed = apply_changes(overrides, changes, GROUP_CONFIG)
    read_group(broker, changed)
    return changed


def replace_group(
    broker: BrokerConfig, configs: Sequence[tuple[str, str | None]]
) -> dict[str, str]:
    """Give a group's settings when these take the place of all (AlterConfigs)."""
    replaced = as_texts(configs)
    read_group(broker, replaced)
    return replaced


def read_group(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, int]:
    """Give the values, or refuse."""
    values = {}
    for name, text in overrides.items():
        setting = GROUP_CONFIG.get(name)
        if setting is None:
            known = ", ".join(GROUP_CONFIG)
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"a group has no setting {name}; there are: {known}"
            )
        try:
            value = parse(setting, text)
        except ConfigProblem as problem:
            raise KafkaError(ErrorCode.INVALID_CONFIG, problem.message) from None
        assert isinstance(value, int)
        _check_bounds(broker, name, value)
        values[name] = value
    session = values.get("consumer.session.timeout.ms")
    interval = values.get("consumer.heartbeat.interval.ms")
    if session is not None and interval is not None and session <= interval:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
        )
    return values


def _check_bounds(broker: BrokerConfig, name: str, value: int) -> None:
    kind, _, rest = name.partition(".")
    least = f"group.{kind}.min.{rest}"
    most = f"group.{kind}.max.{rest}"
    if not broker.get_int(least) <= value <= broker.get_int(most):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{name} is {value}; it must lie between {least}={broker.get_int(least)} and"
            f" {most}={broker.get_int(most)}",
        )
