"""Creating topics and adding partitions: check, decide, write down, then have the logs made (`log_opening.py`).

The commit to the coordination store is the moment at which a topic exists. A crash before it leaves
nothing; a crash after it leaves a topic whose missing logs the next start creates.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker import log_opening, store, znodes
from barnabas.model.cluster import Partition, Topic
from barnabas.model.config.alter import replace_topic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import folded, topic_name_problem
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)

#: Partitions that one request may create, as in Kafka.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
#: How long to wait for the leaders of new partitions where nobody says.
CREATION_MS: Final = 30_000


def plan_topic(
    node: Node,
    name: str,
    assignment: Sequence[tuple[int, ...]],
    configs: Sequence[tuple[str, str | None]] = (),
) -> Topic:
    """Make the topic as it will be, or raise KafkaError with the reason why not."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in node.topics.by_name or node.creating.get(folded(name)) == name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = node.topics.collides_with(name) or node.creating.get(folded(name))
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )
    overrides = replace_topic(node.config, configs)
    partitions = [Partition(replicas, replicas[0], 0, replicas) for replicas in assignment]
    return Topic(name, new_id(node), partitions, overrides)


def new_id(node: Node) -> bytes:
    """Make a random id of the kind Kafka uses: UUID version 4, never one whose text starts with a dash."""
    while True:
        raw = bytearray(node.world.rng.random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != 0x3E and any(raw):  # 62 is "-" in url-safe base64
            return bytes(raw)


def decide_assignment(
    node: Node, partition_count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """Spread new partitions over the brokers; -1 takes the broker's default."""
    if partition_count == -1:
        partition_count = node.config.get_int("num.partitions")
    if partition_count < 1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must be larger than 0, not {partition_count}.",
        )
    _check_count(partition_count)
    if replication_factor == -1:
        replication_factor = node.config.get_int("default.replication.factor")
    if replication_factor < 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if not node.is_lone:
        return node.members.topics.decide_assignment(partition_count, replication_factor)
    if replication_factor > 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): only 1 broker is there.",
        )
    return [(node.broker_id,)] * partition_count


def _check_count(partition_count: int) -> None:
    if partition_count > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{partition_count} partitions in one request; at most {PARTITIONS_PER_REQUEST_MAX} are taken.",
        )


def decide_added(node: Node, topic: Topic, additional: int) -> list[tuple[int, ...]]:
    """Place partitions that a topic gets, with as many replicas as it has."""
    if node.is_lone:
        return decide_assignment(node, additional, len(topic.partitions[0].replicas))
    _check_count(additional)
    return node.members.topics.decide_added(topic, len(topic.partitions) + additional)


def check_assignment(
    node: Node, assignments: Mapping[int, Sequence[int]], first: int = 0
) -> list[tuple[int, ...]]:
    """Check an assignment that a client made: partitions from `first` on without a gap, known brokers."""
    _check_count(len(assignments))
    if sorted(assignments) != list(range(first, first + len(assignments))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partitions should be a consecutive 0-based integer sequence from {first}, not {sorted(assignments)}.",
        )
    known = node.cluster.live_ids()
    for index in sorted(assignments):
        brokers = assignments[index]
        if not brokers or len(set(brokers)) != len(brokers):
            problem = f"Partition {index} needs a list of different brokers, not {list(brokers)}."
        elif not set(brokers) <= set(known):
            problem = f"Partition {index} names a broker that is not there: {list(brokers)}; known: {known}."
        else:
            continue
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return [tuple(assignments[index]) for index in sorted(assignments)]


def reserve(node: Node, topic: Topic) -> None:
    """Keep the name from being planned again; `create` must follow, and gives it free."""
    node.creating[folded(topic.name)] = topic.name


def create_automatically(
    node: Node,
    name: str,
    partition_count: int,
    replication_factor: int,
    configs: Sequence[tuple[str, str]] = (),
) -> Task[None]:
    """Create a topic that nobody asked for by name: here, or by asking the controller. KafkaError if it cannot be made."""
    if not node.is_lone and node.members.controller.office is None:
        yield from node.members.topics.ask_to_create(
            name, partition_count, replication_factor, configs
        )
        return
    assignment = decide_assignment(node, partition_count, replication_factor)
    deadline_ms = node.world.clock.monotonic_ms() + CREATION_MS
    yield from create(node, plan_topic(node, name, assignment, configs), deadline_ms)


def create(node: Node, topic: Topic, deadline_ms: int) -> Task[None]:
    """Write the topic down and host it; KafkaError if somebody was faster or the disk refuses."""
    reserve(node, topic)
    try:
        if not node.is_lone:
            yield from node.members.topics.create(topic, deadline_ms)
            return
        yield from store.commit(node, znodes.create_topic_operations(topic))
        yield from _host_or_undo(node, topic)
    except CoordinationError:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists."
        ) from None
    finally:
        node.creating.pop(folded(topic.name), None)
    log.info("created topic %s with %d partitions", topic.name, len(topic.partitions))


def _host_or_undo(node: Node, topic: Topic) -> Task[None]:
    try:
        every = range(len(topic.partitions))
        replicas = yield from log_opening.open_replicas(node, topic, every, are_new=True)
    except OSError as problem:
        log.error("cannot create the logs of %s, undoing: %s", topic.name, problem)
        log_opening.give_up(node, problem)
        operations = znodes.delete_topic_operations(topic)
        try:
            yield lambda done: node.world.coordination.commit(operations, done)
        except OSError:
            node.topics.put(topic)  # the store has it, so it is there; its logs are tried again
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create the logs: {problem}"
        ) from None
    node.topics.put(topic)
    for replica in replicas:
        node.replicas.add(replica)
    node.coordinators.on_topics_changed(topic.name)


def add_partitions(node: Node, topic: Topic, assignment: Sequence[tuple[int, ...]]) -> Task[None]:
    """Give a topic more partitions. They exist once the store has them: a log that cannot be made now is tried again."""
    if not node.is_lone:
        yield from node.members.topics.add_partitions(topic, assignment)
        return
    old_count = len(topic.partitions)
    new = [Partition(replicas, replicas[0], 0, replicas) for replicas in assignment]
    grown = Topic(topic.name, topic.id, topic.partitions + new, topic.overrides)
    operations = znodes.add_partitions_operations(grown, old_count)
    yield from store.commit(node, operations)
    try:
        new_range = range(old_count, len(grown.partitions))
        replicas = yield from log_opening.open_replicas(node, grown, new_range, are_new=True)
    except OSError as problem:
        log.error("cannot create the new logs of %s now: %s", topic.name, problem)
        log_opening.give_up(node, problem)
        replicas = []
    topic.partitions = grown.partitions
    for replica in replicas:
        replica.topic = topic
        node.replicas.add(replica)
    node.coordinators.on_topics_changed(topic.name)
