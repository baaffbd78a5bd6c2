"""Taking a node down in order, so that the next start need not scan.

The server has stopped listening and every request has been answered. A directory is marked clean only if
all its logs were opened, synced and closed and their offsets written down.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.broker import checkpointing, missing_logs

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)


def release_waiting(node: Node) -> None:
    """Answer the requests that wait with what there is; new ones no longer wait."""
    node.stopping = True
    for replica in node.replicas:
        node.replicas.waiting.on_change(replica.key)


def stop(node: Node) -> Task[None]:
    """Sync and close every log, write the checkpoints, mark the directories clean."""
    for replica in node.replicas:
        if not replica.offline and replica.needs_flush:
            try:
                yield replica.flush
            except OSError as problem:
                log.error("%s: not synced: %s", replica.key, problem)
    yield lambda done: node.directory_jobs.run(lambda: _close_all(node), done)


def _close_all(node: Node) -> None:
    dirty = [replica.directory for replica in node.replicas if not _closed(replica)]
    for directory in node.directories:
        try:
            checkpointing.plan_write(node, directory)()
            if directory not in dirty and not missing_logs.keys_in(node, directory):
                directory.mark_clean()
        except OSError as problem:
            log.error("%s: not marked clean: %s", directory.path, problem)


def _closed(replica: Replica) -> bool:
    try:
        replica.log.close(clean=not replica.offline)
    except OSError as problem:
        log.error("%s: not closed cleanly: %s", replica.key, problem)
        return False
    return not replica.offline
