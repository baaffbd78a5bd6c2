"""The text files in which Kafka keeps one offset per partition of a log directory.

Job: text <-> offsets, for all four files, and the frame of lines that the leader-epoch file shares.
Must not know: what an offset is used for. Reading is as tolerant as Kafka's: an empty file has no entries,
any white space parts the words, the last of two entries for one partition counts; all else is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.model.ids import Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"

VERSION: Final = 0


class CorruptCheckpoint(ValueError):
    """Bytes that are no checkpoint file."""


def encode(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Write the offsets in their order."""
    return encode_lines([f"{key.topic} {key.partition} {value}" for key, value in offsets.items()])


def decode(data: bytes) -> dict[TopicPartition, Offset]:
    """Read the offsets; CorruptCheckpoint says which line is wrong."""
    offsets: dict[TopicPartition, Offset] = {}
    for line, words in decode_lines(data, 3):
        key = TopicPartition(words[0], _number(words[1], line))
        offsets[key] = Offset(_number(words[2], line))
    return offsets


def encode_lines(lines: Sequence[str]) -> bytes:
    """Put version and count before the lines."""
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode()


def decode_lines(data: bytes, width: int) -> list[tuple[str, list[str]]]:
    """Return each line whole and in `width` words, after checking version and count."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise CorruptCheckpoint("the checkpoint file is no text") from None
    if lines and _number(lines[0], lines[0]) != VERSION:
        raise CorruptCheckpoint(f"checkpoint version {lines[0]} is not known, only {VERSION}")
    if len(lines) < 2:
        return []
    count, entries = _number(lines[1], lines[1]), lines[2:]
    if count != len(entries):
        raise CorruptCheckpoint(f"{count} entries are announced, {len(entries)} are there")
    split = [(line, line.split()) for line in entries]
    for line, words in split:
        if len(words) != width:
            raise CorruptCheckpoint(f"malformed line {line!r}: {width} words are expected")
    return split


def _number(word: str, line: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise CorruptCheckpoint(f"malformed line {line!r}: {word!r} is no number") from None
