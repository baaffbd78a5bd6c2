"""Which of the folders that a start finds are which partition's.

| found                                             | what becomes of it                                        |
|---------------------------------------------------|-----------------------------------------------------------|
| the folder of a partition that the store knows     | is opened                                                 |
| a folder that no topic of the store knows          | set aside as `-stray`, never deleted                      |
| two folders of one partition                       | the one that reaches further is opened; the other goes if  |
|                                                   | it is a beginning of that one, else set aside as `-stray`  |
| a copy for a partition that the store does not know | removed                                                   |

A crash at the end of a move between directories leaves two folders of which one is a beginning of the other, or the same. Two that
differ were made by somebody: a start without one of the directories begins its partitions anew, and then the directory comes
back. Which of them is wanted, a person must say.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.model.ids import Offset, TopicId, TopicPartition
from barnabas.storage.directory import Contents, LogDirectory, partition_of_future
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.model.cluster import Topic
    from barnabas.storage.log import Log

log = logging.getLogger(__name__)

#: Every directory that could be opened, with what is in it.
Found = list[tuple[LogDirectory, Contents]]


def sort_out(node: Node, contents: Found) -> None:
    """Note where each partition is, and put out of the way what is none. Blocks."""
    for directory, found in contents:
        for partition in found.partitions:
            key = partition.topic_partition
            topic = _topic_of(node, directory, key, partition.topic_id)
            if topic is None:
                log.warning(
                    "%s belongs to no topic: set aside as %s", key, directory.rename_stray(key)
                )
                continue
            before, kept = node.placement.get(key), directory
            if before is not None:
                kept = _keep_one(node, topic, key, (before, directory))
            node.placement.put(key, kept)
    for _, found in contents:
        for path in found.future:
            if partition_of_future(path).topic not in node.topics.by_name:
                node.world.disk.remove_tree(path)


def _topic_of(
    node: Node, directory: LogDirectory, key: TopicPartition, topic_id: bytes | None
) -> Topic | None:
    topic = node.topics.by_name.get(key.topic)
    if topic is None or key.partition >= len(topic.partitions):
        return None
    if node.broker_id not in topic.partitions[key.partition].replicas:
        return None  # it was moved to other brokers
    if topic_id in (None, topic.id) or directory.was_of(key, TopicId(topic.id)):
        return topic
    return None


def _keep_one(
    node: Node, topic: Topic, key: TopicPartition, both: tuple[LogDirectory, LogDirectory]
) -> LogDirectory:
    logs = [_open(node, topic, key, directory) for directory in both]
    is_beginning = _is_beginning(*sorted(logs, key=lambda opened: opened.log_end_offset))
    for opened in logs:
        opened.close(clean=False)
    # A power loss may take any file of a copy, the first ones too; and one that lacks what the checkpoints speak of
    # reaches as far as they say, with nothing in it.
    ranks = [
        (not opened.recovery.lost, opened.log_end_offset, -opened.log_start_offset)
        for opened in logs
    ]
    kept, other = both if ranks[0] > ranks[1] else reversed(both)
    told = f"{key} was in two directories: kept {kept.path} up to offset {max(ranks)[1]}"
    if not is_beginning:
        log.critical(
            "%s; that in %s up to %d has other records, and is set aside as %s",
            told, other.path, min(ranks)[1], other.rename_stray(key),
        )  # fmt: skip
        return kept
    # DeleteRecords may have been asked of either.
    start_offset = max(directory.log_start_offsets.get(key, 0) for directory in both)
    node.world.disk.remove_tree(other.rename_for_delete(key))
    if start_offset:
        kept.log_start_offsets[key] = Offset(start_offset)
    log.warning("%s, removed %s up to %d", told, other.path, min(ranks)[1])
    return kept


def _open(node: Node, topic: Topic, key: TopicPartition, directory: LogDirectory) -> Log:
    config, now_ms = node.log_config(topic.overrides), node.world.clock.now_ms()
    return directory.open_log(key, TopicId(topic.id), config, now_ms)


def _is_beginning(shorter: Log, longer: Log) -> bool:
    """Tell whether all of one log is in the other, by its last batch; when in doubt it is not."""
    last_offset = shorter.log_end_offset - 1
    if last_offset < shorter.log_start_offset:
        return True  # it has no records
    try:
        checksums = [_checksum(opened, last_offset) for opened in (shorter, longer)]
    except BatchError:
        return False
    return None not in checksums and checksums[0] == checksums[1]


def _checksum(opened: Log, offset: int) -> int | None:
    """Return that of the batch with this offset, None if there is none."""
    for segment in reversed(opened.segments):
        if segment.base_offset <= offset:
            position = segment.find_batch(offset, segment.size)
            if position is not None:
                return next(segment.headers(position, segment.size))[1].crc
    return None
