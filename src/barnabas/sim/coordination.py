"""The Coordination port in memory: the shared memory of a cluster, which outlives the processes that use it.

Job: commits that happen whole or not at all, in order, durably. Must not know what the paths mean.
A commit takes effect at one moment and is answered at a later one. A crash between the two loses the answer; a
crash before the first leaves it to the seed how many of the commits under way still happen, in their order.
While the store is `out_of_order`, commits fail with OSError and do nothing, as those of an embedded store on
a full disk do.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from barnabas.ports import CoordinationError, Create, Delete, SetData, ZNode
from barnabas.sim.world import MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.ports import Operation
    from barnabas.sim.world import Life, Scheduler

Done: TypeAlias = "Callable[[None, BaseException | None], None]"


class SimStore:
    """The tree itself."""

    def __init__(self) -> None:
        """Start empty."""
        self.tree: dict[str, ZNode] = {}
        self.out_of_order = False

    def commit(self, operations: Sequence[Operation]) -> Exception | None:
        """Do all or none; say why not."""
        if self.out_of_order:
            return OSError("the coordination store cannot be written")
        tree = dict(self.tree)
        try:
            for operation in operations:
                _apply(tree, operation)
        except CoordinationError as refusal:
            return refusal
        self.tree = tree
        return None


def _apply(tree: dict[str, ZNode], operation: Operation) -> None:
    path, found = operation.path, tree.get(operation.path)
    if isinstance(operation, Create):
        if found is not None:
            raise CoordinationError("NODE_EXISTS", path)
        tree[path] = ZNode(operation.data, 0)
        return
    if found is None:
        raise CoordinationError("NO_NODE", path)
    if operation.version not in (-1, found.version):
        raise CoordinationError("BAD_VERSION", path)
    if isinstance(operation, SetData):
        tree[path] = ZNode(operation.data, found.version + 1)
        return
    assert isinstance(operation, Delete)
    for below in [known for known in tree if known == path or known.startswith(path + "/")]:
        del tree[below]


class SimCoordination:
    """The port, as one life of a node has it."""

    def __init__(
        self,
        scheduler: Scheduler,
        store: SimStore,
        life: Life,
        enter: Callable[[Callable[[], None]], None],
    ) -> None:
        """Answers go through `enter`."""
        self._scheduler = scheduler
        self._store = store
        self._life = life
        self._enter = enter
        self._chance = scheduler.chance(f"coordination/{life.number}")
        self._under_way: deque[tuple[Sequence[Operation], Done]] = deque()
        self._answered_until_us = 0

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with every path at or below `path`."""
        below = path.rstrip("/") + "/"

        def answer() -> None:
            tree = {
                known: node
                for known, node in sorted(self._store.tree.items())
                if known == path or known.startswith(below)
            }
            self._deliver(lambda: done(tree, None))

        self._scheduler.after(self._delay_us(), "tree read", answer)

    def commit(self, operations: Sequence[Operation], done: Done) -> None:
        """Take the commit in; it happens in turn."""
        if self._life.is_over:
            self._scheduler.keep(done)
            return
        self._under_way.append((operations, done))
        if len(self._under_way) == 1:
            self._scheduler.after(self._delay_us(), "commit", self._commit_next)

    def on_crash(self) -> None:
        """Let some of the commits under way happen; nobody hears of it."""
        for _ in range(self._chance.randint(0, len(self._under_way))):
            operations, done = self._under_way.popleft()
            self._store.commit(operations)
            self._scheduler.note(f"commit of {len(operations)} operations after the crash")
            self._scheduler.keep(done)
        self._scheduler.keep(self._under_way)

    def _commit_next(self) -> None:
        if self._life.is_over:
            return
        operations, done = self._under_way.popleft()
        problem = self._store.commit(operations)
        now_us = self._scheduler.now_us
        self._answered_until_us = max(self._answered_until_us, now_us + self._delay_us())
        self._scheduler.after(
            self._answered_until_us - now_us,
            "commit done",
            lambda: self._deliver(lambda: done(None, problem)),
        )
        if self._under_way:
            self._scheduler.after(self._delay_us(), "commit", self._commit_next)

    def _deliver(self, call: Callable[[], None]) -> None:
        if self._life.is_over:
            self._scheduler.keep(call)
        else:
            self._enter(call)

    def _delay_us(self) -> int:
        return self._chance.randint(20, 2 * MS)
