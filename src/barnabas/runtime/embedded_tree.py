"""A tree of znodes in an SQLite database: what the operations of the Coordination port do to its rows.

Job: read paths, apply operations, remember what they touched. Must not know threads, who asks, or when a
transaction begins and ends: that is `embedded.py`'s. Invariants: every path has its parent, and `/` is there; the
numbers of transactions and of sequential paths never come again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from barnabas.ports import Check, CoordinationError, Create, Delete, SetData, ZNode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from barnabas.ports import Operation

#: Version 0 had the first three columns, no parents, and nothing else.
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = (
    "create table if not exists znode (path text primary key, data blob not null, version integer not null) without rowid",
    "alter table znode add column created integer not null default 0",
    "alter table znode add column owner integer not null default 0",
    "alter table znode add column next_sequence integer not null default 0",
    "create table last_transaction (number integer not null)",
    "insert into last_transaction values (0)",
    f"pragma user_version = {_SCHEMA_VERSION}",
)
_INSERT: Final = "insert into znode (path, data, version, created, owner) values (?, ?, 0, ?, ?)"


@dataclass(slots=True)
class Touched:
    """Paths that changed, for watches."""

    #: Where data or the list of children changed.
    paths: set[str] = field(default_factory=set)
    #: Where everything below went, too.
    removed: list[str] = field(default_factory=list)

    def concerns(self, path: str) -> bool:
        """Tell whether a watch on this path is to be called."""
        return path in self.paths or any(path.startswith(root + "/") for root in self.removed)


class EmbeddedTree:
    """The rows."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Bring the schema up to date, and begin a session: ephemeral paths of the one before are gone.

        Writes only if something is to be changed: a broker starts on a full disk, too.
        """
        self._db = db
        if db.execute("pragma user_version").fetchone()[0] < _SCHEMA_VERSION:
            self._make_schema()
        if db.execute("select 1 from znode where owner != 0 limit 1").fetchone():
            db.execute("delete from znode where owner != 0")
        row = db.execute("select number from last_transaction").fetchone()
        self._transaction: int = row[0] + 1
        self.session: Final = self._transaction
        self._touched = Touched()

    def read(self, path: str) -> ZNode | None:
        """Return what stands at the path."""
        row = self._db.execute(
            "select data, version, created, owner from znode where path = ?", (path,)
        ).fetchone()
        return None if row is None else ZNode(*row)

    def read_children(self, path: str) -> list[str] | None:
        """Return the names right below."""
        if self.read(path) is None:
            return None
        start = len(path.rstrip("/")) + 1
        names = (row[0][start:] for row in self._below(path, "path"))
        return [name for name in names if "/" not in name]

    def read_tree(self, path: str) -> dict[str, ZNode]:
        """Return every path at or below."""
        found = self.read(path)
        tree = {} if found is None else {path: found}
        for row in self._below(path, "path, data, version, created, owner"):
            tree[row[0]] = ZNode(*row[1:])
        return tree

    def apply(self, operations: Sequence[Operation]) -> list[str]:
        """Do them in order, as one transaction; return the paths. CoordinationError: the caller rolls back."""
        self._transaction += 1
        return [self._apply(operation) for operation in operations]

    def end_transactions(self) -> None:
        """Write down which transaction was the last, so that no number comes again."""
        self._db.execute("update last_transaction set number = ?", (self._transaction,))

    def take_touched(self) -> Touched:
        """Return what changed since the last call."""
        touched, self._touched = self._touched, Touched()
        return touched

    def _apply(self, operation: Operation) -> str:
        if isinstance(operation, Create):
            return self._create(operation)
        self._check(operation.path, operation.version)
        if isinstance(operation, SetData):
            self._db.execute(
                "update znode set data = ?, version = version + 1 where path = ?",
                (operation.data, operation.path),
            )
            self._touched.paths.add(operation.path)
        elif isinstance(operation, Delete):
            self._delete(operation.path)
        else:
            assert isinstance(operation, Check)
        return operation.path

    def _create(self, operation: Create) -> str:
        path, parent = operation.path, _parent(operation.path)
        self._make_parents(path)
        if operation.sequential:
            number = self._take_sequence(parent)
            path = f"{path}{number:010d}"
        if self.read(path) is not None:
            raise CoordinationError("NODE_EXISTS", path)
        owner = self.session if operation.ephemeral else 0
        self._db.execute(_INSERT, (path, operation.data, self._transaction, owner))
        self._touched.paths.update((path, parent))
        return path

    def _make_parents(self, path: str) -> None:
        parent = _parent(path)
        found = self.read(parent)
        if found is None:
            self._make_parents(parent)
            self._db.execute(_INSERT, (parent, b"", self._transaction, 0))
            self._touched.paths.update((parent, _parent(parent)))
        elif found.owner:
            raise CoordinationError("NO_CHILDREN_FOR_EPHEMERALS", path)

    def _take_sequence(self, parent: str) -> int:
        row = self._db.execute(
            "update znode set next_sequence = next_sequence + 1 where path = ? returning next_sequence",
            (parent,),
        ).fetchone()
        return int(row[0]) - 1

    def _delete(self, path: str) -> None:
        below = path + "/"
        self._db.execute(
            "delete from znode where path = ? or (path >= ? and path < ?)",
            (path, below, _after(below)),
        )
        self._touched.paths.update((path, _parent(path)))
        self._touched.removed.append(path)

    def _check(self, path: str, version: int) -> None:
        found = self.read(path)
        if found is None:
            raise CoordinationError("NO_NODE", path)
        if version not in (-1, found.version):
            raise CoordinationError("BAD_VERSION", path)

    def _below(self, path: str, columns: str) -> Iterator[Any]:
        below = path.rstrip("/") + "/"
        return self._db.execute(
            f"select {columns} from znode where path > ? and path < ? order by path",  # noqa: S608  (our own words)
            (below, _after(below)),
        )

    def _make_schema(self) -> None:
        self._db.execute("begin immediate")
        for statement in _SCHEMA:
            self._db.execute(statement)
        known = {row[0] for row in self._db.execute("select path from znode")}
        parents = {parent for path in known for parent in _ancestors(path)}
        for parent in sorted({"/"} | parents - known):
            self._db.execute(_INSERT, (parent, b"", 0, 0))
        self._db.execute("commit")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _ancestors(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(2, len(names))]


def _after(below: str) -> str:
    """Return the first text behind all that begin with `below`: "0" is the character after "/"."""
    return below[:-1] + "0"
