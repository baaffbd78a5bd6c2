"""The text of `partition.metadata`: which topic a partition's folder belongs to, by id.

Job: text <-> topic id. A name may be given to a new topic after the old one was deleted; the id tells them apart.
"""

from __future__ import annotations

from typing import Final

from barnabas.model.ids import ZERO_TOPIC_ID, TopicId, topic_id_from_text, topic_id_text

FILE_NAME: Final = "partition.metadata"
VERSION: Final = 0


class CorruptPartitionMetadata(ValueError):
    """Bytes that are no partition.metadata."""


def encode(topic_id: TopicId) -> bytes:
    """Write the file. It has no line end after the last line: Kafka's has none."""
    return f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()


def decode(data: bytes) -> TopicId:
    """Read the topic id; CorruptPartitionMetadata says what is wrong."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise CorruptPartitionMetadata("partition.metadata is no text") from None
    values = [
        _value(line, name) for line, name in zip(lines, ("version", "topic_id"), strict=False)
    ]
    if len(values) != 2:
        raise CorruptPartitionMetadata("partition.metadata needs a version and a topic_id line")
    if values[0] != str(VERSION):
        raise CorruptPartitionMetadata(f"version {values[0]} of partition.metadata is not known")
    try:
        topic_id = topic_id_from_text(values[1])
    except ValueError as problem:
        raise CorruptPartitionMetadata(str(problem)) from None
    if topic_id == ZERO_TOPIC_ID:
        raise CorruptPartitionMetadata(f"{values[1]} is not the id of a topic")
    return topic_id


def _value(line: str, name: str) -> str:
    words = line.split()
    if len(words) != 2 or words[0] != f"{name}:":
        raise CorruptPartitionMetadata(f"malformed line {line!r}: '{name}: VALUE' is expected")
    return words[1]
