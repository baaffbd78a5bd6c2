"""Making a damaged log directory whole again without throwing anything away.

Job: from what `verify` found to a plan, step by step, and each step's work. Must not know who asks, nor hold the directory's
lock: the caller does.

| what is damaged                | what becomes of it                                                                  |
|--------------------------------|-------------------------------------------------------------------------------------|
| bytes within a log             | moved to quarantine; an empty batch takes their place, so that every offset keeps   |
|                                | its meaning, readers go on behind it, and no start takes it for the log's end       |
| records that are not there     | an empty batch in their place, for the same reason                                  |
| the end of a log               | moved to quarantine, cut off                                                        |
| an index                       | built again from the log                                                            |
| leader epochs, topic id        | the file to quarantine, written again from the log and the other partitions         |
| the leader epoch in a batch    | written again in place, where the file of epochs is known by its sum                |
| a producer snapshot            | to quarantine: the next start builds the state from an older one                    |
| checkpoints beyond a log's end | those lines dropped: the next start looks for itself                                |
| checkpoints that are no text   | set aside under another name                                                        |

Invariants: a crash at any moment leaves files that verify and repair take up again; bytes are in quarantine, synced, before
they leave their place. A new file is complete before it is renamed into place.

Quarantine is a folder within the partition's: Apache Kafka refuses to start beside a folder that is no partition's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.core.epochs import EpochEntry
from barnabas.storage import checkpoints, checksums, epoch_file, partition_metadata
from barnabas.storage.directory import CLEAN_SHUTDOWN_FILE
from barnabas.storage.epoch_spans import EpochSpans
from barnabas.storage.filler import fill
from barnabas.storage.names import LEADER_EPOCHS, LOG, TXN_INDEX, file_name
from barnabas.storage.rebuild import (
    TEMPORARY,
    copy_range,
    put_in_place,
    save_copy,
    write_indexes,
)
from barnabas.storage.transaction_index import encode_index
from barnabas.wire.batch import HEADER_SIZE, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.model.ids import TopicId, TopicPartition
    from barnabas.ports import Disk, File
    from barnabas.storage.segment_check import Hole, SegmentReport, WrongEpoch
    from barnabas.storage.transaction_index import AbortedTransaction
    from barnabas.storage.verify import PartitionReport
    from barnabas.storage.verify_directory import DirectoryView

#: Behind the name of a file that is kept and no longer counts.
DAMAGED: Final = ".damaged"
#: Relative offsets have four bytes: an empty batch cannot reach further from its segment's base.
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class Step(Protocol):
    """One thing to do."""

    def describe(self) -> str:
        """Say it in one line."""

    def run(self, disk: Disk) -> None:
        """Do it. After a crash on the way it can be planned and done again."""


@dataclass(slots=True, frozen=True)
class DropCleanMark:
    """Make the next start look at the ends of logs, and begin new leader epochs."""

    path: str

    def describe(self) -> str:
        """Say it."""
        return f"{self.path}: remove the mark of a clean stop"

    def run(self, disk: Disk) -> None:
        """Remove it, durably."""
        disk.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        disk.sync_dir(self.path)


@dataclass(slots=True, frozen=True)
class RewriteSegment:
    """Write a log file without its damage, with the indexes that fit."""

    directory: str
    base_offset: int
    size_bytes: int
    holes: tuple[Hole, ...]
    epochs: tuple[EpochEntry, ...]

    def describe(self) -> str:
        """Say it."""
        moved = sum(hole.size for hole in self.holes)
        told = "; ".join(_becomes(hole) for hole in self.holes)
        return f"{self._path(LOG)}: move {moved} damaged bytes to quarantine; {told}"

    def run(self, disk: Disk) -> None:
        """Write the new files beside the old ones, save what is left out, put the new ones in place."""
        path = self._path(LOG)
        source = disk.open(path)
        disk.remove(path + TEMPORARY)
        target = disk.open(path + TEMPORARY, create=True)
        position = at = 0
        for hole in self.holes:
            at = copy_range(source, position, hole.position, target, at)
            if hole.size:
                name = f"{file_name(self.base_offset, LOG)}.{hole.position}-{hole.position + hole.size}"
                save_copy(disk, self.directory, name, source, (hole.position, hole.size))
            if hole.first_offset <= hole.last_offset <= self.base_offset + _MAX_RELATIVE_OFFSET:
                at = self._fill(target, at, hole)
            position = hole.position + hole.size
        copy_range(source, position, self.size_bytes, target, at)
        target.sync()
        write_indexes(disk, self.directory, self.base_offset, path + TEMPORARY)
        put_in_place(disk, self.directory, self.base_offset)

    def _fill(self, target: File, at: int, hole: Hole) -> int:
        """Write batches in the place of a hole; return the position after them."""
        epochs = EpochSpans(self.epochs or (EpochEntry(0, 0),))
        for _, batch in fill(hole.first_offset, hole.last_offset, epochs, hole.markers):
            target.write(at, (batch,))
            at += len(batch)
        return at

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"


@dataclass(slots=True, frozen=True)
class StampEpochs:
    """Write the leader epochs of good batches again, in their place: no checksum covers them."""

    directory: str
    base_offset: int
    wrong: tuple[WrongEpoch, ...]

    def describe(self) -> str:
        """Say it."""
        name = file_name(self.base_offset, LOG)
        return f"{self.directory}/{name}: write the leader epoch of {len(self.wrong)} batches again"

    def run(self, disk: Disk) -> None:
        """Write and sync; done again it changes nothing."""
        file = disk.open(f"{self.directory}/{file_name(self.base_offset, LOG)}")
        for one in self.wrong:
            header = memoryview(bytearray(file.read(one.position, HEADER_SIZE)))
            stamp(header, one.base_offset, one.epoch)
            file.write(one.position, (header,))
        file.sync()


@dataclass(slots=True, frozen=True)
class RebuildIndexes:
    """Build the offset and the time index of a segment from its log."""

    directory: str
    base_offset: int
    reason: str

    def describe(self) -> str:
        """Say it."""
        return f"{self.directory}/{file_name(self.base_offset, '')}: build the indexes again ({self.reason})"

    def run(self, disk: Disk) -> None:
        """Write them beside the old ones, then put them in place."""
        log = f"{self.directory}/{file_name(self.base_offset, LOG)}"
        write_indexes(disk, self.directory, self.base_offset, log)
        put_in_place(disk, self.directory, self.base_offset)


@dataclass(slots=True, frozen=True)
class ReplaceFile:
    """Write a small file again, or do without it; the old one goes to quarantine."""

    directory: str
    name: str
    content: bytes | None
    reason: str

    def describe(self) -> str:
        """Say it."""
        what = "write it again" if self.content else "move it to quarantine"
        return f"{self.directory}/{self.name}: {what} ({self.reason})"

    def run(self, disk: Disk) -> None:
        """Save the old one, then replace it. What was written down of such files no longer counts."""
        path = f"{self.directory}/{self.name}"
        disk.remove(f"{self.directory}/{checksums.FILE_NAME}")
        if disk.exists(path):
            file = disk.open(path)
            save_copy(disk, self.directory, self.name, file, (0, file.size()))
        if self.content:
            disk.write_file_atomically(path, self.content)
        else:
            disk.remove(path)
            disk.sync_dir(self.directory)


@dataclass(slots=True, frozen=True)
class SetAside:
    """Rename a file of the directory itself so that it no longer counts."""

    path: str

    def describe(self) -> str:
        """Say it."""
        return f"{self.path}: set it aside as {self.path}{DAMAGED} (it cannot be read)"

    def run(self, disk: Disk) -> None:
        """Rename it, durably."""
        disk.rename(self.path, self.path + DAMAGED)
        disk.sync_dir(self.path.rpartition("/")[0])


@dataclass(slots=True, frozen=True)
class DropCheckpoints:
    """Take lines out of a checkpoint file."""

    path: str
    name: str
    lies: tuple[TopicPartition, ...]
    kept: Mapping[TopicPartition, int]

    def describe(self) -> str:
        """Say it."""
        return f"{self.path}/{self.name}: drop the lines of {', '.join(map(str, self.lies))}"

    def run(self, disk: Disk) -> None:
        """Replace the file."""
        disk.write_file_atomically(f"{self.path}/{self.name}", checkpoints.encode(self.kept))


def _becomes(hole: Hole) -> str:
    if hole.last_offset < hole.first_offset:
        return f"the log ends at offset {hole.first_offset}"
    return f"offsets {hole.first_offset}-{hole.last_offset} stay empty"


# Planning


def plan_partition(report: PartitionReport, topic_id: TopicId | None) -> list[Step]:
    """Say what to do in one partition's folder; `topic_id` is what its topic's other partitions have."""
    steps: list[Step] = []
    for segment in report.segments:
        steps += _plan_segment(report, segment)
    for name in report.bad_snapshots:
        steps.append(ReplaceFile(report.directory, name, None, "it cannot be used"))
    if report.epochs_differ:
        content = epoch_file.encode(report.epochs)
        steps.append(
            ReplaceFile(report.directory, LEADER_EPOCHS, content, "it does not fit the log")
        )
    if report.bad_metadata:
        content = partition_metadata.encode(topic_id) if topic_id else b""
        name = partition_metadata.FILE_NAME
        steps.append(ReplaceFile(report.directory, name, content or None, "it cannot be read"))
    return steps


def _plan_segment(report: PartitionReport, segment: SegmentReport) -> list[Step]:
    steps: list[Step] = []
    problems = dict(segment.index_problems)
    aborted = problems.pop(TXN_INDEX, "")
    if segment.wrong_epochs:
        # First: what is written anew is copied from here.
        wrong = tuple(segment.wrong_epochs)
        steps.append(StampEpochs(report.directory, segment.base_offset, wrong))
    if segment.holes:
        steps.append(
            RewriteSegment(
                report.directory,
                segment.base_offset,
                segment.size_bytes,
                tuple(segment.holes),
                tuple(report.epochs),
            )
        )
    elif problems:
        reason = "; ".join(f"{suffix}: {problem}" for suffix, problem in problems.items())
        steps.append(RebuildIndexes(report.directory, segment.base_offset, reason))
    if aborted:
        steps.append(_replace_transactions(report.directory, segment, aborted))
    return steps


def _replace_transactions(directory: str, segment: SegmentReport, reason: str) -> Step:
    entries: Sequence[AbortedTransaction] = segment.aborted
    content = encode_index(entries) or None
    return ReplaceFile(directory, file_name(segment.base_offset, TXN_INDEX), content, reason)


def plan_directory(
    view: DirectoryView, reports: Mapping[TopicPartition, PartitionReport]
) -> list[Step]:
    """Say what to do in a whole directory, in the order in which it is safe."""
    topic_ids: dict[str, TopicId] = {}
    for key, report in reports.items():
        if report.topic_id is not None:
            topic_ids.setdefault(key.topic, report.topic_id)
    steps: list[Step] = []
    for key, report in reports.items():
        steps += plan_partition(report, topic_ids.get(key.topic))
    if view.clean and any(report.cuts_end for report in reports.values()):
        steps.insert(0, DropCleanMark(view.path))
    return steps + _plan_checkpoints(view, reports)


def _plan_checkpoints(
    view: DirectoryView, reports: Mapping[TopicPartition, PartitionReport]
) -> list[Step]:
    steps: list[Step] = [SetAside(f"{view.path}/{name}") for name in view.unreadable]
    for name, offsets in view.offsets.items():
        lies = tuple(
            key
            for key, offset in offsets.items()
            if key in reports and _is_lie(name, offset, reports[key])
        )
        if lies:
            kept = {key: offset for key, offset in offsets.items() if key not in lies}
            steps.append(DropCheckpoints(view.path, name, lies, kept))
    return steps


def _is_lie(name: str, offset: int, report: PartitionReport) -> bool:
    is_before = name == checkpoints.LOG_START_OFFSETS and offset < report.log_start_offset
    return is_before or not 0 <= offset <= report.repaired_end_offset
