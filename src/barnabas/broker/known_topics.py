"""Whether a topic that a loaded shard names is gone, or only not known here: a broker is told of topics one after another.

Job: find out what the store says, as it is now, of topics that this broker does not know by the ids that were written down; wait until it
was told of those that are there. Must not know what follows from it.

Invariant: a topic is gone only by a positive word: the store was asked, and has no topic of that name, or one of another id. A topic whose znode makes
no sense is not gone, and keeps no other from being judged. The store is read after it has caught up with every other broker's commits, and after the
shard was loaded. A lone broker's own topics are the store's.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker import cluster_znodes, store, znodes
from barnabas.model.ids import TopicId, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.core.group.shard import GroupShard
    from barnabas.ports import ZNode

log = logging.getLogger(__name__)

#: How long a shard waits to be told of topics that the store has: its clients come again meanwhile.
PATIENCE_MS: Final = 5_000


class Verdict(NamedTuple):
    """Which topics are gone, by name and id. It is not final if some are being deleted, or could not be judged."""

    gone: list[tuple[str, bytes]]
    is_final: bool


class _Stored(NamedTuple):
    """A topic that the store has; if its znode makes no sense, its id is empty."""

    name: str
    id_text: str
    partition_count: int


def find_gone(node: Node, ids: Mapping[str, Iterable[bytes]]) -> Task[Verdict]:
    """Tell which of these topics, ids by name, are gone. OSError if that cannot be found out now."""
    doubtful = [
        (name, topic_id) for name, some in ids.items() for topic_id in some
        if not _is_known(node, name, topic_id)
    ]  # fmt: skip
    if node.is_lone or not doubtful:
        return Verdict(doubtful, is_final=True)
    stored = yield from _read(node, dict.fromkeys(name for name, _id in doubtful))
    there = {(one.name, one.id_text) for one in stored}
    unreadable = {one.name for one in stored if not one.id_text}
    gone = [
        (name, topic_id) for name, topic_id in doubtful
        if name not in unreadable and (name, topic_id_text(TopicId(topic_id))) not in there
    ]  # fmt: skip
    doomed = yield from _doomed(node, stored)
    return Verdict(gone, is_final=not (doomed or unreadable))


def until_told(node: Node, shard: GroupShard) -> Task[None]:
    """Wait until this broker knows every topic in the store that the groups of a loaded shard read. Otherwise their members would lose
    the partitions of topics that it was not told of yet. Committed offsets need no topics.
    """
    names = shard.topics_read()
    if node.is_lone or not (names or shard.has_regexes):
        return
    try:
        if shard.has_regexes:
            read = partial(node.world.coordination.read_children, znodes.TOPICS)
            names.update(dict.fromkeys((yield read) or ()))
        stored = yield from _read(node, names)
        lacking = [one for one in stored if one.id_text and not _is_whole(node, one)]
        doomed = yield from _doomed(node, lacking)
    except OSError:
        return  # it must serve without; nothing is taken for gone
    awaited = [one for one in lacking if one.name not in doomed]
    if awaited:
        deadline_ms = node.world.clock.monotonic_ms() + PATIENCE_MS
        yield node.members.orders.told(
            lambda: all(_is_whole(node, one) for one in awaited), deadline_ms
        )


def _is_known(node: Node, name: str, topic_id: bytes) -> bool:
    known = node.topics.by_name.get(name)
    return known is not None and known.id == topic_id


def _is_whole(node: Node, stored: _Stored) -> bool:
    """Tell whether this broker has heard of every partition: of a large topic it is told in pieces."""
    known = node.topics.by_name.get(stored.name)
    return (
        known is not None
        and topic_id_text(TopicId(known.id)) == stored.id_text
        and len(known.partitions) >= stored.partition_count
        and all(partition.replicas for partition in known.partitions)
    )


def _read(node: Node, names: Iterable[str]) -> Task[list[_Stored]]:
    """Read which of these topics there are."""
    paths = {cluster_znodes.topic_path(name): name for name in names}
    found = yield from store.read_latest(node, list(paths))
    stored = []
    for path, name in paths.items():
        znode = found[path]
        if znode is not None:
            stored.append(_stored(name, znode))
    return stored


def _stored(name: str, znode: ZNode) -> _Stored:
    try:
        topic = cluster_znodes.read_topic(znode)
    except znodes.SENSELESS as problem:
        log.error("topic %s makes no sense in the store: %r", name, problem)
        return _Stored(name, "", 0)
    return _Stored(name, topic.id_text, len(topic.replicas))


def _doomed(node: Node, stored: Iterable[_Stored]) -> Task[Container[str]]:
    """Find the topics whose deletion was asked for: brokers are told of them no more."""
    paths = {cluster_znodes.wish_path(one.name): one.name for one in stored}
    found = yield from store.read_all(node, list(paths))
    return [name for path, name in paths.items() if found[path] is not None]
