"""The settings of groups on this broker: what all have, and what single groups were given at run time.

Job: turn the broker's settings and the texts of single groups into what the machines of `core.group` read. Must not know: how
settings are stored or asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.core.group.settings import NO_OVERRIDES, GroupOverrides, GroupSettings
from barnabas.model.config.group_config import read_group
from barnabas.model.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.node import Node
    from barnabas.model.config.broker_config import BrokerConfig


class NodeGroupSettings:
    """What holds for each group now."""

    def __init__(self, node: Node) -> None:
        """Take the broker's settings; `load` brings those of single groups."""
        self._node = node
        self.all = settings_from(node.config)
        self._texts: dict[str, dict[str, str]] = {}
        self._own: dict[str, GroupOverrides] = {}
        #: What groups without settings of their own have beside `all`: a setting of the broker that changed since.
        self._default = NO_OVERRIDES

    def load(self, texts: Mapping[str, Mapping[str, str]]) -> None:
        """Take what the store has; it was checked when it was set."""
        for group_id, own in texts.items():
            self._texts[group_id] = dict(own)
        self.on_broker_changed()

    def texts(self, group_id: str) -> dict[str, str] | None:
        """Give what a group was given, as it is written; None: nothing ever."""
        return self._texts.get(group_id)

    def put(self, group_id: str, texts: dict[str, str]) -> None:
        """Replace what a group was given."""
        self._texts[group_id] = texts
        self._own.pop(group_id, None)
        if texts:
            self._own[group_id] = self._read(texts)

    def on_broker_changed(self) -> None:
        """Take over what changed in the broker's own settings."""
        interval_ms = self._node.config.get_int("group.consumer.assignment.interval.ms")
        self._default = NO_OVERRIDES
        if interval_ms != self.all.consumer_assignment_interval_ms:
            self._default = GroupOverrides(consumer_assignment_interval_ms=interval_ms)
        self._own = {
            group_id: self._read(texts) for group_id, texts in self._texts.items() if texts
        }

    def overrides(self, group_id: str) -> GroupOverrides:
        """Give what a group has beside `all`."""
        return self._own.get(group_id, self._default)

    def _read(self, texts: Mapping[str, str]) -> GroupOverrides:
        try:
            values = read_group(self._node.config, texts)
        except KafkaError:  # the broker's bounds were drawn closer since: as in Kafka, they win
            return self._default
        found = {name.replace(".", "_"): value for name, value in values.items()}
        return replace(self._default, **found)


def settings_from(config: BrokerConfig) -> GroupSettings:
    """Pick the settings that the machines read."""
    number = config.get_int
    return GroupSettings(
        initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=number("group.min.session.timeout.ms"),
        max_session_timeout_ms=number("group.max.session.timeout.ms"),
        max_size=number("group.max.size"),
        rebalance_protocols=_names(config, "group.coordinator.rebalance.protocols"),
        consumer_assignors=_names(config, "group.consumer.assignors"),
        consumer_session_timeout_ms=number("group.consumer.session.timeout.ms"),
        consumer_min_session_timeout_ms=number("group.consumer.min.session.timeout.ms"),
        consumer_max_session_timeout_ms=number("group.consumer.max.session.timeout.ms"),
        consumer_heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
        consumer_min_heartbeat_interval_ms=number("group.consumer.min.heartbeat.interval.ms"),
        consumer_max_heartbeat_interval_ms=number("group.consumer.max.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=number("group.consumer.assignment.interval.ms"),
        consumer_max_size=number("group.consumer.max.size"),
        consumer_migration_policy=str(config.get("group.consumer.migration.policy")).lower(),
        offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
        offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
    )


def _names(config: BrokerConfig, name: str) -> tuple[str, ...]:
    value = config.get(name)
    assert isinstance(value, tuple)
    return value
