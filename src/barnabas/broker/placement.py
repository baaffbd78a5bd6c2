"""Which log directory holds which partition, and which one gets the next.

A new partition goes where an operator wants it (AlterReplicaLogDirs before it exists), else to the directory with the
fewest, as in Kafka. A directory that is offline gets none; the others are there in case that one has no room.
"""

from __future__ import annotations

from collections import Counter
from errno import EIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.model.ids import TopicPartition
    from barnabas.storage.directory import LogDirectory

#: Wishes for partitions that do not exist yet; with more, the oldest is forgotten.
WISHES_KEPT: Final = 10_000


class DirectoryOffline(OSError):
    """There is no directory in which the partition can be opened now."""

    def __init__(self, message: str) -> None:
        """Say which."""
        super().__init__(EIO, message)


class Placement:
    """See the module. Changed by jobs on `Node.directory_jobs` and at the start, one at a time."""

    __slots__ = ("_by_key", "_counts", "_wishes", "left_out")

    def __init__(self) -> None:
        """Start with nothing."""
        self._by_key: dict[TopicPartition, LogDirectory] = {}
        self._counts: Counter[str] = Counter()
        self._wishes: dict[TopicPartition, LogDirectory] = {}
        #: Paths of directories that are known and not in log.dirs: what is found nowhere may be there.
        self.left_out: list[str] = []

    def get(self, key: TopicPartition) -> LogDirectory | None:
        """Return where the partition's folder is; None if it is in no directory that could be opened."""
        return self._by_key.get(key)

    def put(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Note where a partition is, from now on there alone."""
        self.drop(key)
        self._by_key[key] = directory
        self._counts[directory.path] += 1
        self._wishes.pop(key, None)

    def drop(self, key: TopicPartition) -> None:
        """Forget a partition."""
        directory = self._by_key.pop(key, None)
        if directory is not None:
            self._counts[directory.path] -= 1

    def wish(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Remember where a partition that is not there yet is to be made; not over a restart, as in Kafka."""
        self._wishes.pop(key, None)
        if len(self._wishes) >= WISHES_KEPT:
            del self._wishes[next(iter(self._wishes))]
        self._wishes[key] = directory

    def candidates(
        self, key: TopicPartition, directories: Sequence[LogDirectory]
    ) -> list[LogDirectory]:
        """Say where a new partition may go, the best first. DirectoryOffline if no directory is left."""
        online = [directory for directory in directories if directory.is_online]
        if not online:
            raise DirectoryOffline("every log directory is offline")
        wish = self._wishes.get(key)
        return sorted(
            online, key=lambda directory: (directory is not wish, self._counts[directory.path])
        )
