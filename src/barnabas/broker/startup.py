"""Bringing a node up: read the store, take the directories, open the logs.

The coordination store says which topics exist. A folder that it does not know is set aside as `-stray`,
never deleted, with one exception: a store without a cluster id is new, and what lies in the directories
then was written by Apache Kafka (or its store was lost), so its topics are adopted under their names and ids.
A directory whose disk is missing is not taken for a new one: see `known_directories.py`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import (
    acl_znodes,
    checkpointing,
    directory_opening,
    folders,
    known_directories,
    log_loading,
    quota_store,
    topic_creation,
    znodes,
)
from barnabas.model.cluster import Partition
from barnabas.model.ids import TopicId, TopicPartition, topic_id_text
from barnabas.ports import CoordinationError
from barnabas.storage.directory import partition_of_future
from barnabas.storage.meta_properties import check_owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.adoption import Adoption
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic
    from barnabas.ports import Operation, ZNode

log = logging.getLogger(__name__)

#: One after the other: a topic is made together with its settings, so whoever sees it finds them when it reads on.
_ROOTS: Final = (
    znodes.CLUSTER_ID, znodes.TOPICS, znodes.CONFIG, known_directories.ZNODE, *acl_znodes.ROOTS,
)  # fmt: skip


def start(node: Node) -> Task[None]:
    """Run once, before any request. Errors end the start, but a directory whose disk has failed is left out."""
    world = node.world
    if not node.is_lone and (
        yield partial(world.background.run, partial(directory_opening.are_all_new, node))
    ):
        # Nothing is made here for an id that another has; of one that died, the others lead everything by then.
        yield from node.members.until_id_free()
    tree = yield from _read_store(node)
    if znodes.read_cluster_id(tree) is None:
        yield from _found_cluster(node) if node.is_lone else _name_cluster(node)
        tree = yield from _read_store(node)
    cluster_id = znodes.read_cluster_id(tree)
    assert cluster_id is not None
    node.cluster_id = cluster_id
    node.load_dynamic_configs(znodes.read_broker_configs(tree))
    node.coordinators.group_settings.load(znodes.read_group_configs(tree))
    node.quotas.load(quota_store.read_tree(tree))
    node.users.load(tree)
    if node.acl_store is not None:
        node.acl_store.load(tree)
    topics = znodes.read_topics(tree)
    ids = known_directories.read_ids(tree, node.broker_id)
    may_be_empty = not node.is_lone and not _is_relied_on(node, topics)
    opening = partial(directory_opening.open_all, node, ids, may_be_empty=may_be_empty)
    opened = yield partial(world.background.run, opening)
    for topic in topics:
        node.topics.put(topic)
    yield partial(world.background.run, partial(folders.sort_out, node, opened.contents))
    yield from directory_opening.remember(node, ids, opened.look)
    if node.is_lone:
        yield from _raise_epochs(node)
    replicas = yield from log_loading.load_all(node)
    for replica in replicas:
        node.replicas.add(replica)
    yield from _move_on(node, opened.contents)
    if not replicas:
        return
    # What the files say of folders that went in the meantime must not meet new ones of the same name.
    unclean = [directory for directory in node.directories if not directory.was_clean]
    yield from checkpointing.write_all(node, unclean)


def _read_store(node: Node) -> Task[dict[str, ZNode]]:
    """Read what a start needs, and no more: notices, wishes and what other programs keep in the same place may be much."""
    tree: dict[str, ZNode] = {}
    for root in _ROOTS:
        tree |= yield partial(node.world.coordination.read_tree, root)
    return tree


def _found_cluster(node: Node) -> Task[None]:
    """Give a new store its cluster id, the directories, and what lies in them: all in one commit, or nothing.

    The id is the one that stands in the directories, or a random one.
    """
    # Imported here: every start but the first does without.
    from barnabas.broker.adoption import plan_adoption

    world, paths = node.world, node.config.log_dirs

    def look() -> tuple[str, Adoption, known_directories.Ids]:
        there = known_directories.Look(world.disk, {}, paths)
        there.check_first(paths[0])
        found = {path: meta for path, meta in there.found.items() if meta is not None}
        known = [meta.cluster_id for meta in found.values() if meta.cluster_id]
        cluster_id = known[0] if known else topic_id_text(TopicId(topic_creation.new_id(node)))
        for path, meta in found.items():
            check_owner(meta, path, cluster_id, node.broker_id)
        new_id = partial(topic_creation.new_id, node)
        adoption = plan_adoption(world.disk, paths, node.config, new_id)
        return cluster_id, adoption, directory_opening.take_all(node, cluster_id)

    cluster_id, adoption, ids = yield partial(world.background.run, look)
    for note in adoption.notes:
        log.warning("%s", note)
    operations = [
        znodes.cluster_id_operation(cluster_id),
        known_directories.ids_operation(node.broker_id, ids, exists=False),
        *adoption.operations(node.broker_id),
    ]
    yield partial(world.coordination.commit, operations)
    for topic in adoption.topics:
        log.info("adopted topic %s with %d partitions", topic.name, len(topic.partitions))


def _name_cluster(node: Node) -> Task[None]:
    """Give a new cluster its id; another broker may be faster, and then its id counts."""
    cluster_id = topic_id_text(TopicId(topic_creation.new_id(node)))
    try:
        yield partial(node.world.coordination.commit, [znodes.cluster_id_operation(cluster_id)])
    except CoordinationError as refusal:
        if refusal.kind != "NODE_EXISTS":
            raise


def _is_relied_on(node: Node, topics: Iterable[Topic]) -> bool:
    """Tell whether this broker might be elected for what it has: with an empty log it would take records from the others."""
    return any(
        node.broker_id in partition.in_sync for topic in topics for partition in topic.partitions
    )


def _raise_epochs(node: Node) -> Task[None]:
    """Start a new leader epoch on what was not closed cleanly: readers then learn of a lost tail (KIP-320).

    A store that cannot be written (the disk is full) does not keep a broker from serving what it has: the epochs then
    stay as they were, because one that is not written down might be given out twice.
    """
    operations: list[Operation] = []
    before = [(topic, list(topic.partitions)) for topic in node.topics.by_name.values()]
    for topic, partitions in before:
        for index, partition in enumerate(partitions):
            directory = node.placement.get(TopicPartition(topic.name, index))
            if directory is None or directory.was_clean:
                continue
            topic.partitions[index] = Partition(
                partition.replicas, partition.leader, partition.leader_epoch + 1, partition.in_sync
            )
            operations += znodes.leader_epoch_operations(topic, index)
    if not operations:
        return
    try:
        yield lambda done: node.world.coordination.commit(operations, done)
    except OSError as problem:
        log.error("no new leader epochs after an unclean stop: %s", problem)
        for topic, partitions in before:
            topic.partitions = partitions


def _move_on(node: Node, contents: folders.Found) -> Task[None]:
    """Begin moves between directories again that the last stop came before: what was copied is not trusted."""
    for directory, found in contents:
        for path in found.future:
            replica = node.replicas.get(*partition_of_future(path))
            if replica is None or not directory.is_online:
                continue  # its own directory may be offline: then this is the only copy
            yield partial(node.world.background.run, partial(node.world.disk.remove_tree, path))
            node.moves.request(replica, directory)
