"""What AlterConfigs and IncrementalAlterConfigs may change, and what they leave behind.

Job: apply changes to the settings of a topic or of the dynamic layers of a broker, check the
whole, and give the new texts; refuse with the error Kafka answers.
Must not know: the messages, which resources exist, where the texts are stored.
Invariants: nothing is changed in place: the caller stores what comes back or, after a
`KafkaError`, nothing; what comes back can be resolved.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model.config.broker_config import resolve_topic
from barnabas.model.config.tables import BROKER_SETTINGS, broker_setting
from barnabas.model.config.topic_table import TOPIC_SETTINGS
from barnabas.model.config.types import ConfigProblem, Kind, Update, render
from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from barnabas.model.config.broker_config import BrokerConfig
    from barnabas.model.config.types import Setting


class AlterOperation(IntEnum):
    """What a change does; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One line of IncrementalAlterConfigs. `operation` is a number, as it came in."""

    name: str
    operation: int
    value: str | None


def alter_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], changes: Sequence[ConfigChange]
) -> dict[str, str]:
    """Give a topic's settings after these changes (IncrementalAlterConfigs)."""
    changed = apply_changes(overrides, changes, TOPIC_SETTINGS)
    check_topic(broker, changed)
    return changed


def replace_topic(
    broker: BrokerConfig, configs: Sequence[tuple[str, str | None]]
) -> dict[str, str]:
    """Give a topic's settings when these take the place of all (AlterConfigs, CreateTopics)."""
    replaced = as_texts(configs)
    check_topic(broker, replaced)
    return replaced


def check_topic(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Refuse settings of a topic that cannot be in force."""
    try:
        resolve_topic(broker, overrides)
    except ConfigProblem as problem:
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem.message) from None


def alter_broker(
    broker: BrokerConfig, changes: Sequence[ConfigChange], *, cluster_wide: bool
) -> dict[str, str]:
    """Give the dynamic settings of this broker, or of all, after these changes."""
    layer = broker.dynamic_default if cluster_wide else broker.dynamic
    changed = apply_changes(layer, changes, BROKER_SETTINGS)
    _check_broker(broker, changed, cluster_wide)
    return changed


def replace_broker(
    broker: BrokerConfig, configs: Sequence[tuple[str, str | None]], *, cluster_wide: bool
) -> dict[str, str]:
    """Give the dynamic settings of this broker, or of all, when these take the place of all."""
    replaced = as_texts(configs)
    _check_broker(broker, replaced, cluster_wide)
    return replaced


def _check_broker(broker: BrokerConfig, texts: Mapping[str, str], cluster_wide: bool) -> None:
    # Kafka answers INVALID_REQUEST here where a topic gets INVALID_CONFIG (KAFKA-13609).
    try:
        for name in texts:
            _check_update(broker_setting(name), cluster_wide)
        if cluster_wide:
            broker.with_dynamic(broker.dynamic, texts)
        else:
            broker.with_dynamic(texts, broker.dynamic_default)
    except ConfigProblem as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem.message) from None


def _check_update(setting: Setting, cluster_wide: bool) -> None:
    if setting.update is Update.READ_ONLY:
        raise ConfigProblem(
            setting.name,
            f"{setting.name} cannot change while the broker runs; "
            "set it in the configuration file and start again",
        )
    if setting.update is Update.PER_BROKER and cluster_wide:
        raise ConfigProblem(
            setting.name, f"{setting.name} is set for one broker at a time; name the broker"
        )


def as_texts(configs: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """Take settings as they stand; each needs a value and may be named once."""
    _check_names(name for name, _value in configs)
    return {name: _text(name, value) for name, value in configs}


def apply_changes(
    texts: Mapping[str, str], changes: Sequence[ConfigChange], table: Mapping[str, Setting]
) -> dict[str, str]:
    """Give the texts after these changes; what they mean is not looked at."""
    _check_names(change.name for change in changes)
    changed = dict(texts)
    for name, operation, value in changes:
        if operation == AlterOperation.DELETE:
            changed.pop(name, None)
        elif operation == AlterOperation.SET:
            changed[name] = _text(name, value)
        elif operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            parts = _list_parts(name, changed.get(name), table)
            given = _text(name, value).split(",")
            appends = operation == AlterOperation.APPEND
            changed[name] = ",".join(_append(parts, given) if appends else _take(parts, given))
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{operation} is no operation on {name}; "
                "there are 0 (set), 1 (delete), 2 (append) and 3 (subtract)",
            )
    return changed


def _list_parts(name: str, text: str | None, table: Mapping[str, Setting]) -> list[str]:
    setting = table.get(name)
    if setting is None or setting.kind is not Kind.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} is no list, so nothing can be added to it or taken"
        )
    current = render(setting.default) if text is None else text
    return [part for part in (current or "").split(",") if part]


def _append(parts: list[str], given: list[str]) -> list[str]:
    return list(dict.fromkeys([*parts, *given]))


def _take(parts: list[str], given: list[str]) -> list[str]:
    return [part for part in parts if part not in given]


def _text(name: str, value: str | None) -> str:
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no value; delete it instead")
    return value


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, None] = {}
    for name in names:
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is in the request twice")
        seen[name] = None
