"""What a crash leaves half done in a partition's folder: deletions, cleanings, and swaps, ours and those of Kafka's cleaner.

Job: bring the folder to a state in which every file counts. Must not know whether the logs that remain are sound.

| name            | what it is                                  | what becomes of it                                    |
|-----------------|---------------------------------------------|-------------------------------------------------------|
| .deleted        | dropped before                              | removed                                               |
| .cleaned        | new segment, not complete                   | removed                                               |
| .log.swap       | new segment, complete, not yet in place     | takes the place of the segments it stands for         |
| the same, with a .cleaned at or below its offset | part of a split of Kafka's that was not finished, or the .cleaned is older | removed if all that it stands for is in place, otherwise as above |
| an index .swap  | goes with a .log.swap, or its log is in place already | as its log; removed if the log is still .cleaned |
| index, no log   | remains of a segment that was being removed | removed                                               |

Kafka removes every .swap at or above the lowest .cleaned: a split of a segment is renamed from its end, so some part of it may
not be complete. But a .cleaned may also be left from earlier work, and the swap have been under way since, with old segments put
aside. So a .swap is given up only when every offset that it stands for is in the segments that are in place.

Each step is on the medium before the next one begins, so a crash on the way is no harm, however often: an old segment never
stands beside a new one that covers its offsets, and what was given up is not taken for a swap that was nearly done.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

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
    segment_bases,
)
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import TransactionIndex
from barnabas.wire.batch import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.ports import Disk


def clear_leftovers(disk: Disk, directory: str, found: Sequence[str]) -> list[str]:
    """Return the names that count, after removing, renaming and replacing the others on disk."""
    folder = _Folder(disk, directory, found)
    if any(name.endswith(SWAP) for name in found):
        folder.give_up_swaps()
        folder.finish_swaps()
    folder.remove(name for name in folder.names if name.endswith((DELETED, CLEANED)))
    folder.remove(_orphans(folder.names))
    return folder.names


class _Folder:
    """One run of `clear_leftovers`. `names` is what is there."""

    def __init__(self, disk: Disk, directory: str, names: Sequence[str]) -> None:
        self._disk = disk
        self._directory = directory
        self.names = sorted(names)

    def remove(self, names: Iterable[str]) -> None:
        for name in list(names):
            self._disk.remove(f"{self._directory}/{name}")
            self.names.remove(name)

    def _rename(self, old: str, new: str) -> None:
        self._disk.rename(f"{self._directory}/{old}", f"{self._directory}/{new}")
        self.names = sorted({*self.names, new} - {old})

    def _remove_synced(self, names: Iterable[str]) -> None:
        some = list(names)
        self.remove(some)
        if some:
            self._disk.sync_dir(self._directory)

    def _bases(self, suffix: str) -> list[int]:
        """Return the base offsets of the files with another suffix behind their own."""
        return [base for name in self.names if (base := _base_of(name, suffix)) is not None]

    # Swaps that are given up

    def give_up_swaps(self) -> None:
        """Remove each .swap that may not be complete, while all that it stands for is in place."""
        given_up = [base for base in dict.fromkeys(self._bases(SWAP)) if self._is_given_up(base)]
        files = [name for name in self.names if _base_of(name, SWAP) in given_up]
        # The log last: it says of the others what they are.
        self._remove_synced(name for name in files if not name.endswith(LOG + SWAP))
        self._remove_synced(name for name in files if name.endswith(LOG + SWAP))

    def _is_given_up(self, base: int) -> bool:
        log = file_name(base, LOG)
        if log + SWAP not in self.names:
            # The renaming had just begun, or was nearly done: then no older index has this one's name.
            indexes = [name for name in self.names if _base_of(name, SWAP) == base]
            return log + CLEANED in self.names or any(
                name.removesuffix(SWAP) in self.names for name in indexes
            )
        is_doubted = any(other <= base for other in self._bases(CLEANED))
        return is_doubted and self._are_in_place(base, self._end_of(log + SWAP, base))

    def _are_in_place(self, start: int, end: int) -> bool:
        """Tell whether the segments that are in place hold every offset from `start` to before `end`."""
        bases = segment_bases(self.names)
        position = start
        for base in bases[max(0, bisect_right(bases, start) - 1) :]:
            if base > position or position >= end:
                break
            position = max(position, self._end_of(file_name(base, LOG), base))
        return position >= end

    def _end_of(self, name: str, base: int) -> int:
        """Return the offset after the last whole batch of a log file."""
        path = f"{self._directory}/{name}"
        file = self._disk.open(path)
        segment = Segment(base, (file, file, file), TransactionIndex(self._disk, path), 0, 0)
        end = base
        try:
            for _, header in segment.headers(0, file.size()):
                end = header.next_offset
        except BatchError:
            pass  # what is behind it stays in the older segments
        return end

    # Swaps that are finished

    def finish_swaps(self) -> None:
        """Put complete new segments in the place of those whose offsets they cover."""
        logs = [name for name in self.names if name.endswith(LOG + SWAP)]
        bases = [base for name in logs if (base := _base_of(name, SWAP)) is not None]
        ends = [self._end_of(file_name(base, LOG) + SWAP, base) for base in bases]
        # Those that are still called .cleaned are complete, too: a crash came between the renaming of the log and theirs.
        # Beside a log that is called so they are another cleaning's.
        renaming = [base for base in bases if file_name(base, LOG) + CLEANED not in self.names]
        indexes = [
            name for name in self.names
            if (name.endswith(SWAP) and name not in logs) or _base_of(name, CLEANED) in renaming
        ]  # fmt: skip
        if bases:
            self._remove_synced(
                name for name in self.names if min(bases) <= _place_of(name) < max(ends)
            )
        for names in (logs, indexes):  # as in `swap.py`
            for name in names:
                self._rename(name, name.removesuffix(SWAP).removesuffix(CLEANED))
            if names:
                self._disk.sync_dir(self._directory)


def _base_of(name: str, suffix: str) -> int | None:
    """Return the base offset of a segment's file with another suffix behind its own."""
    inner = name.removesuffix(suffix)
    if inner == name:
        return None
    return next(
        (base for own in SEGMENT_FILES if (base := offset_of(inner, own)) is not None), None
    )


def _place_of(name: str) -> int:
    """Return the offset of a segment's file or a snapshot that is in place; -1 for every other name."""
    found = (offset_of(name, own) for own in (*SEGMENT_FILES, SNAPSHOT))
    return next((offset for offset in found if offset is not None), -1)


def _orphans(names: Sequence[str]) -> list[str]:
    logs = {name for name in names if name.endswith(LOG)}
    return [name for name in names if _is_orphan(name, logs)]


def _is_orphan(name: str, logs: set[str]) -> bool:
    for suffix in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
        base = offset_of(name, suffix)
        if base is not None:
            return file_name(base, LOG) not in logs
    return False
