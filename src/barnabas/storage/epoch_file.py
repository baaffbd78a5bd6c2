"""The text of `leader-epoch-checkpoint`: the leader epochs of one log and where each began.

Job: text <-> entries, in the frame of lines of the other checkpoints. Must not know: what the entries mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.epochs import EpochEntry
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_lines, encode_lines

if TYPE_CHECKING:
    from collections.abc import Iterable


def encode(entries: Iterable[EpochEntry]) -> bytes:
    """Write the entries in their order."""
    return encode_lines([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def decode(data: bytes) -> list[EpochEntry]:
    """Read the entries; CorruptCheckpoint says which line is wrong."""
    entries = []
    for line, words in decode_lines(data, 2):
        try:
            entry = EpochEntry(int(words[0]), int(words[1]))
        except ValueError:
            raise CorruptCheckpoint(f"malformed line {line!r}: two numbers are expected") from None
        if min(entry) < 0:
            raise CorruptCheckpoint(f"malformed line {line!r}: neither number can be negative")
        entries.append(entry)
    return entries
