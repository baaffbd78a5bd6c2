"""One entry of log.dirs: whose it is, what lies in it, and the files that speak of all its partitions.

Job: open a directory, find the partitions, open their logs, rename folders out of the way, write checkpoints
and the mark of a clean stop. Must not know: segments, requests, and who holds the `.lock` (runtime does that).
Everything is synchronous over the Disk port: callers decide what runs in the background, one call at a time.
Invariants: unknown files and folders are left alone; the mark of a clean stop is gone, durably, before any log is
opened; a folder of one topic id is never opened for another.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from errno import EEXIST
from typing import TYPE_CHECKING, Final

from barnabas.model.ids import (
    TOPIC_ID_BYTES,
    Offset,
    TopicId,
    TopicPartition,
    topic_id_text,
    topic_name_problem,
)
from barnabas.storage import checkpoints, checksums, meta_properties, partition_metadata
from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.checksums import sum_of
from barnabas.storage.log import Log
from barnabas.storage.meta_properties import CorruptMetaProperties, MetaProperties
from barnabas.storage.names import LOG, file_name, segment_bases
from barnabas.storage.partition_metadata import CorruptPartitionMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.model.config.log_config import LogConfig
    from barnabas.ports import Disk, Rng
    from barnabas.storage.checksums import Sum

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
#: -1: this broker has no epoch to show for itself (KIP-966).
CLEAN_SHUTDOWN_CONTENT: Final = b'{"version":0,"brokerEpoch":-1}'

DELETE_SUFFIX: Final = "-delete"
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"
#: What file systems allow for one name.
NAME_LENGTH_MAX: Final = 255
#: Apache Kafka's own metadata log: never a topic of ours.
METADATA_TOPIC: Final = "__cluster_metadata"
PARTITION_MAX: Final = 2**31 - 1

_PARTITION_FOLDER: Final = re.compile(r"(.+)-(0|[1-9][0-9]*)")
_SET_ASIDE: Final = re.compile(r"(\S+-\S+)\.\S+(-delete|-future|-stray)")


class WrongTopic(Exception):
    """The folder holds the records of another topic with the same name."""


@dataclass(slots=True, frozen=True)
class FoundPartition:
    """A partition's folder. The id is None where Kafka wrote none yet, or where it cannot be read."""

    topic_partition: TopicPartition
    topic_id: TopicId | None


@dataclass(slots=True)
class Contents:
    """What `LogDirectory.open` found, each list in order of names; folders by their whole path."""

    partitions: list[FoundPartition] = field(default_factory=list)
    #: Renamed by a deletion that did not get to its end: to be removed in the background.
    deleted: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    future: list[str] = field(default_factory=list)
    #: Apache Kafka's own folders.
    internal: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    #: What could not be read and what was done instead: for the operator.
    problems: list[str] = field(default_factory=list)


def parse_folder(name: str) -> TopicPartition | None:
    """Read `topic-partition`, parted at the last dash; None for any other name."""
    match = _PARTITION_FOLDER.fullmatch(name)
    if match is None or topic_name_problem(match[1]) is not None or int(match[2]) > PARTITION_MAX:
        return None
    return TopicPartition(match[1], int(match[2]))


def future_name(key: TopicPartition, rng: Rng) -> str:
    """Name the folder of a partition on its way into a directory."""
    return f"{key}.{rng.random_bytes(16).hex()}{FUTURE_SUFFIX}"


def partition_of_future(path: str) -> TopicPartition:
    """Tell which partition such a folder is a copy of."""
    aside = _SET_ASIDE.fullmatch(path.rpartition("/")[2])
    key = parse_folder(aside[1]) if aside else None
    assert key is not None, f"{path} was sorted in as a future folder"
    return key


def _sum_of_id(topic_id: TopicId) -> Sum:
    return sum_of(partition_metadata.encode(topic_id))


def read_identity(disk: Disk, path: str) -> MetaProperties | None:
    """Return whose directory it is; None for a new one."""
    try:
        data = disk.read_file(f"{path}/{meta_properties.FILE_NAME}")
    except FileNotFoundError:
        return None
    try:
        return meta_properties.decode(data)
    except CorruptMetaProperties as problem:
        raise CorruptMetaProperties(f"{path}: {problem}") from None


class LogDirectory:
    """A directory of partitions. `open` comes first."""

    def __init__(self, disk: Disk, rng: Rng, path: str) -> None:
        """Touch nothing yet."""
        self.path = path.rstrip("/") or "/"
        self.directory_id: bytes | None = None
        #: Why nothing is read or written here any more; None while all is well. Set by who met the error.
        self.failure: OSError | None = None
        #: Whether the last broker here stopped in order, so that no log needs a scan.
        self.was_clean = False
        self.recovery_points: dict[TopicPartition, Offset] = {}
        self.log_start_offsets: dict[TopicPartition, Offset] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        #: Up to where each log was compacted. The others say what was found at the start; this one is kept in step.
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        #: Nobody can tell any more which logs were compacted.
        self._cleaned_unknown = False
        self._disk = disk
        self._rng = rng
        self._written: dict[str, bytes] = {}

    @property
    def is_online(self) -> bool:
        """Tell whether it can be used."""
        return self.failure is None

    def open(self, cluster_id: str, broker_id: int) -> Contents:
        """Take the directory for this broker and look at what is there; made if it is not there.

        ForeignDirectory or CorruptMetaProperties if it is not ours to touch: then nothing was changed.
        """
        self.take(cluster_id, broker_id)
        self._take_clean_mark()
        contents = Contents()
        self.recovery_points = self._read_offsets(checkpoints.RECOVERY_POINTS, contents)
        self.log_start_offsets = self._read_offsets(checkpoints.LOG_START_OFFSETS, contents)
        self.high_watermarks = self._read_offsets(checkpoints.HIGH_WATERMARKS, contents)
        problems = len(contents.problems)
        self.cleaner_offsets = dict(self._read_offsets(checkpoints.CLEANER_OFFSETS, contents))
        self._cleaned_unknown = len(contents.problems) > problems
        for name in self._disk.list(self.path):
            if self._disk.is_dir(f"{self.path}/{name}"):
                self._sort_in(name, contents)
        return contents

    def take(self, cluster_id: str, broker_id: int) -> None:
        """Make the directory this broker's, or see that it is; a new one gets its id. For errors see `open`."""
        meta = read_identity(self._disk, self.path)
        if meta is not None:
            meta_properties.check_owner(meta, self.path, cluster_id, broker_id)
        self.directory_id = meta.directory_id if meta is not None else None
        # A directory of a ZooKeeper-era broker (version 0) stays one, so that it can go back.
        if meta is None or (meta.version == 1 and meta.directory_id is None):
            self.directory_id = self._new_directory_id()
            self._disk.make_dir(self.path)
            self._disk.write_file_atomically(
                self._file(meta_properties.FILE_NAME),
                meta_properties.encode(MetaProperties(1, cluster_id, broker_id, self.directory_id)),
            )

    def open_log(
        self, key: TopicPartition, topic_id: TopicId, config: LogConfig, now_ms: int
    ) -> Log:
        """Open a partition's log, recovering it if need be; a new folder is made if there is none.

        WrongTopic if the folder is another topic's, CorruptPartitionMetadata if it does not say whose.
        """
        folder = f"{self.path}/{key}"
        is_new = not self._disk.is_dir(folder)
        if is_new:
            self._forget(key)
            # The coordination store says which partitions there are: a folder that a power loss takes before
            # its log was ever flushed is made again, and loses nothing that was promised.
            self._disk.make_dir(folder, sync=False)
        self._claim(folder, topic_id)
        return Log.open(
            self._disk,
            folder,
            config,
            now_ms=now_ms,
            rng=self._rng,
            recovery_point=self.recovery_points.get(key, Offset(0)),
            log_start_offset=self.log_start_offsets.get(key, Offset(0)),
            clean=self.was_clean or is_new,
            was_compacted=key in self.cleaner_offsets or self._cleaned_unknown,
            high_watermark=self.high_watermarks.get(key, 0),
            is_start_known=key in self.log_start_offsets,
            other_sums={partition_metadata.FILE_NAME: _sum_of_id(topic_id)},
        )

    def unclean_bytes(self, key: TopicPartition) -> int:
        """Tell how many bytes `open_log` will have to check: what lies in and behind the recovery point's segment."""
        folder = self._file(str(key))
        if self.was_clean or not self._disk.is_dir(folder):
            return 0
        bases = segment_bases(self._disk.list(folder))
        first = max(0, bisect_right(bases, self.recovery_points.get(key, 0)) - 1)
        paths = [f"{folder}/{file_name(base, LOG)}" for base in bases[first:]]
        return sum(self._disk.open(path).size() for path in paths)

    def rename_for_delete(self, key: TopicPartition) -> str:
        """Take a partition's folder out of use, durably; its new path, to be removed in the background."""
        return self._set_aside(key, DELETE_SUFFIX)

    def set_own_aside(
        self, key: TopicPartition, topic_id: TopicId, *, is_stray: bool
    ) -> str | None:
        """Take a partition's folder out of use, for deletion or as a stray, if it is this topic's; None if there is none, or it is another one's."""
        folder = self._file(str(key))
        if not self._disk.is_dir(folder):
            return None
        try:
            found = self._read_topic_id(folder)
        except CorruptPartitionMetadata:
            found = None  # whoever opened the log knew whose it is
        if found not in (None, topic_id):
            return None
        return self.rename_stray(key) if is_stray else self.rename_for_delete(key)

    def rename_stray(self, key: TopicPartition) -> str:
        """Set aside a folder that belongs to no known topic: kept, and never opened again; its new path."""
        return self._set_aside(key, STRAY_SUFFIX)

    # Moving in from another directory

    def make_future(self, key: TopicPartition, topic_id: TopicId) -> str:
        """Make the folder into which a partition of another directory is copied; its path."""
        folder = self._file(future_name(key, self._rng))
        self._disk.make_dir(folder, sync=False)
        self._claim(folder, topic_id)
        return folder

    def take_future(self, folder: str, key: TopicPartition) -> str:
        """Let a complete copy be the partition's folder; its new path. Not synced: a flush of the log does that."""
        path = self._file(str(key))
        if self._disk.exists(path):
            raise FileExistsError(EEXIST, "the partition has a folder here", path)
        self._disk.rename(folder, path)
        self._forget(key)
        return path

    def has_folder(self, key: TopicPartition) -> bool:
        """Tell whether there is a folder of this name, whosever it is."""
        return self._disk.is_dir(self._file(str(key)))

    def remove_folder(self, key: TopicPartition) -> None:
        """Remove the folder of a partition that was never in use."""
        self._disk.remove_tree(self._file(str(key)))
        self._forget(key)

    def holds(self, key: TopicPartition, topic_id: TopicId) -> bool:
        """Tell whether there is a folder of this very topic's partition."""
        folder = self._file(str(key))
        return self._disk.is_dir(folder) and self._read_topic_id(folder) == topic_id

    def was_of(self, key: TopicPartition, topic_id: TopicId) -> bool:
        """Tell whether a folder is known to have been this topic's, whatever its partition.metadata says by now."""
        return self._is_known_as(self._file(str(key)), topic_id)

    # Checkpoints

    def write_checkpoints(
        self,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
        high_watermarks: Mapping[TopicPartition, int],
    ) -> None:
        """Replace the three files, those that changed."""
        self._write(checkpoints.RECOVERY_POINTS, recovery_points)
        self._write(checkpoints.LOG_START_OFFSETS, log_start_offsets)
        self._write(checkpoints.HIGH_WATERMARKS, high_watermarks)

    def write_cleaner_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file that says up to where each log was compacted; a directory without such logs has none."""
        if offsets or self._disk.exists(self._file(checkpoints.CLEANER_OFFSETS)):
            self._write(checkpoints.CLEANER_OFFSETS, offsets)

    def mark_clean(self) -> None:
        """Say that all logs are closed and synced: the last thing that a broker writes here."""
        self._disk.write_file_atomically(self._file(CLEAN_SHUTDOWN_FILE), CLEAN_SHUTDOWN_CONTENT)

    # Opening

    def _new_directory_id(self) -> bytes:
        while True:
            raw = bytearray(self._rng.random_bytes(TOPIC_ID_BYTES))
            # A random UUID, as Kafka has it: version 4, variant 2. So it is none of the reserved ids.
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            # Kafka hands out no id that a command line would take for an option.
            if not topic_id_text(TopicId(bytes(raw))).startswith("-"):
                return bytes(raw)

    def _take_clean_mark(self) -> None:
        """Read and remove the mark. The removal is synced: a crash from here on is no clean stop."""
        mark = self._file(CLEAN_SHUTDOWN_FILE)
        self.was_clean = self._disk.exists(mark)
        if self.was_clean:
            self._disk.remove(mark)
            self._disk.sync_dir(self.path)

    def _read_offsets(self, name: str, contents: Contents) -> dict[TopicPartition, Offset]:
        try:
            data = self._disk.read_file(self._file(name))
            return checkpoints.decode(data)
        except FileNotFoundError:
            return {}
        except CorruptCheckpoint as problem:
            # As Kafka does: without recovery points all is scanned, without start offsets all is shown.
            contents.problems.append(f"{self._file(name)} is not used: {problem}")
            return {}

    def _sort_in(self, name: str, contents: Contents) -> None:
        path = f"{self.path}/{name}"
        aside = _SET_ASIDE.fullmatch(name)
        key = parse_folder(aside[1] if aside else name)
        if key is None:
            contents.unknown.append(path)
        elif aside:
            lists = {
                DELETE_SUFFIX: contents.deleted,
                FUTURE_SUFFIX: contents.future,
                STRAY_SUFFIX: contents.stray,
            }
            lists[aside[2]].append(path)
        elif key.topic == METADATA_TOPIC:
            contents.internal.append(path)
        else:
            contents.partitions.append(FoundPartition(key, self._topic_id(path, contents)))

    def _topic_id(self, folder: str, contents: Contents) -> TopicId | None:
        try:
            return self._read_topic_id(folder)
        except CorruptPartitionMetadata as problem:
            contents.problems.append(f"{folder} does not say whose it is: {problem}")
            return None

    # Partitions

    def _read_topic_id(self, folder: str) -> TopicId | None:
        try:
            data = self._disk.read_file(f"{folder}/{partition_metadata.FILE_NAME}")
        except FileNotFoundError:
            return None
        if not data.strip(b"\0"):
            return None  # a power loss came before the medium had it
        return partition_metadata.decode(data)

    def _claim(self, folder: str, topic_id: TopicId) -> None:
        """Make sure that the folder says whose it is: this topic's."""
        try:
            found = self._read_topic_id(folder)
        except CorruptPartitionMetadata:
            if not self._is_known_as(folder, topic_id):
                raise
            found = None
        if found == topic_id:
            return
        if found is not None and not self._is_known_as(folder, topic_id):
            raise WrongTopic(
                f"{folder} belongs to a topic with the id {topic_id_text(found)}, "
                f"not {topic_id_text(topic_id)}: it is an older topic of the same name"
            )
        self._disk.write_file_atomically(
            f"{folder}/{partition_metadata.FILE_NAME}",
            partition_metadata.encode(topic_id),
            sync=False,
        )

    def _is_known_as(self, folder: str, topic_id: TopicId) -> bool:
        """Tell whether the checksums say that the folder's id was this one: then the file with it is damaged."""
        known = checksums.read(self._disk, folder).get(partition_metadata.FILE_NAME)
        return known == _sum_of_id(topic_id)

    def _set_aside(self, key: TopicPartition, suffix: str) -> str:
        unique = self._rng.random_bytes(16).hex()
        ending = f"-{key.partition}.{unique}{suffix}"
        path = self._file(key.topic[: NAME_LENGTH_MAX - len(ending)] + ending)
        self._disk.rename(self._file(str(key)), path)
        self._disk.sync_dir(self.path)
        self._forget(key)
        return path

    def _forget(self, key: TopicPartition) -> None:
        """Drop what the checkpoints said: a new partition of the same name starts at 0."""
        for offsets in (self.recovery_points, self.log_start_offsets, self.high_watermarks):
            offsets.pop(key, None)
        self.cleaner_offsets.pop(key, None)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        content = checkpoints.encode(offsets)
        if self._written.get(name) != content:
            # Unknown until it has succeeded: a failed write may have left either content.
            self._written.pop(name, None)
            self._disk.write_file_atomically(self._file(name), content)
            self._written[name] = content

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"
