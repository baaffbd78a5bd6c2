"""The settings of a topic, and the broker settings that stand behind them.

Job: one line per setting with Kafka's name, type, default and bounds; for each the broker's
settings that give its value where the topic does not.
Must not know: who reads a setting.
Invariants: names, types, defaults and bounds are those of Kafka 4.3.1 unless a test lists the
difference with its reason; the default of a topic setting is what its broker settings default to.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.config.types import (
    ANYTHING,
    LONG_MAX,
    THROTTLED_REPLICAS,
    Allowed,
    Feature,
    Importance,
    Kind,
    Setting,
    Update,
    at_least,
    between,
    each_of,
    one_of,
    settings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES: Final = ("compact", "delete")
WEEK_MS: Final = 7 * 24 * 3600 * 1000
DAY_MS: Final = 24 * 3600 * 1000
# 1 MiB of records and the 12 bytes of offset and length before a batch.
MAX_MESSAGE_BYTES_DEFAULT: Final = 1024 * 1024 + 12
SEGMENT_BYTES_MIN: Final = 1024 * 1024

_MEDIUM = Importance.MEDIUM
_ANY_TIME = Update.CLUSTER_WIDE


TOPIC_SETTINGS: Final = settings(
    Setting(
        "cleanup.policy",
        Kind.LIST,
        ("delete",),
        "What happens to old records: 'delete' drops whole segments by age or size, 'compact' keeps "
        "the last record of each key; both may be named, and with neither records stay for ever.",
        each_of(*CLEANUP_POLICIES),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "compression.gzip.level",
        Kind.INT,
        -1,
        "How hard gzip tries where compression.type is gzip; -1 leaves it to the library.",
        between(1, 9, also=-1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "compression.lz4.level",
        Kind.INT,
        9,
        "Taken and shown, without effect: lz4 is always the quick kind here.",
        between(1, 17),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "compression.type",
        Kind.STRING,
        "producer",
        "How batches are stored. 'producer' keeps them as they came; any other value makes the "
        "broker compress, or unpack, batches that differ.",
        one_of(*COMPRESSION_TYPES),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "compression.zstd.level",
        Kind.INT,
        3,
        "How hard zstd tries where compression.type is zstd.",
        between(-131072, 22),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "delete.retention.ms",
        Kind.LONG,
        DAY_MS,
        "How long a tombstone of a compacted topic stays, so that readers have time to see it.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "file.delete.delay.ms",
        Kind.LONG,
        60_000,
        "How long the file of a dropped segment stays on disk for reads that are under way.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "flush.messages",
        Kind.LONG,
        LONG_MAX,
        "After how many records the log is forced to disk. Left alone, the operating system "
        "decides, and replicas guard against loss.",
        at_least(1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "flush.ms",
        Kind.LONG,
        LONG_MAX,
        "After how long records that were written are forced to disk.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "follower.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas that are slowed down where they follow; '*' means all of the topic.",
        THROTTLED_REPLICAS,
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "index.interval.bytes",
        Kind.INT,
        4096,
        "How many bytes of log lie between two entries of the offset index.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "internal.segment.bytes",
        Kind.INT,
        None,
        "Takes the place of segment.bytes without its lower bound. For tests.",
        ANYTHING,
        _MEDIUM,
        _ANY_TIME,
        internal=True,
    ),
    Setting(
        "leader.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas that are slowed down where they lead; '*' means all of the topic.",
        THROTTLED_REPLICAS,
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "local.retention.bytes",
        Kind.LONG,
        -2,
        "How much of a tiered partition stays on the broker's disk; -2 follows retention.bytes.",
        at_least(-2),
        _MEDIUM,
        _ANY_TIME,
        Feature.TIERED,
    ),
    Setting(
        "local.retention.ms",
        Kind.LONG,
        -2,
        "How long a tiered partition stays on the broker's disk; -2 follows retention.ms.",
        at_least(-2),
        _MEDIUM,
        _ANY_TIME,
        Feature.TIERED,
    ),
    Setting(
        "max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        "How long a record may wait at most before compaction looks at it.",
        at_least(1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "max.message.bytes",
        Kind.INT,
        MAX_MESSAGE_BYTES_DEFAULT,
        "The largest batch that is accepted, after compression.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "message.timestamp.after.max.ms",
        Kind.LONG,
        3_600_000,
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie behind the broker's clock.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose clock stamps the records: the producer's (CreateTime) or the broker's "
        "(LogAppendTime).",
        one_of(*TIMESTAMP_TYPES),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        Kind.DOUBLE,
        0.5,
        "Which share of a compacted log must be new since the last run before it is compacted "
        "again.",
        between(0, 1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "min.compaction.lag.ms",
        Kind.LONG,
        0,
        "How long a record is left alone by compaction.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "min.insync.replicas",
        Kind.INT,
        1,
        "How many replicas must be in sync for a write with acks=all to be accepted.",
        at_least(1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "preallocate",
        Kind.BOOLEAN,
        False,
        "Whether a new segment's file is given its full size at once.",
        ANYTHING,
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "remote.log.copy.disable",
        Kind.BOOLEAN,
        False,
        "Stops copying segments to tiered storage while those already there stay readable.",
        ANYTHING,
        _MEDIUM,
        _ANY_TIME,
        Feature.TIERED,
    ),
    Setting(
        "remote.log.delete.on.disable",
        Kind.BOOLEAN,
        False,
        "Whether switching tiered storage off deletes what was copied there.",
        ANYTHING,
        _MEDIUM,
        _ANY_TIME,
        Feature.TIERED,
    ),
    Setting(
        "remote.storage.enable",
        Kind.BOOLEAN,
        False,
        "Whether closed segments are also kept in tiered storage.",
        Allowed("false: this broker has no tiered storage", lambda value: value is False),
        _MEDIUM,
        _ANY_TIME,
        Feature.TIERED,
    ),
    Setting(
        "retention.bytes",
        Kind.LONG,
        -1,
        "How large a partition may grow before its oldest segments are dropped; -1 sets no limit.",
        ANYTHING,
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "retention.ms",
        Kind.LONG,
        WEEK_MS,
        "How long records are kept before their segments are dropped; -1 keeps them for ever.",
        at_least(-1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "segment.bytes",
        Kind.INT,
        1024 * 1024 * 1024,
        "How large a segment may grow before the next one is begun.",
        at_least(SEGMENT_BYTES_MIN),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "segment.index.bytes",
        Kind.INT,
        10 * 1024 * 1024,
        "How large an index file may grow; a full index begins the next segment.",
        at_least(4),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "segment.jitter.ms",
        Kind.LONG,
        0,
        "How much earlier than segment.ms a segment may be closed, at random, so that not all "
        "partitions do so at once.",
        at_least(0),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "segment.ms",
        Kind.LONG,
        WEEK_MS,
        "After how long the next segment is begun, even when this one is not full.",
        at_least(1),
        _MEDIUM,
        _ANY_TIME,
    ),
    Setting(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "Whether a replica that is not in sync may lead when no other is left, at the price of "
        "lost records.",
        ANYTHING,
        _MEDIUM,
        _ANY_TIME,
    ),
)


class Synonym(NamedTuple):
    """A broker setting behind a topic setting; its number times `factor` is the topic's."""

    name: str
    factor: int = 1


_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000

# In order of precedence: the first that is set wins.
TOPIC_SYNONYMS: Final[Mapping[str, tuple[Synonym, ...]]] = MappingProxyType(
    {
        "cleanup.policy": (Synonym("log.cleanup.policy"),),
        "compression.gzip.level": (Synonym("compression.gzip.level"),),
        "compression.lz4.level": (Synonym("compression.lz4.level"),),
        "compression.type": (Synonym("compression.type"),),
        "compression.zstd.level": (Synonym("compression.zstd.level"),),
        "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
        "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
        "flush.messages": (Synonym("log.flush.interval.messages"),),
        "flush.ms": (
            Synonym("log.flush.interval.ms"),
            Synonym("log.flush.scheduler.interval.ms"),
        ),
        "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
        "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
        "local.retention.ms": (Synonym("log.local.retention.ms"),),
        "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
        "max.message.bytes": (Synonym("message.max.bytes"),),
        "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
        "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
        "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
        "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
        "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
        "min.insync.replicas": (Synonym("min.insync.replicas"),),
        "preallocate": (Synonym("log.preallocate"),),
        "retention.bytes": (Synonym("log.retention.bytes"),),
        "retention.ms": (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
        "segment.bytes": (Synonym("log.segment.bytes"),),
        "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
        "segment.jitter.ms": (
            Synonym("log.roll.jitter.ms"),
            Synonym("log.roll.jitter.hours", _HOUR_MS),
        ),
        "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
        "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
    }
)
