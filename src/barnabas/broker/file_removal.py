"""Removing files that are out of use, some time after they were put aside.

Readers that found them before may still be sending them: `file.delete.delay.ms` is their time. What a stop or a crash
leaves is removed at the next start, by its name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.ports import World

log = logging.getLogger(__name__)


def remove_files_later(world: World, paths: Sequence[str], delay_ms: int) -> None:
    """Remove files in the background once the delay is over."""
    _remove_later(world, paths, delay_ms, world.disk.remove)


def remove_folders_later(world: World, paths: Sequence[str], delay_ms: int) -> None:
    """Remove folders with all that is in them in the background once the delay is over."""
    _remove_later(world, paths, delay_ms, world.disk.remove_tree)


def _remove_later(
    world: World, paths: Sequence[str], delay_ms: int, remove: Callable[[str], None]
) -> None:
    if not paths:
        return

    def job() -> None:
        problems = []
        for path in paths:
            try:
                remove(path)
            except OSError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def done(_result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        if problem is not None:
            log.error("not all of %d files or folders could be removed: %s", len(paths), problem)

    world.timers.call_at(
        world.clock.monotonic_ms() + delay_ms, lambda: world.background.run(job, done)
    )
