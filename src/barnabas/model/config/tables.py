"""All settings, and what stands behind a name somebody wrote.

Job: the areas' tables as one; the nearest known name to a wrong one; the names that mean one
setting in several units.
Must not know: values in force.
Invariants: a name is in one area only.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from barnabas.model.config.broker_cluster_table import CLUSTER_SETTINGS
from barnabas.model.config.broker_group_table import GROUP_SETTINGS
from barnabas.model.config.broker_log_table import LOG_SETTINGS
from barnabas.model.config.broker_security_table import SECURITY_SETTINGS
from barnabas.model.config.broker_server_table import SERVER_SETTINGS
from barnabas.model.config.listener_settings import split_name
from barnabas.model.config.not_applicable import NOT_APPLICABLE
from barnabas.model.config.topic_table import TOPIC_SETTINGS
from barnabas.model.config.types import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.model.config.types import Setting

AREAS: Final[Mapping[str, Mapping[str, Setting]]] = MappingProxyType(
    {
        "Server": SERVER_SETTINGS,
        "Log": LOG_SETTINGS,
        "Cluster and quotas": CLUSTER_SETTINGS,
        "Groups and transactions": GROUP_SETTINGS,
        "Security": SECURITY_SETTINGS,
    }
)

BROKER_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {name: setting for area in AREAS.values() for name, setting in area.items()}
)

_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")

# What DescribeConfigs lists beside a name. The scheduler interval stands behind the flush
# interval, yet is a setting of its own: the other way round there is nothing to list.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(_RETENTION, _RETENTION),
        **dict.fromkeys(_ROLL, _ROLL),
        **dict.fromkeys(_ROLL_JITTER, _ROLL_JITTER),
        "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    }
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Give the names that stand for a setting, in order of precedence, itself among them."""
    return _SYNONYMS.get(name, (name,))


def nearest(name: str, known: Iterable[str] = BROKER_SETTINGS) -> str | None:
    """Find the known name that looks most like a wrong one, if any looks like it."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown_name(name: str, known: Iterable[str] = BROKER_SETTINGS) -> ConfigProblem:
    """Make the complaint about a name that is in no table."""
    near = nearest(name, known)
    hint = f"; did you mean {near}?" if near else ""
    return ConfigProblem(name, f"there is no setting named '{name}'{hint}")


def topic_setting(name: str) -> Setting:
    """Find a setting of topics, or complain with the nearest name."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        raise unknown_name(name, TOPIC_SETTINGS)
    return setting


def broker_setting(name: str) -> Setting:
    """Find a setting of the broker, or complain with the nearest name or the reason."""
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        if name in NOT_APPLICABLE:
            raise ConfigProblem(name, f"{name} means nothing here: {NOT_APPLICABLE[name]}")
        setting = _setting_of_a_listener(name)
    return setting


def _setting_of_a_listener(name: str) -> Setting:
    found = split_name(name)
    if found is None:
        raise unknown_name(name)
    base = BROKER_SETTINGS.get(found.base)
    if base is None:
        if found.base in NOT_APPLICABLE:
            raise ConfigProblem(name, f"{name} means nothing here: {NOT_APPLICABLE[found.base]}")
        raise unknown_name(
            name, [f"{name.removesuffix(found.base)}{one}" for one in BROKER_SETTINGS]
        )
    return replace(base, name=name)


def is_without_effect(name: str) -> str | None:
    """Say why a setting of Kafka's means nothing here, also where it is one listener's; None if it does."""
    found = split_name(name)
    return NOT_APPLICABLE.get(name if found is None else found.base)
