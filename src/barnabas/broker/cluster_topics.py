"""Changing the topics of a cluster: written to the store by the controller's broker, carried out by the controller.

The commit to the store is the moment at which a topic exists, grows, or is to go. What follows is the controller's work, which the
next one finishes if this one dies; who asked waits for it as long as the request says.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker import cluster_znodes, controller_events, store, znodes
from barnabas.core.controller.placement import place_partitions, start_of_added
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import CoordinationError
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.broker.controller import Office
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic
    from barnabas.model.ids import TopicPartition
    from barnabas.ports import Operation, ZNode

log = logging.getLogger(__name__)

CREATE_TOPICS_VERSION: Final = 7
_NOBODY: Final = -1


class ClusterTopics:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Change nothing yet."""
        self._node = node

    def find_office(self) -> Office:
        """Return the controller's office; KafkaError if it is not here."""
        node = self._node
        office = node.members.controller.office
        if office is None or not office.is_loaded:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"Broker {node.broker_id} is not the controller; {node.cluster.controller_id} is.",
            )
        return office

    def decide_assignment(
        self, partition_count: int, replication_factor: int
    ) -> list[tuple[int, ...]]:
        """Spread new partitions over the brokers that live."""
        node = self._node
        brokers = self.find_office().machine.view.brokers.values()
        # As in Kafka the first broker is drawn, so that small topics do not all begin with the same one.
        start = int.from_bytes(node.world.rng.random_bytes(4)) % max(1, len(brokers))
        shift = int.from_bytes(node.world.rng.random_bytes(4)) % max(1, len(brokers))
        placed = place_partitions(brokers, range(partition_count), replication_factor, start, shift)
        return [placed[index] for index in range(partition_count)]

    def decide_added(self, topic: Topic, count: int) -> list[tuple[int, ...]]:
        """Place partitions that a topic gets: they go on as if made with the first ones."""
        brokers = self.find_office().machine.view.brokers.values()
        first = topic.partitions[0].replicas
        if not first:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Where topic '{topic.name}' is is not known yet: try again.",
            )
        start = start_of_added(brokers, first[0])
        numbers = range(len(topic.partitions), count)
        placed = place_partitions(brokers, numbers, len(first), start, start)
        return [placed[index] for index in numbers]

    def ask_to_create(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        configs: Sequence[tuple[str, str]],
    ) -> Task[None]:
        """Have the controller make a topic; KafkaError if it does not."""
        node = self._node
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partition_count,
                    replication_factor=replication_factor,
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
                )
            ],
            timeout_ms=node.config.get_int("controller.socket.timeout.ms"),
        )
        response = yield from node.members.ask_controller(request, CREATE_TOPICS_VERSION)
        [answer] = response.topics
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message or "")

    def create(self, topic: Topic, deadline_ms: int) -> Task[None]:
        """Write a topic down and wait until it is led everywhere."""
        node = self._node
        office = self.find_office()
        operations = znodes.new_topic_operations(topic)
        try:
            yield from store.commit(node, [*operations, office.fence])
        except CoordinationError as refusal:
            raise _refused(
                refusal, ErrorCode.TOPIC_ALREADY_EXISTS, _why_taken(office, topic.name)
            ) from None
        log.info("created topic %s with %d partitions", topic.name, len(topic.partitions))
        yield from self.until_led(topic, len(topic.partitions), deadline_ms)

    def add_partitions(self, topic: Topic, assignment: Sequence[tuple[int, ...]]) -> Task[None]:
        """Give a topic more partitions."""
        node = self._node
        office = self.find_office()
        path = cluster_znodes.topic_path(topic.name)
        found = yield lambda done: node.world.coordination.read(path, done)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        stored = cluster_znodes.read_topic(found)
        if cluster_znodes.id_of_topic(found) != topic.id:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # made again since
        old_count = len(stored.replicas)
        if old_count != len(topic.partitions):
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "the topic has just got other partitions"
            )
        grown = stored._replace(
            replicas=stored.replicas | dict(enumerate(assignment, start=old_count))
        )
        data = cluster_znodes.topic_data(grown)
        try:
            yield from store.commit(
                node, [cluster_znodes.set_operation(path, data, found.version), office.fence]
            )
        except CoordinationError as refusal:
            raise _refused(
                refusal, ErrorCode.INVALID_PARTITIONS, "the topic has changed meanwhile"
            ) from None

    def until_led(self, topic: Topic, count: int, deadline_ms: int) -> Task[None]:
        """Wait until so many partitions of a topic that was just written are led everywhere."""
        node = self._node
        self.find_office().submit(controller_events.topics_changed([topic.name]))

        def is_led() -> bool:
            known = node.topics.by_name.get(topic.name)
            return (
                known is not None
                and known.id == topic.id
                and len(known.partitions) >= count
                and all(partition.leader != _NOBODY for partition in known.partitions)
            )

        if not (yield node.members.orders.told(is_led, deadline_ms)):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Topic '{topic.name}' is made; not all partitions are led yet.",
            )

    def delete(self, topic: Topic, deadline_ms: int) -> Task[None]:
        """Ask for a topic to be deleted, and wait until brokers are told of it no more. KafkaError if it is gone already."""
        node = self._node
        office = self.find_office()
        known = office.machine.view.topics.get(topic.name)
        if known is None or known.id != topic.id:
            # The wish names a topic only by its name: it would delete the new one.
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        wish: list[Operation] = [cluster_znodes.wish_deleted_operation(topic.name), office.fence]
        try:
            yield from store.commit(node, wish)
        except CoordinationError as refusal:
            if refusal.kind != "NODE_EXISTS":
                raise _refused(refusal, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "") from None
        office.submit(controller_events.look_at_deletions)

        def is_gone() -> bool:
            return topic.id not in node.topics.by_id

        if not (yield node.members.orders.told(is_gone, deadline_ms)):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Topic '{topic.name}' will be deleted; it is not gone yet.",
            )

    def find_gone(self, partitions: Iterable[TopicPartition]) -> Task[set[TopicPartition]]:
        """Ask the store which partitions do not exist any more or belong to a topic that is being deleted. If it does not answer: none."""
        asked = list(partitions)
        names = dict.fromkeys(name for name, _index in asked)
        paths = [path for name in names for path in _paths_of(name)]
        try:
            found = yield from store.read_latest(self._node, paths)
        except OSError:
            return set()
        gone: set[TopicPartition] = set()
        for one in asked:
            topic, wish = (found[path] for path in _paths_of(one.topic))
            if topic is None or wish is not None or not _has_partition(topic, one):
                gone.add(one)
        return gone


def _has_partition(topic: ZNode, partition: TopicPartition) -> bool:
    """Tell whether a topic has this partition, as far as what it says makes sense."""
    try:
        return partition.partition in cluster_znodes.read_topic(topic).replicas
    except znodes.SENSELESS as problem:
        log.error("topic %s makes no sense in the store: %r", partition.topic, problem)
        return True


def _paths_of(topic: str) -> tuple[str, str]:
    """Name where a topic stands, and the wish to delete it."""
    return cluster_znodes.topic_path(topic), cluster_znodes.wish_path(topic)


def _why_taken(office: Office, name: str) -> str:
    """Say why a name cannot be given: a topic that is being deleted is shown to nobody, but still there."""
    view = office.machine.view
    topic = view.topics.get(name)
    if topic is None or name not in view.deleting:
        return f"Topic '{name}' already exists."
    holders = {
        broker_id
        for partition in topic.partitions.values()
        for broker_id in partition.assignment.replicas
    }
    away = sorted(holders - view.brokers.keys())
    if not away:
        return f"Topic '{name}' is being deleted: try again."
    return f"Topic '{name}' is being deleted, and brokers that have replicas of it are away: start {away}, or use another name."


def _refused(refusal: CoordinationError, code: ErrorCode, message: str) -> KafkaError:
    if refusal.path == cluster_znodes.CONTROLLER_EPOCH:
        return KafkaError(ErrorCode.NOT_CONTROLLER, "Another broker has become controller.")
    return KafkaError(code, message)
