"""Reading a whole subtree from ZooKeeper, which knows single paths only.

Job: ask for a path, then for its children, many at once. Must not know what is read, or for what.
A path that goes while the walk is on its way is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.ports import ZNode
    from barnabas.runtime.zookeeper_reads import Found, Reads

    Done = Callable[[dict[str, ZNode], BaseException | None], None]


def walk(reads: Reads, path: str, done: Done) -> None:
    """Answer with every path at or below; with nothing but the error if there is one."""
    _Walk(reads, done).visit(path)


class _Walk:
    def __init__(self, reads: Reads, done: Done) -> None:
        self._reads = reads
        self._done = done
        self._found: dict[str, ZNode] = {}
        self._questions = 0
        self._problem: BaseException | None = None

    def visit(self, path: str) -> None:
        self._questions += 1
        self._reads.get(path, lambda found, error: self._on_node(path, found, error))

    def _on_node(self, path: str, found: Found | None, error: BaseException | None) -> None:
        if found is not None:
            self._found[path] = found.node
            if found.children_count:
                self._questions += 1
                self._reads.get_children(
                    path, lambda names, error: self._on_children(path, names, error)
                )
        self._on_answer(error)

    def _on_children(self, path: str, names: Any, error: BaseException | None) -> None:  # noqa: ANN401
        for name in names or ():
            self.visit(f"{path.rstrip('/')}/{name}")
        self._on_answer(error)

    def _on_answer(self, error: BaseException | None) -> None:
        self._questions -= 1
        self._problem = self._problem or error
        if not self._questions:
            self._done({} if self._problem else self._found, self._problem)
