"""Partitions whose log could not be opened or made, because the disk was full or a file was gone.

Until they can be opened nothing may be said about them that only the log itself knows: their directory is not marked clean, and
their checkpointed offsets stay as they were found. They are tried again by the clock, so a disk that was merely full
needs no restart.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.broker import log_opening
from barnabas.broker.placement import DirectoryOffline
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)


def find(node: Node) -> list[tuple[Topic, int]]:
    """Return every partition that exists and is not hosted."""
    return [
        (topic, index)
        for topic in node.topics.by_name.values()
        for index, partition in enumerate(topic.partitions)
        if node.broker_id in partition.replicas and node.replicas.get(topic.name, index) is None
    ]


def keys_in(node: Node, directory: LogDirectory) -> list[TopicPartition]:
    """Return those whose folder is in this directory, or is to be made there."""
    keys = (TopicPartition(topic.name, index) for topic, index in find(node))
    return [key for key in keys if node.placement.get(key) is directory]


def open_again(node: Node) -> Task[list[Replica]]:
    """Try to open and host them, one after the other. In a cluster the controller is asked to repeat its orders, which does that.

    Return those whose topic was deleted while they were being opened: they are not hosted, and their folders are to be set aside.
    """
    unwanted: list[Replica] = []
    if not node.is_lone:
        is_due = find(node) or node.members.orders.has_untaken()
        if is_due and all(directory.is_online for directory in node.directories):
            node.members.ask_for_orders()
        return unwanted
    for topic, index in find(node):
        if not _is_missing(node, topic, index):
            continue  # deleted since, perhaps made again: then its folder is not this topic's
        try:
            (replica,) = yield from log_opening.open_replicas(
                node, topic, range(index, index + 1), are_new=False
            )
        except DirectoryOffline:
            continue  # until the next start: that was told
        except OSError as problem:
            log.warning("%s-%d: still cannot open its log: %s", topic.name, index, problem)
            log_opening.give_up(node, problem)
            continue
        if _is_missing(node, topic, index) and not node.stopping:
            node.replicas.add(replica)
            node.coordinators.on_opened(replica)
            node.transactions.on_opened(replica)
            log.info("%s: online again", replica.key)
        elif node.topics.by_id.get(topic.id) is not topic:
            unwanted.append(replica)
    return unwanted


def _is_missing(node: Node, topic: Topic, index: int) -> bool:
    known = node.topics.by_id.get(topic.id) is topic
    return known and node.replicas.get(topic.name, index) is None
