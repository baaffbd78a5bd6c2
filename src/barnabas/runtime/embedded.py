"""The coordination store of a single node: znodes in SQLite, behind the same port as ZooKeeper.

Durable and atomic by SQLite's journal: after kill -9 or power loss a commit is there whole or not at all.
A thread of its own does the writing, so fsync never holds up the loop; commits that queue up while one
is being synced share the next sync.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

from barnabas.ports import CoordinationError, Create, Delete, Operation, SetData, ZNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.runtime.loop import Loop

_SCHEMA = """
create table if not exists znode (
  path text primary key,
  data blob not null,
  version integer not null
) without rowid
"""

Done = "Callable[[Any, BaseException | None], None]"


class EmbeddedStore:
    """A tree of znodes in one file."""

    def __init__(self, loop: Loop, path: str) -> None:
        """Open or create the file; OSError if that cannot be done."""
        self._loop = loop
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            self._db.execute(_SCHEMA)
        except sqlite3.Error as problem:
            raise OSError(f"cannot open the coordination store {path}: {problem}") from problem
        self._jobs: queue.SimpleQueue[tuple[Sequence[Operation], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, name="barnabas-coordination", daemon=True
        )
        self._thread.start()

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with every path at or below `path`. Reads here and now: start-up only."""
        below = path.rstrip("/") + "/"
        rows = self._db.execute(
            "select path, data, version from znode where path = ? or (path >= ? and path < ?)",
            (path, below, below[:-1] + "0"),  # "0" is the character after "/"
        )
        tree = {row[0]: ZNode(row[1], row[2]) for row in rows}
        self._loop.post(lambda: done(tree, None))

    def commit(
        self, operations: Sequence[Operation], done: Callable[[None, BaseException | None], None]
    ) -> None:
        """Do all or none, durably, in the order of the calls."""
        self._jobs.put((operations, done))

    def close(self) -> None:
        """Finish what is queued and close the file."""
        self._jobs.put(None)
        self._thread.join()
        self._db.close()

    def _work(self) -> None:
        going = True
        while going:
            jobs = [self._jobs.get()]
            while not self._jobs.empty():
                jobs.append(self._jobs.get())
            if None in jobs:
                going = False
            self._commit_together([job for job in jobs if job is not None])

    def _commit_together(self, jobs: list[tuple[Sequence[Operation], Any]]) -> None:
        """One transaction and one sync for all; each job in a savepoint, so one refusal harms no other."""
        outcomes: list[tuple[Any, BaseException | None]] = []
        try:
            self._db.execute("begin immediate")
            outcomes = [(done, self._try(operations)) for operations, done in jobs]
            self._db.execute("commit")
        except sqlite3.Error as problem:
            with contextlib.suppress(
                sqlite3.Error
            ):  # this thread must live, whatever the disk does
                if self._db.in_transaction:
                    self._db.execute("rollback")
            failure = OSError(f"the coordination store cannot be written: {problem}")
            outcomes = [(done, failure) for _, done in jobs]
        for done, error in outcomes:
            self._loop.post(lambda done=done, error=error: done(None, error))  # type: ignore[misc]

    def _try(self, operations: Sequence[Operation]) -> CoordinationError | None:
        self._db.execute("savepoint job")
        try:
            for operation in operations:
                _APPLY[type(operation)](self._db, operation)
        except CoordinationError as refusal:
            self._db.execute("rollback to job")
            return refusal
        finally:
            self._db.execute("release job")
        return None


def _create(db: sqlite3.Connection, operation: Create) -> None:
    try:
        db.execute("insert into znode values (?, ?, 0)", (operation.path, operation.data))
    except sqlite3.IntegrityError:
        raise CoordinationError("NODE_EXISTS", operation.path) from None


def _set(db: sqlite3.Connection, operation: SetData) -> None:
    _check(db, operation.path, operation.version)
    db.execute(
        "update znode set data = ?, version = version + 1 where path = ?",
        (operation.data, operation.path),
    )


def _delete(db: sqlite3.Connection, operation: Delete) -> None:
    _check(db, operation.path, operation.version)
    below = operation.path + "/"
    db.execute(
        "delete from znode where path = ? or (path >= ? and path < ?)",
        (operation.path, below, below[:-1] + "0"),
    )


def _check(db: sqlite3.Connection, path: str, version: int) -> None:
    row = db.execute("select version from znode where path = ?", (path,)).fetchone()
    if row is None:
        raise CoordinationError("NO_NODE", path)
    if version not in (-1, row[0]):
        raise CoordinationError("BAD_VERSION", path)


_APPLY: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
    Create: _create,
    SetData: _set,
    Delete: _delete,
}
