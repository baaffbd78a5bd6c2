"""What a crash leaves half done in a partition's folder: deletions, cleanings, and swaps of Kafka's cleaner.

Job: bring the folder to a state in which every file counts, as Kafka does it. Must not know whether the logs
that remain are sound.

| name           | what it is                                  | what becomes of it                             |
|----------------|---------------------------------------------|------------------------------------------------|
| .deleted       | dropped before                              | removed                                        |
| .cleaned       | new segment, not complete                   | removed, and so is every .swap from there on   |
| .swap          | new segment, complete, not yet in place     | takes the place of the segments it stands for  |
| index, no log  | remains of a segment that was being removed | removed                                        |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.storage.names import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_FILES,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
)
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import TransactionIndex
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Disk

_NONE: Final = 2**63 - 1


def clear_leftovers(disk: Disk, directory: str, found: Sequence[str]) -> list[str]:
    """Return the names that count, after removing, renaming and replacing the others on disk."""
    cleaned = [base for name in found if (base := _base_of(name, CLEANED)) is not None]
    first_cleaned = min(cleaned, default=_NONE)
    names = []
    for name in found:
        swap_base = _base_of(name, SWAP)
        incomplete = swap_base is not None and swap_base >= first_cleaned
        if incomplete or name.endswith((DELETED, CLEANED)):
            disk.remove(f"{directory}/{name}")
        else:
            names.append(name)
    if any(name.endswith(SWAP) for name in names):
        names = _finish_swaps(disk, directory, names)
    return _remove_orphans(disk, directory, names)


def _base_of(name: str, suffix: str) -> int | None:
    """Return the base offset of a segment's file with another suffix behind its own."""
    inner = name.removesuffix(suffix)
    if inner == name:
        return None
    return next(
        (base for own in SEGMENT_FILES if (base := offset_of(inner, own)) is not None), None
    )


def _finish_swaps(disk: Disk, directory: str, names: Sequence[str]) -> list[str]:
    """Put complete new segments in the place of those whose offsets they cover.

    A crash in between is no harm: the old ones are removed before the new ones get their names.
    """
    swapped = [name for name in names if name.endswith(SWAP)]
    logs = [name for name in swapped if name.endswith(LOG + SWAP)]
    ranges = [_offsets_of(disk, f"{directory}/{name}", _base_of(name, SWAP)) for name in logs]
    start = min((first for first, _ in ranges), default=_NONE)
    end = max((last for _, last in ranges), default=-1)
    kept = []
    for name in names:
        base = next(
            (at for own in (*SEGMENT_FILES, SNAPSHOT) if (at := offset_of(name, own)) is not None),
            None,
        )
        if base is not None and start <= base < end:
            disk.remove(f"{directory}/{name}")
        elif name not in swapped:
            kept.append(name)
    for name in swapped:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    return sorted(kept + [name.removesuffix(SWAP) for name in swapped])


def _offsets_of(disk: Disk, path: str, base: int | None) -> tuple[int, int]:
    """Return the offsets that a new segment stands for: from its name to the end of its last batch."""
    assert base is not None
    file = disk.open(path)
    segment, end = Segment(base, (file, file, file), TransactionIndex(disk, path), 0, 0), base
    try:
        for _, header in segment.headers(0, file.size()):
            end = header.next_offset
    except BatchError:
        pass  # what is behind it stays in the older segments
    return base, end


def _remove_orphans(disk: Disk, directory: str, names: Sequence[str]) -> list[str]:
    logs = {name for name in names if name.endswith(LOG)}
    kept = []
    for name in names:
        if _is_orphan(name, logs):
            disk.remove(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def _is_orphan(name: str, logs: set[str]) -> bool:
    for suffix in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
        base = offset_of(name, suffix)
        if base is not None:
            return file_name(base, LOG) not in logs
    return False
