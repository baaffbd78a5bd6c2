"""`barnabas log verify`: is everything in a data directory what it should be?

One job: the command around storage/verify*.py: which files, the bar, the findings as a table or JSON, the exit code (1 if
anything is damaged; notes do not count).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.failure import Failure
from barnabas.cli.offline import is_locked, output_option, progress
from barnabas.cli.output import counted, emit, table
from barnabas.runtime.read_only_disk import ReadOnlyDisk
from barnabas.storage.directory import parse_folder
from barnabas.storage.names import LOG, offset_of
from barnabas.storage.verify import (
    DAMAGE,
    Finding,
    PartitionReport,
    verify_partition,
    verify_segment,
)
from barnabas.storage.verify_directory import (
    DirectoryView,
    is_partition_folder,
    log_bytes,
    lying_checkpoints,
    mixed_topics,
    view_directory,
)

if TYPE_CHECKING:
    from barnabas.model.ids import TopicPartition

_HEADINGS = ("SEVERITY", "FILE", "OFFSETS", "REASON")


@dataclass(slots=True)
class Verification:
    """What was found in one directory, or in one of its partitions."""

    view: DirectoryView
    reports: dict[TopicPartition, PartitionReport] = field(default_factory=dict)
    findings: list[tuple[TopicPartition | None, Finding]] = field(default_factory=list)

    @property
    def damage_count(self) -> int:
        """How many findings are damage."""
        return sum(finding.severity == DAMAGE for _, finding in self.findings)


@click.command()
@click.argument("path", type=click.Path(exists=True))
@output_option()
def verify(path: str, output: str) -> int:
    """Check every batch, index and checkpoint of a data directory.

    PATH is a data directory (Barnabas's or Apache Kafka's), the folder of one partition, or one log file. Nothing is changed. The
    exit code is 1 if something is damaged; what a start puts right by itself is a note.
    """
    disk = ReadOnlyDisk()
    target = find_target(disk, path)
    if is_locked(target.directory):
        click.echo(
            f"note: a broker is running on {target.directory}: what it has not written yet may look damaged",
            err=True,
        )
    found = run(disk, target)
    if output == "table":
        _show(found)
    else:
        emit(as_json(found), output)
    return 1 if found.damage_count else 0


class Target(NamedTuple):
    """What is to be looked at: all of a directory, one partition, or one segment."""

    directory: str
    partition: TopicPartition | None = None
    base_offset: int | None = None


def find_target(disk: ReadOnlyDisk, path: str) -> Target:
    """Tell what a path means."""
    path = os.path.abspath(path)
    folder, name = os.path.split(path)
    if disk.is_dir(path):
        key = parse_folder(name)
        is_partition = key is not None and is_partition_folder(disk, path)
        return Target(folder, key) if is_partition else Target(path)
    key, base = parse_folder(os.path.basename(folder)), offset_of(name, LOG)
    if key is None or base is None:
        raise Failure(
            f"{path} is no log file in a partition's folder",
            "`barnabas log dump` shows other files",
        )
    return Target(os.path.dirname(folder), key, base)


def run(disk: ReadOnlyDisk, target: Target) -> Verification:
    """Look at what is meant, with a bar."""
    view = view_directory(disk, target.directory)
    found = Verification(view)
    keys = view.partitions if target.partition is None else [target.partition]
    total = sum(log_bytes(disk, f"{target.directory}/{key}") for key in keys)
    with progress(total, "checking") as advance:
        for key in keys:
            folder, left = f"{target.directory}/{key}", view.left(key)
            if target.base_offset is None:
                report = verify_partition(disk, folder, left, advance)
            else:
                report = verify_segment(disk, folder, target.base_offset, left, advance)
            found.reports[key] = report
            found.findings += [(key, finding) for finding in report.findings]
            disk.close()
    if target.partition is None:
        _look_at_all(found)
    return found


def _look_at_all(found: Verification) -> None:
    """Check what speaks of all partitions against them."""
    found.findings += [(None, finding) for finding in found.view.findings]
    ends = {key: report.repaired_end_offset for key, report in found.reports.items()}
    found.findings += [(key, finding) for _, key, finding in lying_checkpoints(found.view, ends)]
    ids = {key: report.topic_id for key, report in found.reports.items()}
    found.findings += [(None, finding) for finding in mixed_topics(found.view, ids)]


def offsets_text(finding: Finding) -> str | None:
    """`10-19`, `10` or `from 10`."""
    first, last = finding.first_offset, finding.last_offset
    if first is None or last is None:
        return None
    if last < first:
        return f"from {first}"
    return str(first) if first == last else f"{first}-{last}"


def _show(found: Verification) -> None:
    rows = [
        (
            finding.severity,
            os.path.relpath(finding.path, found.view.path),
            offsets_text(finding),
            finding.reason,
        )
        for _, finding in found.findings
    ]
    if rows:
        click.echo(table(_HEADINGS, rows))
    click.echo(summary(found), err=True)


def summary(found: Verification) -> str:
    """One line: how much was looked at, and how much is damaged."""
    reports = found.reports.values()
    looked = (
        f"{counted(len(reports), 'partition')}, "
        f"{counted(sum(len(report.segments) for report in reports), 'segment')}, "
        f"{counted(sum(report.record_count for report in reports), 'record')}, "
        f"{counted(sum(report.size_bytes for report in reports), 'byte')}"
    )
    damage = found.damage_count
    return f"{looked}: {counted(damage, 'damaged place') if damage else 'no damage'}"


def as_json(found: Verification) -> dict[str, Any]:
    """The stable keys of -o json."""
    return {
        "path": found.view.path,
        "clean_stop": found.view.clean,
        "damaged": found.damage_count > 0,
        "partitions": [_partition_json(key, report) for key, report in found.reports.items()],
        "findings": [_finding_json(key, finding) for key, finding in found.findings],
    }


def _partition_json(key: TopicPartition, report: PartitionReport) -> dict[str, Any]:
    return {
        "topic": key.topic,
        "partition": key.partition,
        "start_offset": report.log_start_offset,
        "end_offset": report.log_end_offset,
        "segments": len(report.segments),
        "records": report.record_count,
        "bytes": report.size_bytes,
    }


def _finding_json(key: TopicPartition | None, finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "topic": key.topic if key else None,
        "partition": key.partition if key else None,
        "file": finding.path,
        "first_offset": finding.first_offset,
        "last_offset": finding.last_offset
        if finding.last_offset is not None
        and finding.first_offset is not None
        and finding.last_offset >= finding.first_offset
        else None,
        "reason": finding.reason,
    }
