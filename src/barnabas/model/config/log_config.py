"""The settings of one topic, resolved and typed, as the log and the handlers read them.

Job: hold the values in force for a topic as plain attributes.
Must not know: where a value came from; `resolve_topic` puts the layers on top of each other.
Invariants: never changes once built, so topics without settings of their own share one; every
value has passed its setting's bounds; min_compaction_lag_ms <= max_compaction_lag_ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from barnabas.model.config.topic_table import TOPIC_SETTINGS
from barnabas.model.config.types import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.model.config.types import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One topic's settings. Build with `resolve_topic`, or `build_log_config` for given values."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compact(self) -> bool:
        """Whether the topic keeps the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are dropped by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's clock stamps the records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_ms(self) -> int:
        """After how long a segment is closed: compaction cannot look into an open one."""
        if self.compact:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def initial_file_size_bytes(self) -> int:
        """How large a new segment's file is made."""
        return self.segment_bytes if self.preallocate else 0


def build_log_config(values: Mapping[str, Value] | None = None) -> LogConfig:
    """Build from parsed values by Kafka's names; what is not given has its table default."""
    effective = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
    effective.update(values or {})
    segment_bytes = effective.pop("internal.segment.bytes")
    if segment_bytes is not None:
        effective["segment.bytes"] = segment_bytes
    attributes = {name.replace(".", "_"): value for name, value in effective.items()}
    config = LogConfig(**cast("dict[str, object]", attributes))  # type: ignore[arg-type]
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigProblem(
            "min.compaction.lag.ms",
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) is more than "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
    return config
