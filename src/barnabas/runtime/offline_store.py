"""Writing the coordination store of a node that does not run: for tools that make a data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.runtime.embedded import EmbeddedStore
from barnabas.runtime.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Operation


def write_store(path: str, operations: Sequence[Operation]) -> None:
    """Commit to the store in this file, which is made if need be: all or nothing, durably."""
    problems: list[BaseException] = []
    loop = Loop()
    store = EmbeddedStore(loop, path)

    def done(_paths: Sequence[str], problem: BaseException | None) -> None:
        if problem is not None:
            problems.append(problem)
        loop.stop()

    try:
        store.commit(operations, done)
        loop.run_forever()
    finally:
        store.close()
        loop.close()
    if problems:
        raise problems[0]
