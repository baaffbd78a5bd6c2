"""What the tests of verify, repair and dump share: a directory on a simulated disk, and a look at all of it."""

from __future__ import annotations

from log_kit import DIRECTORY, config, open_log

from barnabas.model.ids import TopicPartition
from barnabas.storage import checkpoints, partition_metadata
from barnabas.storage.directory import CLEAN_SHUTDOWN_CONTENT, CLEAN_SHUTDOWN_FILE
from barnabas.storage.names import LOG, file_name
from barnabas.storage.verify import DAMAGE, NOTE, verify_partition
from barnabas.storage.verify_directory import lying_checkpoints, view_directory

ROOT = DIRECTORY.rpartition("/")[0]
KEY = TopicPartition("topic", 0)
TOPIC_ID = bytes(range(16))


def small_log(disk, **settings):
    settings.setdefault("segment_bytes", 600)
    settings.setdefault("index_interval_bytes", 100)
    return open_log(disk, config(**settings))


def close(disk, log, *, clean=True, **offsets):
    """Close a log and write what a broker writes beside it."""
    log.close(clean=True)
    disk.write_file_atomically(
        f"{DIRECTORY}/{partition_metadata.FILE_NAME}", partition_metadata.encode(TOPIC_ID)
    )
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        write_checkpoint(disk, name, offsets.get(name, log.log_end_offset))
    if clean:
        disk.write_file_atomically(f"{ROOT}/{CLEAN_SHUTDOWN_FILE}", CLEAN_SHUTDOWN_CONTENT)


def write_checkpoint(disk, name, offset):
    disk.write_file_atomically(f"{ROOT}/{name}", checkpoints.encode({KEY: offset}))


def look(disk):
    """Look at everything: the view, the one partition's report, all findings."""
    view = view_directory(disk, ROOT)
    report = verify_partition(disk, DIRECTORY, view.left(KEY), lambda _size: None)
    lies = lying_checkpoints(view, {KEY: report.repaired_end_offset})
    return view, report, [*view.findings, *report.findings, *(lie for _, _, lie in lies)]


def damage(disk):
    return [told(finding) for finding in look(disk)[2] if finding.severity == DAMAGE]


def notes(disk):
    missing = "meta.properties"
    found = [finding for finding in look(disk)[2] if finding.severity == NOTE]
    return [told(finding) for finding in found if not finding.path.endswith(missing)]


def told(finding):
    """File name and offsets; the reason is for people."""
    name = finding.path.rpartition("/")[2]
    offsets = (finding.first_offset, finding.last_offset)
    return (name, *offsets) if finding.first_offset is not None else (name,)


def log_path(base):
    return f"{DIRECTORY}/{file_name(base, LOG)}"


def overwrite(disk, path, position, data):
    disk.open(path).write(position, (data,))
