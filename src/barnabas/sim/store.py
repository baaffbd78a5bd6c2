"""ZooKeeper's side of the simulation: one tree, its transactions, and the sessions that hold ephemeral paths.

Job: commits that happen whole or not at all; sessions that end when they were silent for too long; watchers told what
was touched. Must not know what the paths mean, or how a client takes a lost connection (`coordination.py`).
Invariants: numbers of transactions, sessions and sequential paths rise and never come again, unless it is put back to an older
state; a session that is over has no path and commits nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from barnabas.ports import (
    COMMIT_SIZE_MAX,
    Check,
    CoordinationError,
    Create,
    Delete,
    NotConnected,
    SetData,
    ZNode,
    operation_size,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.ports import Operation


class SimSession:
    """What the store knows of one client."""

    __slots__ = ("id", "is_over", "silence")

    def __init__(self, number: int) -> None:
        """Begin."""
        self.id = number
        self.is_over = False
        #: How often it fell silent: tells one silence from the next.
        self.silence = 0


class Client(Protocol):
    """A node's connection, as the store sees it."""

    def on_touched(self, paths: set[str]) -> None:
        """Hear where data or the list of children has changed."""

    def cut(self, *, at_once: bool) -> None:
        """Lose the connection; if not `at_once`, it takes a while until that is noticed."""

    def on_put_back(self) -> None:
        """Be refused by a store that has forgotten what was seen of it, until that is understood."""

    def mend(self) -> None:
        """Be able to connect again."""

    def lose_next_reply(self) -> None:
        """Lose the connection between the next commit and its answer."""


class SimStore:
    """The tree itself, and what can be done to those who use it."""

    def __init__(self) -> None:
        """Start empty."""
        self.tree: dict[str, ZNode] = {}
        #: Commits fail with OSError and do nothing, as those of an embedded store on a full disk do.
        self.out_of_order = False
        self.clients: dict[str, Client] = {}
        self._cut_off: set[str] = set()
        self._sessions: dict[str, SimSession] = {}
        self._transaction = 0
        self._sequences: dict[str, int] = {}
        self.was_put_back = False
        #: A copy of what there was once: what lasts, and the next number of sequential paths.
        self._copy: tuple[dict[str, ZNode], dict[str, int]] | None = None

    # What a run does to it

    def suspend(self, node: str, *, at_once: bool = True) -> None:
        """Cut a node off from the store until `resume`."""
        self._cut_off.add(node)
        self.clients[node].cut(at_once=at_once)

    def resume(self, node: str) -> None:
        """Let a node reach the store again."""
        self._cut_off.discard(node)
        self.clients[node].mend()

    def expire(self, node: str) -> None:
        """End a node's session at once, as if it had been silent for too long. It connects again."""
        session = self._sessions.get(node)
        if session is not None:
            self.end_session(session)
        self.clients[node].cut(at_once=True)

    def lose_next_reply(self, node: str) -> None:
        """Do a node's next commit, but lose the connection before it hears of it. It connects again."""
        self.clients[node].lose_next_reply()

    def copy(self) -> None:
        """Keep what there is for `put_back`: a copy of the data directory."""
        lasting = {path: node for path, node in self.tree.items() if not node.owner}
        self._copy = (lasting, dict(self._sequences))

    def put_back(self) -> None:
        """Forget everything since the copy was made; sessions with it, whose paths nobody renews.

        Transactions keep their numbers here: only clients need to know that they were forgotten.
        """
        if self._copy is None:
            return
        self.was_put_back = True
        for session in self._sessions.values():
            session.is_over = True
        touched = set(self.tree)
        self.tree, self._sequences = dict(self._copy[0]), dict(self._copy[1])
        for client in list(self.clients.values()):
            client.on_put_back()
        self._tell(touched | set(self.tree))

    # What its clients use

    def is_cut_off(self, node: str) -> bool:
        """Tell whether a node cannot reach the store."""
        return node in self._cut_off

    def open_session(self, node: str) -> SimSession:
        """Begin a session."""
        self._transaction += 1
        session = self._sessions[node] = SimSession(self._transaction)
        return session

    def end_session(self, session: SimSession) -> None:
        """Take away what a session held."""
        if session.is_over:
            return
        session.is_over = True
        held = {path for path, node in self.tree.items() if node.owner == session.id}
        for path in held:
            del self.tree[path]
        self._tell(held | {_parent(path) for path in held})

    def commit(
        self, operations: Sequence[Operation], session: SimSession
    ) -> tuple[list[str], Exception | None]:
        """Do all or none; return the paths, or say why not."""
        if self.out_of_order:
            return [], OSError("the coordination store cannot be written")
        if session.is_over:
            return [], NotConnected("the session has expired")
        if sum(map(operation_size, operations)) > COMMIT_SIZE_MAX:
            return [], CoordinationError("TOO_LARGE", operations[0].path)
        change = _Change(self, self._transaction + 1, session)
        try:
            paths = [change.apply(operation) for operation in operations]
        except CoordinationError as refusal:
            return [], refusal
        self.tree, self._sequences = change.tree, change.sequences
        self._transaction += 1
        self._tell(change.touched)
        return paths, None

    @property
    def sequences(self) -> dict[str, int]:
        """The next number of sequential paths, by parent."""
        return self._sequences

    def _tell(self, touched: set[str]) -> None:
        for client in list(self.clients.values()):
            client.on_touched(touched)


class _Change:
    """A commit in the making: a tree of its own until it is done."""

    def __init__(self, store: SimStore, transaction: int, session: SimSession) -> None:
        """Begin with what is there."""
        self.tree = dict(store.tree)
        self.sequences = dict(store.sequences)
        self.touched: set[str] = set()
        self._transaction = transaction
        self._session = session

    def apply(self, operation: Operation) -> str:
        """Do one operation; return its path."""
        if isinstance(operation, Create):
            return self._create(operation)
        path, found = operation.path, self.tree.get(operation.path)
        if found is None:
            raise CoordinationError("NO_NODE", path)
        if operation.version not in (-1, found.version):
            raise CoordinationError("BAD_VERSION", path)
        if isinstance(operation, SetData):
            self.tree[path] = replace(
                found, data=operation.data, version=found.version + 1, written=self._transaction
            )
            self.touched.add(path)
        elif isinstance(operation, Delete):
            self._delete(path)
        else:
            assert isinstance(operation, Check)
        return path

    def _create(self, operation: Create) -> str:
        path, parent = operation.path, _parent(operation.path)
        self._make_parents(path)
        if operation.sequential:
            number = self.sequences.get(parent, 0)
            self.sequences[parent] = number + 1
            path = f"{path}{number:010d}"
        if path in self.tree:
            raise CoordinationError("NODE_EXISTS", path)
        owner = self._session.id if operation.ephemeral else 0
        self.tree[path] = ZNode(operation.data, 0, self._transaction, owner, self._transaction)
        self.touched.update((path, parent))
        return path

    def _make_parents(self, path: str) -> None:
        parent = _parent(path)
        found = self.tree.get(parent)
        if found is None:
            if parent != "/":
                self._make_parents(parent)
            self.tree[parent] = ZNode(b"", 0, self._transaction, written=self._transaction)
            self.touched.update((parent, _parent(parent)))
        elif found.owner:
            raise CoordinationError("NO_CHILDREN_FOR_EPHEMERALS", path)

    def _delete(self, path: str) -> None:
        for known in [known for known in self.tree if is_below(known, path)]:
            del self.tree[known]
            self.sequences.pop(known, None)
            self.touched.add(known)
        self.touched.add(_parent(path))


def is_below(path: str, root: str) -> bool:
    """Tell whether a path is `root` or below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
