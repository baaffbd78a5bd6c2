"""The names of the files in a partition's folder: Kafka's, so that its tools find their way.

Knows no content. A segment's files carry the offset of its first record in twenty digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
#: Renamed so before it is removed, so that a crash in between leaves nothing that counts.
DELETED: Final = ".deleted"
#: Written by Kafka's cleaner and not yet in force.
CLEANED: Final = ".cleaned"
#: Written by Kafka's cleaner, complete, and on its way into the place of older segments.
SWAP: Final = ".swap"

#: Everything that belongs to one segment, the log first: what it is gone with, the segment is gone.
SEGMENT_FILES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

_DIGITS: Final = 20


def file_name(offset: int, suffix: str) -> str:
    """Name the file of the segment or snapshot at `offset`."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """Return the offset in a name that ends in `suffix`; None for every other name."""
    digits = name.removesuffix(suffix)
    if len(digits) != _DIGITS or digits == name or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def own_name(name: str) -> str:
    """Return what a file is called when it counts: without what says that it was dropped, or is not in force yet."""
    for suffix in (DELETED, CLEANED, SWAP):
        if name.endswith(suffix):
            name = name.removesuffix(suffix)
            before, _, number = name.rpartition(".")
            return before if number.isdigit() else name
    return name


def segment_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments among the names of a folder, in order."""
    return sorted(base for name in names if (base := offset_of(name, LOG)) is not None)
