"""The file in which a log keeps checksums of the small files beside it.

Job: text <-> sizes and checksums. Must not know what is in the files.

Kafka gives its index of aborted transactions, its leader epochs and its topic's id no checksum, and nothing tells that one is missing; a
producer snapshot has one, which does not tell whether it is another offset's. So the log writes down what it wrote: whenever a
segment is closed or replaced, and when the log is closed. The file is our own; Kafka passes over it, as it does over other
names that it does not know. Where it is missing, the others are taken as they are.

A wrong line costs work and nothing else: what it speaks of is made again from the log.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from barnabas.storage.checkpoints import CorruptCheckpoint, decode_lines, encode_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.ports import Disk

FILE_NAME: Final = "barnabas-checksums"


class Sum(NamedTuple):
    """What a file was."""

    size_bytes: int
    crc: int


#: A file that is not there, or empty.
NOTHING: Final = Sum(0, 0)
NO_SUMS: Final[Mapping[str, Sum]] = MappingProxyType({})


def sum_of(content: bytes) -> Sum:
    """Sum up a file."""
    return Sum(len(content), crc32c(content))


def encode(sums: Mapping[str, Sum]) -> bytes:
    """Write them in the order of names."""
    return encode_lines([f"{name} {size} {crc}" for name, (size, crc) in sorted(sums.items())])


def decode(data: bytes) -> dict[str, Sum]:
    """Read them; CorruptCheckpoint says which line is wrong."""
    sums = {}
    for line, (name, *numbers) in decode_lines(data, 3):
        try:
            sums[name] = Sum(*map(int, numbers))
        except ValueError:
            raise CorruptCheckpoint(f"malformed line {line!r}: two numbers are expected") from None
    return sums


def read(disk: Disk, directory: str) -> dict[str, Sum]:
    """Return what a folder's file says; nothing if there is none that can be read."""
    try:
        return decode(disk.read_file(f"{directory}/{FILE_NAME}"))
    except (FileNotFoundError, CorruptCheckpoint):
        return {}
