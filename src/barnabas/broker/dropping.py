"""Dropping the segments before logs' starts, in the order that survives a crash.

First the new starts are written down, then segments leave the logs, then their files are put aside, and after
file.delete.delay.ms they are removed. Who moves a start comes here: DeleteRecords and retention. Must not know why it moved.
"""

from __future__ import annotations

from errno import EIO
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import checkpointing
from barnabas.broker.file_removal import remove_files_later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.storage.directory import LogDirectory


def drop_before_starts(
    node: Node, directory: LogDirectory, replicas: Sequence[Replica]
) -> Task[None]:
    """Drop what lies before the starts of these logs in one directory.

    OSError if the starts could not be written down: then every segment is still there.
    """
    yield from checkpointing.write(node, directory)
    if not directory.is_online:
        raise OSError(EIO, "the log directory is offline", directory.path)
    for replica in replicas:
        paths = yield from _put_aside(node, directory, replica)
        remove_files_later(node, replica, paths)


def _put_aside(node: Node, directory: LogDirectory, replica: Replica) -> Task[list[str]]:
    """Take segments out of one log; the files to remove. What cannot be put aside goes when the log is opened next."""
    if replica.offline or replica.directory is not directory or node.stopping:
        return []
    try:
        job = replica.plan_drop()
        if job is None:
            return []
        putting_aside = partial(node.directory_jobs.run, job.run)
        paths: list[str] = yield node.claims.share(replica, putting_aside)
    except OSError as problem:
        replica.on_disk_error(problem, "drop segments")
        return []
    return paths
