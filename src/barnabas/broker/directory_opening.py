"""Taking the log directories at a start: which of them can be used, and writing down which there are.

Job: hold each directory against what the store knows (`known_directories.py`), open it, and leave out one whose disk has failed or
is missing. Must not know the partitions in them, but for one thing: a directory that was left out of log.dirs may hold those that
are found nowhere.
"""

from __future__ import annotations

import logging
from errno import EIO
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.disk_failures import is_of_directory
from barnabas.broker.known_directories import ACCEPT_FILE, Ids, Look, ids_operation
from barnabas.model.ids import TopicPartition
from barnabas.storage.directory import LogDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.folders import Found
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.storage.directory import Contents

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """The directories that can be used, with what is in them; and what was found to decide it."""

    contents: Found
    look: Look


def are_all_new(node: Node) -> bool:
    """Tell whether no broker has had any of the directories. Blocks."""
    return not any(Look(node.world.disk, {}, node.config.log_dirs).found.values())


def take_all(node: Node, cluster_id: str) -> Ids:
    """Make them the new cluster's; return their ids. Blocks. One whose disk fails is left for `open_all` to tell."""
    ids: Ids = {}
    for directory in _directories(node):
        try:
            directory.take(cluster_id, node.broker_id)
        except OSError:
            continue
        ids[directory.path] = directory.directory_id
    return ids


def open_all(node: Node, ids: Ids, *, may_be_empty: bool = False) -> Opened:
    """Open those that can be used; OSError if there is none. Blocks.

    Those that are known `may_be_empty` where others have what was in them: a new machine takes a dead one's place.
    """
    node.directories = _directories(node)
    look = Look(node.world.disk, ids, [directory.path for directory in node.directories])
    if may_be_empty:
        look.accept_empty()
    contents: Found = []
    for directory in node.directories:
        try:
            look.check(directory.path)
            found = _open(node, directory)
        except OSError as problem:
            if not is_of_directory(problem) or len(node.directories) == 1:
                raise
            directory.failure = problem
            log.critical("log directory %s is offline: %s", directory.path, problem)
        else:
            contents.append((directory, found))
    if not contents:
        raise OSError(
            EIO, f"no log directory can be used; the last error: {node.directories[-1].failure}"
        )
    return Opened(contents, look)


def _directories(node: Node) -> list[LogDirectory]:
    disk, rng = node.world.disk, node.world.rng
    return [LogDirectory(disk, rng, path) for path in node.config.log_dirs]


def _open(node: Node, directory: LogDirectory) -> Contents:
    found = directory.open(node.cluster_id, node.broker_id)
    for problem in found.problems:
        log.warning("%s: %s", directory.path, problem)
    for folder in found.deleted:
        node.world.disk.remove_tree(folder)
    return found


def remember(node: Node, before: Ids, look: Look) -> Task[None]:
    """Write down which directories there are; one that is left out is forgotten once nothing is missed.

    A store that cannot be written does not keep a broker from serving: then the next start does it.
    """
    left_out = look.left_out() if _is_any_missing(node) else []
    node.placement.left_out = left_out
    _tell_left_out(left_out)
    ids = _ids_now(node, before) | {path: before[path] for path in left_out}
    if ids != before:
        try:
            operation = ids_operation(node.broker_id, ids, exists=bool(before))
            yield partial(node.world.coordination.commit, [operation])
        except OSError as problem:
            log.error("which log directories there are is not written down: %s", problem)
            return
    if look.accepted:
        yield partial(node.world.background.run, partial(_remove_accepted, node, look.accepted))


def _ids_now(node: Node, before: Ids) -> Ids:
    """Return the ids of those that can be used, and those that others had when they could be."""
    paths = [directory.path for directory in node.directories]
    known = {path: before[path] for path in before if path in paths}
    return known | {
        directory.path: directory.directory_id
        for directory in node.directories
        if directory.is_online
    }


def _is_any_missing(node: Node) -> bool:
    return any(
        node.placement.get(TopicPartition(topic.name, index)) is None
        for topic in node.topics.by_name.values()
        for index, partition in enumerate(topic.partitions)
        if node.broker_id in partition.replicas
    )


def _tell_left_out(paths: Sequence[str]) -> None:
    for path in paths:
        log.critical(
            "%s is not in log.dirs, but this broker has had a log directory there, and partitions are missing: add it to "
            "log.dirs and start again; if it is gone for good, make the file %s in any log directory and start again, and "
            "what was in it begins anew, empty",
            path, ACCEPT_FILE,
        )  # fmt: skip


def _remove_accepted(node: Node, paths: Sequence[str]) -> None:
    for path in paths:
        try:
            node.world.disk.remove(f"{path}/{ACCEPT_FILE}")
        except OSError as problem:
            log.error("%s/%s counts again at the next start: %s", path, ACCEPT_FILE, problem)
