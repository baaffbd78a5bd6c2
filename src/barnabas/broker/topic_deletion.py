"""Taking topics away.

The commit to the coordination store is the moment at which a topic is gone. What follows only tidies up: a crash after it
leaves folders that belong to no topic, and the next start sets them aside. Folders are renamed before the answer, in
the order of `Node.directory_jobs`, so that a topic of the same name can be created at once. Before that, what works on the logs' files in
the background comes to its end: it knows them by their paths, and must not meet the new topic's (`log_claims.py`).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import checkpointing, store, znodes
from barnabas.broker.file_removal import remove_folders_later
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicId
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic

log = logging.getLogger(__name__)


def delete(node: Node, topic: Topic, deadline_ms: int) -> Task[None]:
    """Delete a topic; KafkaError if somebody was faster."""
    if not node.is_lone:
        yield from node.members.topics.delete(topic, deadline_ms)
        return
    yield node.changes.take
    try:
        yield from _delete(node, topic)
    finally:
        node.changes.give()


def _delete(node: Node, topic: Topic) -> Task[None]:
    operations = znodes.delete_topic_operations(topic)
    if node.topics.by_id.get(topic.id) is not topic:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        yield from store.commit(node, operations)
    except CoordinationError:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
    node.topics.drop(topic)
    replicas = node.replicas.drop_topic(topic.name)
    node.coordinators.on_topic_deleted(topic)
    node.transactions.on_topic_deleted(topic)
    log.info("deleted topic %s with %d partitions", topic.name, len(topic.partitions))
    if replicas:
        yield from set_aside(node, replicas)


def set_aside(node: Node, replicas: list[Replica], *, are_strays: bool = False) -> Task[None]:
    """Put the folders of replicas that are hosted no longer out of the way, and remove them after a while; strays are kept."""
    job = _plan_set_aside(node, replicas, are_strays=are_strays)
    try:
        after = node.claims.until_idle(replicas)
        paths = yield partial(node.directory_jobs.run, job, after=after)
    except OSError as problem:
        # The topic is gone all the same; the next start finds the folders.
        log.error("cannot set aside all folders of %s: %s", replicas[0].key.topic, problem)
        return
    if not are_strays:
        remove_folders_later(node.world, paths, replicas[0].config.file_delete_delay_ms)


def _plan_set_aside(
    node: Node, replicas: list[Replica], *, are_strays: bool
) -> Callable[[], list[str]]:
    directories = {replica.directory.path: replica.directory for replica in replicas}.values()
    # A topic of the same name must not inherit where this one's logs started.
    checkpoints = [checkpointing.plan_write(node, directory) for directory in directories]

    def job() -> list[str]:
        found = [_set_one_aside(node, each, is_stray=are_strays) for each in replicas]
        for write in checkpoints:
            write()
        return [path for path in found if path is not None]

    return job


def _set_one_aside(node: Node, replica: Replica, *, is_stray: bool) -> str | None:
    replica.log.close(clean=False)
    directory, topic_id = replica.directory, TopicId(replica.topic.id)
    path = directory.set_own_aside(replica.key, topic_id, is_stray=is_stray)
    if path is not None:
        replica.log.moved_to(path)
        node.placement.drop(replica.key)
    return path
