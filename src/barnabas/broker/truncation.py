"""Cutting the log of a follower where it has left its leader's, or letting it begin anew.

Job: keep others from exchanging its segments meanwhile, let the files follow in the background, and have the recovery point on disk before
anything is appended: what comes in place of the old records lies below where the old point may be. Must not know where to cut.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker import checkpointing
from barnabas.broker.file_removal import remove_files_later

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.storage.truncation import TruncationJob

#: How long to wait before a log that somebody else is exchanging is asked for again.
CLAIM_RETRY_MS: Final = 50


def truncate(node: Node, replica: Replica, offset: int) -> Task[None]:
    """Let the log end at or before `offset`. OSError or BatchError if that cannot be done."""
    log, now_ms = replica.log, node.world.clock.now_ms()
    yield from _carry_out(node, replica, lambda: log.plan_truncation(offset, now_ms))


def start_over(node: Node, replica: Replica, offset: int) -> Task[None]:
    """Drop everything and let the log begin at `offset`."""
    log, now_ms = replica.log, node.world.clock.now_ms()
    yield from _carry_out(node, replica, lambda: log.plan_start_over(offset, now_ms))


def _carry_out(
    node: Node, replica: Replica, plan: Callable[[], TruncationJob | None]
) -> Task[None]:
    while not node.claims.take(replica.key):
        yield partial(node.pause, CLAIM_RETRY_MS)
    replica.is_cutting = True
    try:
        job = plan()
        if job is not None:
            yield partial(node.world.background.run, job.run)
            paths = replica.log.on_truncated(job)
            remove_files_later(node.world, paths, replica.config.file_delete_delay_ms)
            yield from checkpointing.write(node, replica.directory)
        replica.on_truncated()
    finally:
        replica.is_cutting = False
        node.claims.give(replica.key)
