"""Which of the folders that a start finds are which partition's.

| found                                             | what becomes of it                                        |
|---------------------------------------------------|-----------------------------------------------------------|
| the folder of a partition that the store knows     | is opened                                                 |
| a folder that no topic of the store knows          | set aside as `-stray`, never deleted                      |
| two folders of one partition                       | the one that reaches further is opened, the other goes     |
| a copy for a partition that the store does not know | removed                                                   |

Two folders are what a crash at the end of a move between directories leaves: one is a beginning of the other, or the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.model.ids import Offset, TopicId, TopicPartition
from barnabas.storage.directory import Contents, LogDirectory, partition_of_future

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.model.cluster import Topic

log = logging.getLogger(__name__)

#: Every directory that could be opened, with what is in it.
Found = list[tuple[LogDirectory, Contents]]


def sort_out(node: Node, contents: Found) -> None:
    """Note where each partition is, and put out of the way what is none. Blocks."""
    for directory, found in contents:
        for partition in found.partitions:
            key = partition.topic_partition
            topic = _topic_of(node, key, partition.topic_id)
            if topic is None:
                log.warning(
                    "%s belongs to no topic: set aside as %s", key, directory.rename_stray(key)
                )
                continue
            before = node.placement.get(key)
            if before is not None:
                directory = _keep_one(node, topic, key, (before, directory))
            node.placement.put(key, directory)
    for _, found in contents:
        for path in found.future:
            if partition_of_future(path).topic not in node.topics.by_name:
                node.world.disk.remove_tree(path)


def _topic_of(node: Node, key: TopicPartition, topic_id: bytes | None) -> Topic | None:
    topic = node.topics.by_name.get(key.topic)
    if topic is None or key.partition >= len(topic.partitions):
        return None
    return topic if topic_id in (None, topic.id) else None


def _keep_one(
    node: Node, topic: Topic, key: TopicPartition, both: tuple[LogDirectory, LogDirectory]
) -> LogDirectory:
    ends = [_end_offset(node, topic, key, directory) for directory in both]
    kept, other = both if ends[0] > ends[1] else reversed(both)
    # DeleteRecords may have been asked of either.
    start_offset = max(directory.log_start_offsets.get(key, 0) for directory in both)
    node.world.disk.remove_tree(other.rename_for_delete(key))
    if start_offset:
        kept.log_start_offsets[key] = Offset(start_offset)
    log.warning(
        "%s was in two directories: kept %s up to offset %d, removed %s up to %d",
        key, kept.path, max(ends), other.path, min(ends),
    )  # fmt: skip
    return kept


def _end_offset(node: Node, topic: Topic, key: TopicPartition, directory: LogDirectory) -> int:
    config, now_ms = node.log_config(topic.overrides), node.world.clock.now_ms()
    opened = directory.open_log(key, TopicId(topic.id), config, now_ms)
    opened.close(clean=False)
    return opened.log_end_offset
