"""Settings of the broker: who the broker is, where it listens, what it takes from connections and requests, and how topics come to be.

Job: one line per setting with Kafka's name, type, default, bounds and time of change.
Must not know: who reads a setting.
Invariants: as Kafka 4.3.1 has them, unless a test lists the difference with its reason.
"""

from __future__ import annotations

from typing import Final

from barnabas.model.config.types import (
    INT_MAX,
    Allowed,
    Importance,
    Kind,
    Setting,
    Update,
    Value,
    at_least,
    one_of,
    settings,
)


def _are_counts(value: Value) -> bool:
    """Tell whether a text is a list of ADDRESS:COUNT."""
    entries = [entry.strip() for entry in str(value).split(",") if entry.strip()]
    return all(":" in entry and entry.rpartition(":")[2].isdigit() for entry in entries)


SERVER_SETTINGS: Final = settings(
    Setting(
        "node.id",
        Kind.INT,
        1,
        "The number of this broker in its cluster. It stays with the data directory for life.",
        allowed=at_least(0),
        importance=Importance.HIGH,
    ),
    Setting(
        "broker.id",
        Kind.INT,
        1,
        "The older name of node.id; when both are given they must agree.",
        allowed=at_least(0),
        importance=Importance.HIGH,
    ),
    Setting(
        "listeners",
        Kind.LIST,
        ("PLAINTEXT://:9092",),
        "Where the broker listens: NAME://HOST:PORT, several with commas. An empty host "
        "means all addresses, port 0 any free one.",
        importance=Importance.HIGH,
    ),
    Setting(
        "advertised.listeners",
        Kind.LIST,
        None,
        "The addresses clients are told, by listener name. Not set, a client is told the "
        "address it connected to.",
        importance=Importance.HIGH,
    ),
    Setting(
        "listener.security.protocol.map",
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name stands for: NAME:PROTOCOL, several "
        "with commas.",
        importance=Importance.LOW,
    ),
    Setting(
        "socket.listen.backlog.size",
        Kind.INT,
        50,
        "How many connections may wait to be accepted; the system may hold it lower.",
        allowed=at_least(1),
    ),
    Setting(
        "socket.receive.buffer.bytes",
        Kind.INT,
        102_400,
        "The receive buffer of each connection's socket; -1 leaves it to the system.",
        importance=Importance.HIGH,
    ),
    Setting(
        "socket.send.buffer.bytes",
        Kind.INT,
        524_288,  # Kafka's is 102,400; the reason is in docs/adr/0006-readers-at-the-end.md
        "The send buffer of each connection's socket; -1 leaves it to the system.",
        importance=Importance.HIGH,
    ),
    Setting(
        "socket.request.max.bytes",
        Kind.INT,
        104_857_600,
        "The largest request that is read; a longer one closes its connection.",
        allowed=at_least(1),
        importance=Importance.HIGH,
    ),
    Setting(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "After how long without a request a connection is closed.",
    ),
    Setting(
        "max.connections",
        Kind.INT,
        INT_MAX,
        "How many connections the broker holds at most.",
        allowed=at_least(0),
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip",
        Kind.INT,
        INT_MAX,
        "How many connections one address may hold.",
        allowed=at_least(0),
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip.overrides",
        Kind.STRING,
        "",
        "Other limits for single addresses: ADDRESS:COUNT, several with commas.",
        allowed=Allowed("ADDRESS:COUNT, several with commas", _are_counts),
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "queued.max.request.bytes",
        Kind.LONG,
        -1,
        "How many bytes of requests may wait unanswered before the broker stops reading; "
        "-1 sets no limit.",
    ),
    Setting(
        "fetch.max.bytes",
        Kind.INT,
        57_671_680,
        "The most that one fetch answer holds, whatever the client asks for; a single "
        "larger batch still goes out whole.",
        allowed=at_least(1024),
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "How many incremental fetch sessions are remembered.",
        allowed=at_least(0),
    ),
    Setting(
        "max.request.partition.size.limit",
        Kind.INT,
        2000,
        "How many partitions one DescribeTopicPartitions answer names at most.",
        allowed=at_least(1),
    ),
    Setting(
        "num.partitions",
        Kind.INT,
        1,
        "How many partitions a topic gets when nobody says.",
        allowed=at_least(1),
    ),
    Setting(
        "default.replication.factor",
        Kind.INT,
        1,
        "How many replicas a topic gets when nobody says.",
    ),
    Setting(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Whether asking for the metadata of a topic that does not exist creates it.",
        importance=Importance.HIGH,
    ),
    Setting(
        "delete.topic.enable",
        Kind.BOOLEAN,
        True,
        "Whether topics may be deleted.",
        importance=Importance.HIGH,
    ),
    Setting(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "After how long without a write the state of an idempotent producer is forgotten.",
        allowed=at_least(1),
        importance=Importance.LOW,
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        Kind.INT,
        600_000,
        "How often the broker looks for producers to forget.",
        allowed=at_least(1),
        importance=Importance.LOW,
        internal=True,
    ),
    Setting(
        "broker.rack",
        Kind.STRING,
        None,
        "The rack or zone this broker stands in; replicas of a partition are spread over them.",
    ),
    Setting(
        "inter.broker.listener.name",
        Kind.STRING,
        None,
        "Which listener brokers use among themselves.",
    ),
    Setting(
        "security.inter.broker.protocol",
        Kind.STRING,
        "PLAINTEXT",
        "Which security protocol brokers use among themselves when no listener is named.",
        allowed=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Setting(
        "request.timeout.ms",
        Kind.INT,
        30_000,
        "How long the broker waits for another broker's answer.",
        importance=Importance.HIGH,
    ),
)
