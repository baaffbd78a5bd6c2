"""Topics as a cluster shows them: partitions, replicas, offsets, as plain values.

One job: metadata and ListOffsets through the admin client. Must not print. Asking here never
creates a topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.cli.connection import admin_api
from barnabas.cli.failure import Failure, failure, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection

# What Apache Kafka itself counts as internal.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition; `leader` is None while it has none."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def under_replicated(self) -> bool:
        """Is a replica missing from the in-sync set?"""
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic with its partitions in order."""

    name: str
    partitions: tuple[PartitionView, ...]
    topic_id: str | None = None

    @property
    def internal(self) -> bool:
        """Does it belong to the broker itself?"""
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, as Kafka's own tools say it."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    @property
    def health(self) -> str:
        """`ok`, or how many partitions are not."""
        leaderless = sum(partition.leader is None for partition in self.partitions)
        under = sum(partition.under_replicated for partition in self.partitions)
        words = [f"{leaderless} without leader"] if leaderless else []
        words += [f"{under} under-replicated"] if under else []
        return ", ".join(words) or "ok"

    def as_dict(self) -> dict[str, Any]:
        """The stable keys of `topic list -o json`."""
        return {
            "topic": self.name,
            "partitions": len(self.partitions),
            "replication_factor": self.replication_factor,
            "internal": self.internal,
            "under_replicated": sum(p.under_replicated for p in self.partitions),
            "leaderless": sum(p.leader is None for p in self.partitions),
        }


def list_topics(connection: Connection) -> list[TopicView]:
    """Every topic, sorted by name."""
    from confluent_kafka import KafkaException

    try:
        answer = connection.admin().list_topics(timeout=connection.timeout_s)
    except KafkaException as error:
        connection.check_alive(error.args[0])
        raise failure("topics", error.args[0]) from None
    views = []
    for name, topic in sorted(answer.topics.items()):
        partitions = tuple(
            PartitionView(
                p.id, p.leader if p.leader >= 0 else None, tuple(p.replicas), tuple(p.isrs)
            )
            for _, p in sorted(topic.partitions.items())
        )
        views.append(TopicView(name, partitions))
    return views


def describe_topics(
    connection: Connection, names: Sequence[str]
) -> tuple[dict[str, TopicView], dict[str, KafkaError]]:
    """The topics there are, and the errors of the others. Order of `names`."""
    from confluent_kafka import TopicCollection

    answers = connection.admin().describe_topics(
        TopicCollection(list(names)), request_timeout=connection.timeout_s
    )
    found: dict[str, TopicView] = {}
    errors: dict[str, KafkaError] = {}
    for name, future in answers.items():
        answer, error = connection.outcome(future)
        if answer is None:
            assert error is not None
            errors[name] = error
        else:
            found[name] = TopicView(name, _partitions(answer), _kafka_id(answer.topic_id))
    return found, errors


def _partitions(answer: Any) -> tuple[PartitionView, ...]:  # noqa: ANN401 - TopicDescription
    views = [
        PartitionView(
            p.id,
            p.leader.id if p.leader is not None and p.leader.id >= 0 else None,
            tuple(node.id for node in p.replicas),
            tuple(node.id for node in p.isr),
        )
        for p in answer.partitions
    ]
    return tuple(sorted(views, key=lambda view: view.partition))


def _kafka_id(topic_id: object) -> str | None:
    """Kafka writes topic ids in the URL-safe alphabet; librdkafka prints the other one."""
    if topic_id is None:
        return None
    text = str(topic_id).replace("+", "-").replace("/", "_")
    return None if set(text) == {"A"} else text


def topic_or_fail(connection: Connection, name: str) -> TopicView:
    """One topic, or a Failure that names the nearest there is."""
    found, errors = describe_topics(connection, [name])
    if name in errors:
        raise missing_topic(connection, name, errors[name])
    return found[name]


def missing_topic(connection: Connection, name: str, error: KafkaError) -> Failure:
    """The Failure for a topic that cannot be described."""
    if error.name() not in {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"}:
        return failure(f"topic {name}", error)
    close = nearest(name, (topic.name for topic in list_topics(connection)))
    return Failure(
        f"topic {name} does not exist",
        close or f"create it with `barnabas topic create {name}`",
    )


def read_offsets(
    connection: Connection,
    topic: str,
    specs: Mapping[int, Any],
    *,
    read_committed: bool = False,
) -> dict[int, int | KafkaError]:
    """Per partition the offset the broker names for its OffsetSpec (-1: none), or the error."""
    from confluent_kafka import IsolationLevel, TopicPartition

    if not specs:
        return {}
    level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    answers = connection.admin().list_offsets(
        {TopicPartition(topic, partition): spec for partition, spec in specs.items()},
        isolation_level=level,
        request_timeout=connection.timeout_s,
    )
    offsets: dict[int, int | KafkaError] = {}
    for place, future in answers.items():
        answer, error = connection.outcome(future)
        if answer is None:
            assert error is not None
            offsets[place.partition] = error
        else:
            offsets[place.partition] = answer.offset
    return offsets


def read_bounds(
    connection: Connection, topic: str, partitions: Iterable[int], *, read_committed: bool = False
) -> tuple[dict[int, int | KafkaError], dict[int, int | KafkaError]]:
    """Log start and end offsets of the partitions; the end is the next offset to be read."""
    specs = admin_api().OffsetSpec
    wanted = list(partitions)
    start = read_offsets(connection, topic, dict.fromkeys(wanted, specs.earliest()))
    latest = dict.fromkeys(wanted, specs.latest())
    return start, read_offsets(connection, topic, latest, read_committed=read_committed)
