"""Writing down how far each log is synced and compacted, where it starts, and its high watermark.

The offsets are taken on the thread of decision, the files are written by a job on `Node.directory_jobs`: so what
is written never goes back, and no table is walked while it changes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import missing_logs
from barnabas.broker.disk_failures import is_passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.model.ids import TopicPartition
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)


def plan_write(node: Node, directory: LogDirectory) -> Callable[[], None]:
    """Take a directory's offsets now; the job that writes the files that changed."""
    hosted = [replica for replica in node.replicas if replica.directory is directory]
    missing = missing_logs.keys_in(node, directory)
    recovery_points = _found(directory.recovery_points, missing)
    log_start_offsets = _found(directory.log_start_offsets, missing)
    high_watermarks = _found(directory.high_watermarks, missing)
    for replica in hosted:
        recovery_points[replica.key] = replica.log.recovery_point
        log_start_offsets[replica.key] = replica.log.log_start_offset
        high_watermarks[replica.key] = replica.state.high_watermark
    cleaner_offsets = dict(directory.cleaner_offsets)

    def write() -> None:
        directory.write_checkpoints(recovery_points, log_start_offsets, high_watermarks)
        directory.write_cleaner_offsets(cleaner_offsets)

    return write


def _found(
    offsets: Mapping[TopicPartition, int], missing: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Keep what the last start found about logs that could not be opened since."""
    return {key: offsets[key] for key in missing if key in offsets}


def write(node: Node, directory: LogDirectory) -> Task[None]:
    """Write a directory's files, unless it is offline; an error that does not pass takes it offline.

    One that says that a file is gone, too: the files are made anew each time, so it is the directory that is not there.
    """
    if not directory.is_online:
        return
    try:
        yield partial(node.directory_jobs.run, plan_write(node, directory))
    except OSError as problem:
        if is_passing(problem):
            raise
        log.critical("cannot write the checkpoints of %s: %s", directory.path, problem)
        node.replicas.take_offline(directory, problem)


def write_all(node: Node, directories: Iterable[LogDirectory]) -> Task[None]:
    """Write the files of several directories: one that is full does not keep the others from it."""
    for directory in directories:
        try:
            yield from write(node, directory)
        except OSError as problem:
            log.error("cannot write the checkpoints of %s: %s", directory.path, problem)
