"""Removing files that are out of use, some time after they were put aside.

Readers that found them before may still be sending them: `file.delete.delay.ms` is their time. What a stop or a crash
leaves is removed at the next start, by its name.

By then the folder of a log may be another one, and its old path that of a topic which was made again. So files are removed where their log is,
and not at all if it is hosted no more: its folder goes as a whole.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica
    from barnabas.ports import World

log = logging.getLogger(__name__)


def remove_files_later(node: Node, replica: Replica, paths: Sequence[str]) -> None:
    """Remove files of a log in the background once file.delete.delay.ms is over."""
    if not paths:
        return
    world = node.world
    names = [path.rpartition("/")[2] for path in paths]

    def due() -> None:
        if replica.offline:
            return
        here = [f"{replica.log.directory}/{name}" for name in names]
        removing = partial(world.background.run, partial(_remove, world.disk.remove, here))
        node.claims.share(replica, removing)(partial(_on_removed, len(here)))

    world.timers.call_at(world.clock.monotonic_ms() + replica.config.file_delete_delay_ms, due)


def remove_folders_later(world: World, paths: Sequence[str], delay_ms: int) -> None:
    """Remove folders with all that is in them in the background once the delay is over."""
    if not paths:
        return
    job = partial(_remove, world.disk.remove_tree, paths)
    done = partial(_on_removed, len(paths))
    world.timers.call_at(
        world.clock.monotonic_ms() + delay_ms, lambda: world.background.run(job, done)
    )


def _remove(remove: Callable[[str], None], paths: Sequence[str]) -> None:
    """Remove them all. Blocks. The first error is raised when the others have been tried."""
    problems = []
    for path in paths:
        try:
            remove(path)
        except OSError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def _on_removed(count: int, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
    if problem is not None:
        log.error("not all of %d files or folders could be removed: %s", count, problem)
