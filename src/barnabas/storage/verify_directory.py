"""Whether a whole log directory is what it should be: its partitions, and the files that speak of all of them.

Job: find the partitions, look at each, and hold the checkpoints against what they say. Must not know what is to be done
about it. Apache Kafka's directories are read like our own. Nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.model.ids import TopicPartition, topic_id_text
from barnabas.storage import checkpoints, meta_properties
from barnabas.storage.directory import CLEAN_SHUTDOWN_FILE, METADATA_TOPIC, parse_folder
from barnabas.storage.names import LOG, file_name, segment_bases
from barnabas.storage.verify import (
    DAMAGE,
    NOTE,
    Finding,
    FolderLeft,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.model.ids import TopicId
    from barnabas.ports import Disk

CHECKPOINTS: Final = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.CLEANER_OFFSETS,
)
#: Topics of the coordinators: always compacted.
COMPACTED_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(slots=True)
class DirectoryView:
    """What the files of a directory say of its partitions."""

    path: str
    clean: bool = False
    partitions: list[TopicPartition] = field(default_factory=list)
    #: File name -> offset by partition; a file that cannot be read is not there.
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    #: Names of checkpoint files that cannot be read.
    unreadable: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def left(self, key: TopicPartition) -> FolderLeft:
        """Tell what is known of a partition before looking at it."""
        recovery_point = self.offsets.get(checkpoints.RECOVERY_POINTS, {}).get(key, 0)
        high_watermark = self.offsets.get(checkpoints.HIGH_WATERMARKS, {}).get(key, 0)
        cleaned = self.offsets.get(checkpoints.CLEANER_OFFSETS, {})
        compacted = key in cleaned or key.topic in COMPACTED_TOPICS
        known_end = min(recovery_point, high_watermark)
        return FolderLeft(
            self.clean,
            recovery_point,
            known_end,
            compacted,
            is_compacted_known=checkpoints.CLEANER_OFFSETS in self.offsets,
            log_start_offset=self.offsets.get(checkpoints.LOG_START_OFFSETS, {}).get(key),
        )


def view_directory(disk: Disk, path: str) -> DirectoryView:
    """Read what speaks of all partitions."""
    view = DirectoryView(path, clean=disk.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}"))
    for name in disk.list(path):
        key = parse_folder(name)
        if key is not None and disk.is_dir(f"{path}/{name}"):
            view.partitions.append(key)
    for name in CHECKPOINTS:
        try:
            offsets = checkpoints.decode(disk.read_file(f"{path}/{name}"))
            view.offsets[name] = dict(offsets)
        except FileNotFoundError:
            continue
        except ValueError as problem:
            view.unreadable.append(name)
            view.findings.append(Finding(DAMAGE, f"{path}/{name}", str(problem)))
    _check_identity(disk, view)
    return view


def _check_identity(disk: Disk, view: DirectoryView) -> None:
    path = f"{view.path}/{meta_properties.FILE_NAME}"
    try:
        meta_properties.decode(disk.read_file(path))
    except FileNotFoundError:
        view.findings.append(Finding(NOTE, path, "it is missing; the next start writes it"))
    except ValueError as problem:
        view.findings.append(Finding(DAMAGE, path, str(problem)))


def log_bytes(disk: Disk, directory: str) -> int:
    """Return how many bytes the log files of a partition have: what looking at it takes."""
    return sum(
        disk.open(f"{directory}/{file_name(base, LOG)}").size()
        for base in segment_bases(disk.list(directory))
    )


def lying_checkpoints(
    view: DirectoryView, ends: Mapping[TopicPartition, int]
) -> list[tuple[str, TopicPartition, Finding]]:
    """Find what the checkpoints say beyond the end of a log: (file, partition, finding)."""
    lies = []
    for name, offsets in view.offsets.items():
        for key, offset in offsets.items():
            end = ends.get(key)
            if end is not None and not 0 <= offset <= end:
                # A crash may take the unsynced end of a log, and with it what these files counted on. But what the
                # recovery point says was synced.
                severity = DAMAGE if view.clean or name == checkpoints.RECOVERY_POINTS else NOTE
                reason = f"it says {offset} for {key}, whose log ends at {end}"
                lies.append((name, key, Finding(severity, f"{view.path}/{name}", reason)))
    return lies


def mixed_topics(
    view: DirectoryView, ids: Mapping[TopicPartition, TopicId | None]
) -> list[Finding]:
    """Find topics whose partitions do not agree on the topic's id."""
    first: dict[str, TopicId] = {}
    findings = []
    for key, topic_id in ids.items():
        if topic_id is None or key.topic == METADATA_TOPIC:
            continue
        known = first.setdefault(key.topic, topic_id)
        if known != topic_id:
            reason = (
                f"topic id {topic_id_text(topic_id)}, other partitions have {topic_id_text(known)}"
            )
            path = f"{view.path}/{key}/partition.metadata"
            findings.append(Finding(DAMAGE, path, reason))
    return findings


def is_partition_folder(disk: Disk, path: str) -> bool:
    """Tell whether this is the folder of one partition, and no directory of many."""
    return bool(segment_bases(disk.list(path)))
