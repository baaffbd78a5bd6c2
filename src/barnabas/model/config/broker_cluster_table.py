"""Settings of the broker: replication, leadership, the way to ZooKeeper, and the windows quotas are measured over.

Job: one line per setting with Kafka's name, type, default, bounds and time of change.
Must not know: who reads a setting.
Invariants: as Kafka 4.3.1 has them, unless a test lists the difference with its reason.
"""

from __future__ import annotations

from typing import Final

from barnabas.model.config.types import (
    INT_MAX,
    LONG_MAX,
    ZOOKEEPER_CONNECT,
    Importance,
    Kind,
    Setting,
    Update,
    at_least,
    settings,
)

CLUSTER_SETTINGS: Final = settings(
    Setting(
        "zookeeper.connect",
        Kind.STRING,
        None,
        "The ZooKeeper servers of the cluster, and the path there that is its root. Not set, the "
        "node stands alone.",
        ZOOKEEPER_CONNECT,
        importance=Importance.HIGH,
    ),
    Setting(
        "reserved.broker.max.id",
        Kind.INT,
        1000,
        "The largest node.id that may be chosen in a cluster: Apache Kafka's brokers may draw theirs from above.",
        allowed=at_least(0),
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        Kind.INT,
        18_000,
        "How long ZooKeeper waits for a silent broker before it counts as gone.",
        importance=Importance.HIGH,
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        Kind.INT,
        None,
        "How long the broker tries to reach ZooKeeper at the start. Not set, "
        "zookeeper.session.timeout.ms counts.",
        importance=Importance.HIGH,
    ),
    Setting(
        "controller.socket.timeout.ms",
        Kind.INT,
        30_000,
        "How long the controller waits for a broker's answer.",
    ),
    Setting(
        "controlled.shutdown.enable",
        Kind.BOOLEAN,
        True,
        "Whether a stopping broker hands its partitions over first.",
    ),
    Setting(
        "controlled.shutdown.max.retries",
        Kind.INT,
        3,
        "How often a stopping broker tries to hand its partitions over.",
    ),
    Setting(
        "controlled.shutdown.retry.backoff.ms",
        Kind.LONG,
        5000,
        "How long it rests between two tries.",
    ),
    Setting(
        "auto.leader.rebalance.enable",
        Kind.BOOLEAN,
        True,
        "Whether leadership returns to the preferred replicas by itself.",
        importance=Importance.HIGH,
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        Kind.LONG,
        300,
        "How often the controller looks at the spread of leaders.",
        allowed=at_least(1),
        importance=Importance.HIGH,
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        Kind.INT,
        10,
        "Which share of a broker's partitions may be led elsewhere before leaders are moved back.",
        importance=Importance.HIGH,
    ),
    Setting(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "Whether a replica that is not in sync may lead when no other is left, at the "
        "price of lost records.",
        importance=Importance.HIGH,
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "log.dir.failure.timeout.ms",
        Kind.LONG,
        30_000,
        "How long a broker with a failed log directory tries to tell the controller "
        "before it stops.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "num.replica.fetchers",
        Kind.INT,
        1,
        "How many connections a broker follows each leader with.",
        allowed=at_least(1),
        importance=Importance.HIGH,
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "replica.fetch.backoff.ms",
        Kind.INT,
        1000,
        "How long a follower rests after a failed fetch.",
        allowed=at_least(0),
    ),
    Setting(
        "replica.fetch.max.bytes",
        Kind.INT,
        1_048_576,
        "How many bytes a follower asks for per partition; a single larger batch still "
        "comes whole.",
        allowed=at_least(0),
    ),
    Setting(
        "replica.fetch.min.bytes",
        Kind.INT,
        1,
        "How many bytes a leader waits for before it answers a follower.",
        importance=Importance.HIGH,
    ),
    Setting(
        "replica.fetch.response.max.bytes",
        Kind.INT,
        10_485_760,
        "How many bytes one answer to a follower holds.",
        allowed=at_least(0),
    ),
    Setting(
        "replica.fetch.wait.max.ms",
        Kind.INT,
        500,
        "How long a leader holds a follower's fetch at most.",
        importance=Importance.HIGH,
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind.LONG,
        5000,
        "How often the high watermarks are written down.",
        importance=Importance.HIGH,
    ),
    Setting(
        "replica.lag.time.max.ms",
        Kind.LONG,
        30_000,
        "How long a follower may be behind before it leaves the in-sync set.",
        importance=Importance.HIGH,
    ),
    Setting(
        "replica.selector.class",
        Kind.STRING,
        None,
        "How a consumer's nearest replica is chosen. Not set, everybody reads from the leader.",
    ),
    Setting(
        "replica.socket.receive.buffer.bytes",
        Kind.INT,
        65_536,
        "The receive buffer of a follower's socket.",
        importance=Importance.HIGH,
    ),
    Setting(
        "replica.socket.timeout.ms",
        Kind.INT,
        30_000,
        "How long a follower waits for its leader's answer.",
        importance=Importance.HIGH,
    ),
    Setting(
        "max.connection.creation.rate",
        Kind.INT,
        INT_MAX,
        "How many new connections per second the broker takes.",
        allowed=at_least(0),
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "quota.window.num",
        Kind.INT,
        11,
        "How many windows the traffic of clients is measured over.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "quota.window.size.seconds",
        Kind.INT,
        1,
        "How long one such window is.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "controller.quota.window.num",
        Kind.INT,
        11,
        "How many windows the creation of topics and partitions is measured over.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "controller.quota.window.size.seconds",
        Kind.INT,
        1,
        "How long one such window is.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "replication.quota.window.num",
        Kind.INT,
        11,
        "How many windows throttled replication is measured over.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "replication.quota.window.size.seconds",
        Kind.INT,
        1,
        "How long one such window is.",
        allowed=at_least(1),
        importance=Importance.LOW,
    ),
    Setting(
        "leader.replication.throttled.rate",
        Kind.LONG,
        LONG_MAX,
        "How many bytes per second the throttled replicas of this broker send as leaders.",
        allowed=at_least(0),
        update=Update.CLUSTER_WIDE,
    ),
    Setting(
        "follower.replication.throttled.rate",
        Kind.LONG,
        LONG_MAX,
        "How many bytes per second the throttled replicas of this broker fetch as followers.",
        allowed=at_least(0),
        update=Update.CLUSTER_WIDE,
    ),
)
