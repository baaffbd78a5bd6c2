"""The producer snapshots in a partition's folder: which there are, and which are still good for something.

Job: write one at an offset, load the newest usable one, remove strays. Must not know the bytes inside
(`producer_snapshot.py`) nor when one is due (`log.py`).

Invariant: a snapshot named N holds the state of all producers after every batch below offset N. Each
segment has one at its base offset, as in Kafka, and one more may stand at the end of a log that was closed.
Files are written without a sync, as in Kafka: each carries a checksum, and a torn one is passed over. `sums` tells a whole one that
is not what was written at its offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.storage import producer_snapshot
from barnabas.storage.checksums import sum_of
from barnabas.storage.drop import put_aside
from barnabas.storage.names import SNAPSHOT, file_name, offset_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.core.producer_state import ProducerStates
    from barnabas.ports import Disk, File
    from barnabas.storage.checksums import Sum


class Snapshots:
    """See the module. `unsynced` are the files written since the last flush took them over."""

    __slots__ = ("_disk", "_offsets", "directory", "sums", "unsynced")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        names: Sequence[str],
        sums: Mapping[str, Sum] | None = None,
    ) -> None:
        """Take the names found in the folder, and what was written down of them."""
        self._disk = disk
        self.directory = directory
        self.unsynced: tuple[File, ...] = ()
        found = (offset_of(name, SNAPSHOT) for name in names)
        self._offsets = sorted(offset for offset in found if offset is not None)
        #: By name; those of snapshots that are gone too, until others are written down.
        self.sums = {name: sum_ for name, sum_ in (sums or {}).items() if name.endswith(SNAPSHOT)}

    @property
    def latest(self) -> int:
        """Offset of the newest snapshot; -1 if there is none."""
        return self._offsets[-1] if self._offsets else -1

    @property
    def is_latest_known(self) -> bool:
        """Tell whether the newest one was written down."""
        return file_name(self.latest, SNAPSHOT) in self.sums

    def load(self, states: ProducerStates, end_offset: int) -> int | None:
        """Fill `states` from the newest good snapshot up to `end_offset`; return its offset.

        Bad ones on the way are removed. None if there is none: `states` is as it was.
        """
        for offset in reversed([known for known in self._offsets if known <= end_offset]):
            try:
                content = self._disk.read_file(self._path(offset))
                entries = producer_snapshot.decode(content)
                known = self.sums.get(file_name(offset, SNAPSHOT))
                if known not in (None, sum_of(content)):
                    raise ValueError("it is another's")
            except (FileNotFoundError, ValueError):
                self.remove(offset)
                continue
            states.load(entries)
            return offset
        return None

    def write(self, states: ProducerStates, offset: int) -> None:
        """Write the state at `offset`. It is synced with the segment below it."""
        content = producer_snapshot.encode(states)
        file = self._disk.open(self._path(offset), create=True)
        file.write(0, (content,))
        file.truncate(len(content))
        self.sums[file_name(offset, SNAPSHOT)] = sum_of(content)
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])
        if file not in self.unsynced:
            self.unsynced = (*self.unsynced, file)

    def remove(self, offset: int) -> None:
        """Remove one."""
        self._disk.remove(self._path(offset))
        self.forget(offset)

    def on_synced(self, files: Sequence[File]) -> None:
        """Note that these are on the medium."""
        self.unsynced = tuple(file for file in self.unsynced if file not in files)

    def remove_strays(
        self, base_offsets: Sequence[int], start_offset: int, end_offset: int
    ) -> bool:
        """Keep those in the log at a segment's start, and the newest one if it is past them all.

        Tell whether any had to go.
        """
        before = self._offsets
        newest = max((offset for offset in self._offsets if offset <= end_offset), default=-1)
        for offset in self._offsets:
            at_segment = offset in base_offsets or (offset == newest and offset > base_offsets[-1])
            if not (at_segment and start_offset <= offset <= end_offset):
                self.remove(offset)
        return before != self._offsets

    def rename_for_delete(self, offset: int) -> str | None:
        """Put the one at a replaced segment's start aside; return its new path, None if there is none."""
        path = self.forget(offset)
        return None if path is None else put_aside(self._disk, path)

    def forget(self, offset: int) -> str | None:
        """Leave the one at a dropped segment's start to whoever removes it; return its path, None if there is none."""
        if offset not in self._offsets:
            return None
        self._offsets = [known for known in self._offsets if known != offset]
        self.sums.pop(file_name(offset, SNAPSHOT), None)
        return self._path(offset)

    def forget_above(self, offset: int) -> list[str]:
        """Leave those above an offset to whoever removes them; their paths."""
        above = [known for known in self._offsets if known > offset]
        return [path for known in above if (path := self.forget(known)) is not None]

    def _path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT)}"
