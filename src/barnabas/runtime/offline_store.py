"""Reading and writing the coordination store of a node that does not run: for tools that make a data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.runtime.embedded import EmbeddedStore
from barnabas.runtime.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.ports import Operation, ZNode


def write_store(path: str, operations: Sequence[Operation]) -> None:
    """Commit to the store in this file, which is made if need be: all or nothing, durably."""
    _ask(path, lambda store, done: store.commit(operations, done))


def read_store(path: str, znode: str) -> ZNode | None:
    """Read what stands at one path of the store in this file, which is made if need be."""
    found: ZNode | None = _ask(path, lambda store, done: store.read(znode, done))
    return found


def _ask(path: str, ask: Callable[[EmbeddedStore, Callable[..., None]], None]) -> Any:  # noqa: ANN401
    answers: list[tuple[Any, BaseException | None]] = []
    loop = Loop()
    store = EmbeddedStore(loop, path)

    def done(answer: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        answers.append((answer, problem))
        loop.stop()

    try:
        ask(store, done)
        loop.run_forever()
    finally:
        store.close()
        loop.close()
    answer, problem = answers[0]
    if problem is not None:
        raise problem
    return answer
