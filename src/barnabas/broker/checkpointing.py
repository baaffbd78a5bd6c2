"""Writing down how far each log is synced, where it starts, and its high watermark.

The offsets are taken on the thread of decision, the files are written by a job on `Node.directory_jobs`: so what
is written never goes back, and no table is walked while it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.storage.directory import LogDirectory


def plan_write(node: Node, directory: LogDirectory) -> Callable[[], None]:
    """Take a directory's offsets now; the job that writes the files that changed."""
    hosted = [replica for replica in node.replicas if replica.directory is directory]
    recovery_points = {replica.key: replica.log.recovery_point for replica in hosted}
    log_start_offsets = {replica.key: replica.log.log_start_offset for replica in hosted}
    high_watermarks = {replica.key: replica.state.high_watermark for replica in hosted}
    return lambda: directory.write_checkpoints(recovery_points, log_start_offsets, high_watermarks)


def plan_write_all(node: Node) -> Callable[[], None]:
    """Take every directory's offsets now; the job that writes them."""
    writes = [plan_write(node, directory) for directory in node.directories]

    def write() -> None:
        for write_one in writes:
            write_one()

    return write
