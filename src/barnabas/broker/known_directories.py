"""Which log directories this broker has had: a disk that is missing must not be taken for a new one.

The ids of the directories (`directory.id` in meta.properties, KIP-858) stand in the coordination store, by the path at which each
was last seen. A start holds that against what is there:

| found                                                       | what it is                                           |
|-------------------------------------------------------------|------------------------------------------------------|
| a known id, at any path                                     | that directory                                       |
| no id or an unknown one, at a path that is not known        | a new directory                                      |
| nothing or another id, at a known path                      | a missing disk: offline, and nothing is written there |
| a known id nowhere, and its path is not in log.dirs         | left out: partitions found nowhere stay offline      |

Whoever knows better says so by a file, `ACCEPT_FILE`: in a directory at a known path it makes that a new one; in any directory it
gives up those that were left out. The file goes when the store has what it said.

Job: the table, and its znode. Must not know logs and partitions, nor what becomes of a directory that is refused.
"""

from __future__ import annotations

import json
from errno import EIO
from typing import TYPE_CHECKING, Final

from barnabas.model.ids import TopicId, topic_id_from_text, topic_id_text
from barnabas.ports import Create, Operation, SetData
from barnabas.storage.directory import read_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.ports import Disk, ZNode
    from barnabas.storage.meta_properties import MetaProperties

#: Ours: Kafka 3.9 has no place for them in ZooKeeper.
ZNODE: Final = "/barnabas/log_directories"
#: An operator's word that an empty or another disk is meant.
ACCEPT_FILE: Final = ".barnabas-new"

#: By path; None for a directory of ZooKeeper's era, which has no id.
Ids = dict[str, bytes | None]


class MissingDirectory(OSError):
    """What lies at the path is not the directory that is known there."""

    def __init__(self, path: str, what: str) -> None:
        """Say what is there instead, and what to do about it."""
        super().__init__(
            EIO,
            f"{path} {what}: if its disk is not mounted, mount it and start again; if the disk was replaced "
            f"for good, make the file {path}/{ACCEPT_FILE} and start again, and what was on it begins anew, empty",
        )

    def __str__(self) -> str:
        """Leave out the number of the error, which says nothing."""
        return str(self.strerror)


class Look:
    """One look at the directories of a start, in the light of what the store knows. Making it blocks."""

    def __init__(self, disk: Disk, ids: Ids, paths: Sequence[str]) -> None:
        """Read who they are."""
        self._ids = ids
        self._paths = paths
        #: By path: whose it is, None for an empty one. Those whose disk fails are not among them: opening them will tell.
        self.found: dict[str, MetaProperties | None] = {}
        self.accepted: list[str] = []
        for path in paths:
            try:
                self.found[path] = read_identity(disk, path)
                if disk.exists(f"{path}/{ACCEPT_FILE}"):
                    self.accepted.append(path)
            except OSError:
                continue

    def accept_empty(self) -> None:
        """Take directories in which there is nothing for new ones."""
        self.accepted += [path for path, meta in self.found.items() if meta is None]

    def check(self, path: str) -> None:
        """Raise MissingDirectory unless this is the directory that is known here, or a new one."""
        if path not in self._ids or path not in self.found or path in self.accepted:
            return
        known, meta = self._ids[path], self.found[path]
        if meta is None:
            raise MissingDirectory(
                path, "has no meta.properties, but this broker has had a log directory there"
            )
        if known is None or meta.directory_id in self._ids.values():
            return
        raise MissingDirectory(
            path,
            f"has the id {_text(meta.directory_id)}, but this broker knows {_text(known)} there",
        )

    def check_first(self, path: str) -> None:
        """Raise MissingDirectory if the first directory is empty and others are not: it held the store, which is new."""
        is_empty = path in self.found and self.found[path] is None
        if is_empty and any(self.found.values()) and path not in self.accepted:
            raise MissingDirectory(
                path,
                "has no meta.properties, but other log directories have; the first one holds the broker's store",
            )

    def left_out(self) -> list[str]:
        """Return where those were that are in no directory of log.dirs, unless they are given up."""
        there = [meta.directory_id for meta in self.found.values() if meta is not None]
        return [
            path
            for path, directory_id in self._ids.items()
            if path not in self._paths and directory_id not in there and not self.accepted
        ]


def read_ids(tree: Mapping[str, ZNode], broker_id: int) -> Ids:
    """Return what the store knows of a broker; nothing if it has not been here before."""
    node = tree.get(f"{ZNODE}/{broker_id}")
    if node is None:
        return {}
    texts: dict[str, str | None] = json.loads(node.data)["directories"]
    return {path: topic_id_from_text(text) if text else None for path, text in texts.items()}


def ids_operation(broker_id: int, ids: Ids, *, exists: bool) -> Operation:
    """Write down what a broker has from now on."""
    texts = {path: _text(one) if one else None for path, one in ids.items()}
    data = json.dumps({"version": 1, "directories": texts}, separators=(",", ":")).encode()
    path = f"{ZNODE}/{broker_id}"
    return SetData(path, data) if exists else Create(path, data)


def _text(directory_id: bytes | None) -> str:
    return "none" if directory_id is None else topic_id_text(TopicId(directory_id))
