"""Taking a node down in order, so that the next start need not scan.

The server has stopped listening and every request has been answered. A directory is marked clean only if
all its logs were opened, synced and closed and their offsets written down.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import checkpointing, missing_logs
from barnabas.broker.tasks import together
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task
    from barnabas.storage.directory import LogDirectory

log = logging.getLogger(__name__)


def release_waiting(node: Node) -> None:
    """Answer the requests that wait with what there is; new ones no longer wait."""
    node.stopping = True
    node.coordinators.stop()
    node.transactions.stop()
    for replica in node.replicas:
        replica.wake_readers()
        replica.commitment.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def stop(node: Node) -> Task[None]:
    """Sync and close every log, write the checkpoints, mark the directories clean."""
    yield node.moves.stop
    yield node.repairs.stop
    yield node.upkeep.compaction.stop
    yield node.claims.stop  # a log that is being cut could not be closed
    replicas = list(node.replicas)
    flushing = [replica.flush for replica in replicas if replica.is_flushing]
    if flushing:
        yield together(flushing)
    dirty: list[LogDirectory] = []
    if replicas:
        jobs = [
            partial(node.world.background.run, partial(_close, replica)) for replica in replicas
        ]
        errors = yield together(jobs)
        for replica, error in zip(replicas, errors, strict=True):
            if error is not None:
                log.error("%s: not closed cleanly: %s", replica.key, error)
            if error is not None or replica.offline:
                dirty.append(replica.directory)
    yield partial(node.directory_jobs.run, partial(_leave, node, dirty))


def _close(replica: Replica) -> None:
    """Sync and close one log. Blocks; several run side by side, so that their syncs share the disk's work."""
    replica.log.close(clean=not replica.offline)


def _leave(node: Node, dirty: list[LogDirectory]) -> None:
    for directory in node.directories:
        if not directory.is_online:
            continue
        try:
            checkpointing.plan_write(node, directory)()
            if directory not in dirty and not missing_logs.keys_in(node, directory):
                directory.mark_clean()
        except OSError as problem:
            log.error("%s: not marked clean: %s", directory.path, problem)
