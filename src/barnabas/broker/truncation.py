"""Cutting the log of a follower where it has left its leader's, or letting it begin anew.

Job: keep others from exchanging its segments meanwhile, let the files follow in the background, and write the checkpoints in between: what
comes in place of the old records is not on the medium, though it lies below where the old recovery point and high watermark
may be, and a start after a crash trusts those. Must not know where to cut.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import checkpointing
from barnabas.broker.file_removal import remove_files_later
from barnabas.model.ids import Offset

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.storage.truncation import TruncationJob

#: How long to wait before a log that somebody else is exchanging is asked for again.
CLAIM_RETRY_MS: Final = 50


def truncate(node: Node, replica: Replica, offset: int) -> Task[None]:
    """Let the log end at or before `offset`. OSError or BatchError if that cannot be done."""
    yield from _claim(node, replica)
    try:
        if offset < replica.log.segments[0].base_offset:
            yield from _start_over(node, replica, offset)
            return
        job = replica.cut(offset, node.world.clock.now_ms())
        if job is not None:
            _forget_cleaned(replica)
            yield from checkpointing.write(node, replica.directory)
            yield from _finish(node, replica, job)
    finally:
        _give(node, replica)


def start_over(node: Node, replica: Replica, offset: int) -> Task[None]:
    """Drop everything and let the log begin at `offset`."""
    yield from _claim(node, replica)
    try:
        yield from _start_over(node, replica, offset)
    finally:
        _give(node, replica)


def _start_over(node: Node, replica: Replica, offset: int) -> Task[None]:
    replica.state.on_truncated(replica.log.log_start_offset)
    yield from checkpointing.write(node, replica.directory)
    yield from _finish(node, replica, replica.start_over(offset, node.world.clock.now_ms()))
    _forget_cleaned(replica)
    yield from checkpointing.write(node, replica.directory)


def _finish(node: Node, replica: Replica, job: TruncationJob) -> Task[None]:
    yield partial(node.world.background.run, job.run)
    paths = replica.finish_cut(job)
    remove_files_later(node.world, paths, replica.config.file_delete_delay_ms)


def _forget_cleaned(replica: Replica) -> None:
    """Let the cleaner know that what comes above the new end has not been compacted."""
    cleaned, end_offset = replica.directory.cleaner_offsets, replica.log.log_end_offset
    if cleaned.get(replica.key, 0) > end_offset:
        cleaned[replica.key] = Offset(end_offset)


def _claim(node: Node, replica: Replica) -> Task[None]:
    while not node.claims.take(replica.key):
        yield partial(node.pause, CLAIM_RETRY_MS)
    replica.is_cutting = True


def _give(node: Node, replica: Replica) -> None:
    replica.is_cutting = False
    node.claims.give(replica.key)
