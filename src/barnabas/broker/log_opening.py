"""Opening the log of a partition where it is, or making it where there is room.

Job: find the directory, open or make the log, say what an error means. Must not know topics' rules or the store. Everything that
blocks runs in the background, on `Node.directory_jobs` once the node is up.

Invariants: no second folder of a partition that may be in a directory which is not here; what was made for new partitions is removed
again if not all of them can be made, and a folder that was there before never is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.broker.disk_failures import DirectoryFailed, is_of_directory, is_without_room
from barnabas.broker.placement import DirectoryOffline
from barnabas.broker.replicas import Replica
from barnabas.core.partition import PartitionState
from barnabas.model.ids import TopicId, TopicPartition
from barnabas.storage.directory import WrongTopic

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.cluster import Topic
    from barnabas.model.config.log_config import LogConfig
    from barnabas.storage.directory import LogDirectory
    from barnabas.storage.log import Log

log = logging.getLogger(__name__)


def open_replicas(
    node: Node, topic: Topic, indexes: range, *, are_new: bool
) -> Task[list[Replica]]:
    """Open or make the logs of these partitions in the background; new ones all, or none."""

    def job() -> list[Replica]:
        opened: list[Replica] = []
        try:
            for index in indexes:
                replica = open_replica(node, topic, index, is_new=are_new)
                opened.append(replica)  # one by one: those that are to be undone must be known
        except OSError:
            if are_new:
                for replica in opened:
                    replica.log.close(clean=False)
                    _unmake(node, replica.directory, replica.key)
            raise
        return opened

    opened: list[Replica] = yield lambda done: node.directory_jobs.run(job, done)
    return opened


def give_up(node: Node, problem: OSError) -> None:
    """Take the directory offline, if that is what the error of `open_replica` says."""
    if isinstance(problem, DirectoryFailed):
        node.replicas.take_offline(problem.directory, problem)


def open_replica(node: Node, topic: Topic, index: int, *, is_new: bool) -> Replica:
    """Open one log where it is, or make it where it is to be. Blocks: background only."""
    directory = _find(node, TopicPartition(topic.name, index), is_new=is_new)
    if directory is None:
        return _make(node, topic, index)
    return _open_in(node, directory, topic, index)


def place(node: Node, key: TopicPartition) -> LogDirectory:
    """Return where a partition is or from now on will be; DirectoryOffline if that cannot be used or told."""
    directory = _find(node, key, is_new=False)
    if directory is None:
        directory = node.placement.candidates(key, node.directories)[0]
        node.placement.put(key, directory)
    return directory


def _find(node: Node, key: TopicPartition, *, is_new: bool) -> LogDirectory | None:
    """Return where a partition is; None if its log is to be made. DirectoryOffline if that cannot be used or told.

    One that is not new and nowhere to be found may be in a directory that is offline or left out: a second one must not be made.
    """
    directory = node.placement.get(key)
    if directory is not None and not directory.is_online:
        if not is_new:
            raise DirectoryOffline(f"log directory {directory.path} of {key} is offline")
        directory = None  # what is left there belongs to a topic of the same name that is gone
    if directory is None and not is_new:
        are_all_here = all(known.is_online for known in node.directories)
        if node.placement.left_out or not are_all_here:
            raise DirectoryOffline(f"{key} may be in a log directory that is not here")
    return directory


def _make(node: Node, topic: Topic, index: int) -> Replica:
    """Make a log in the first directory that has room."""
    key = TopicPartition(topic.name, index)
    *others, last = node.placement.candidates(key, node.directories)
    for directory in others:
        try:
            return _make_in(node, directory, topic, index)
        except OSError as problem:
            if not is_without_room(problem):
                raise
            log.warning("%s goes to another log directory: %s", key, problem)
    return _make_in(node, last, topic, index)


def _make_in(node: Node, directory: LogDirectory, topic: Topic, index: int) -> Replica:
    key = TopicPartition(topic.name, index)
    was_there = directory.has_folder(key)
    node.placement.put(key, directory)
    try:
        return _open_in(node, directory, topic, index)
    except OSError:
        if was_there:
            node.placement.drop(key)
        else:
            _unmake(node, directory, key)
        raise


def _unmake(node: Node, directory: LogDirectory, key: TopicPartition) -> None:
    """Remove a folder that was made a moment ago, and nobody has seen."""
    node.placement.drop(key)
    try:
        directory.remove_folder(key)
    except OSError as problem:
        log.error("the folder of %s stays in %s: %s", key, directory.path, problem)


def _open_in(node: Node, directory: LogDirectory, topic: Topic, index: int) -> Replica:
    try:
        return _open(node, directory, topic, index)
    except OSError as problem:
        if is_of_directory(problem):
            raise DirectoryFailed(directory, problem) from problem
        raise


def _open(node: Node, directory: LogDirectory, topic: Topic, index: int) -> Replica:
    key = TopicPartition(topic.name, index)
    config = node.log_config(topic.overrides)
    opened = _open_log(node, directory, key, topic, config)
    partition = topic.partitions[index]
    if not node.is_lone:
        known = min(directory.high_watermarks.get(key, 0), opened.log_end_offset)
        high_watermark = max(known, opened.log_start_offset)
        state = PartitionState.undecided(node.broker_id, high_watermark)
        return Replica(topic, index, opened, state, directory)
    if opened.epochs.latest != partition.leader_epoch:
        opened.assign_epoch(partition.leader_epoch)  # here, so that no append has to write a file
    # Everything in the only replica's log is committed.
    state = PartitionState(
        node.broker_id, partition.replicas, partition.leader_epoch, opened.log_end_offset
    )
    return Replica(topic, index, opened, state, directory)


def _open_log(
    node: Node, directory: LogDirectory, key: TopicPartition, topic: Topic, config: LogConfig
) -> Log:
    try:
        return directory.open_log(key, TopicId(topic.id), config, node.world.clock.now_ms())
    except WrongTopic as left:
        # A creation or deletion that failed half-way left it: nobody serves it, and it must not be in the way.
        log.warning("%s; set aside as %s", left, directory.rename_stray(key))
        return directory.open_log(key, TopicId(topic.id), config, node.world.clock.now_ms())
