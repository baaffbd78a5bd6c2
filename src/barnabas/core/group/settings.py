"""The settings of the group machines, as one value.

Job: the numbers that rules need, under Python names. Must not know: where settings come from or how they
are written (`model.config` does). Times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's defaults; the host fills in what the broker is set to. Names follow the setting beside them."""

    initial_rebalance_delay_ms: int = 3000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = _INT_MAX  # group.max.size
    #: New members have this long to come with their first SyncGroup or a second JoinGroup (fixed in Kafka).
    new_member_join_timeout_ms: int = 300_000

    rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the default first
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_min_heartbeat_interval_ms: int = 5000
    consumer_max_heartbeat_interval_ms: int = 15_000
    #: Time between two target assignments of a group: members that come in a crowd share one.
    consumer_assignment_interval_ms: int = 1000  # group.consumer.assignment.interval.ms
    consumer_max_size: int = _INT_MAX
    #: disabled, downgrade, upgrade or bidirectional; lower case.
    consumer_migration_policy: str = "bidirectional"
    #: How often regular expressions are tried again against the topics (fixed in Kafka: 10 minutes).
    consumer_regex_refresh_interval_ms: int = 600_000

    offset_metadata_max_bytes: int = 4096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 10_080 * 60_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group while it has members."""
        return self.consumer_migration_policy in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group while it has members."""
        return self.consumer_migration_policy in ("downgrade", "bidirectional")


@dataclass(frozen=True, slots=True)
class GroupOverrides:
    """The dynamic settings of one group (resource type GROUP); None: as the broker has it."""

    consumer_session_timeout_ms: int | None = None  # consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int | None = None  # consumer.heartbeat.interval.ms
    consumer_assignment_interval_ms: int | None = None  # consumer.assignment.interval.ms


NO_OVERRIDES = GroupOverrides()
