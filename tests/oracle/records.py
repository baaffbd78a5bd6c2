"""The records of the load: each names its topic, partition, client and number, and the checksum of the padding behind its name.

The drivers of all languages write the same form: `TOPIC PARTITION CLIENT NUMBER CHECKSUM PADDING`, the checksum in eight hexadecimal digits.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

_FIELDS = 6
_CHECKSUM_DIGITS = 8


class Name(NamedTuple):
    """What a record says of itself."""

    topic: str
    partition: int
    client: str
    number: int
    checksum: int
    padding: bytes

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.client} {self.number}"


def make(topic: str, partition: int, client: str, number: int, padding: bytes = b"") -> bytes:
    """Write a record's value."""
    return f"{topic} {partition} {client} {number} {zlib.crc32(padding):08x} ".encode() + padding


def parse(value: bytes) -> Name | None:
    """Read a value; None if it is none of ours."""
    parts = value.split(b" ", _FIELDS - 1)
    if len(parts) != _FIELDS or len(parts[4]) != _CHECKSUM_DIGITS:
        return None
    try:
        return Name(
            parts[0].decode(),
            int(parts[1]),
            parts[2].decode(),
            int(parts[3]),
            int(parts[4], 16),
            parts[5],
        )
    except ValueError:
        return None
