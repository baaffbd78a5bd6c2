"""The coordination store of a single node: znodes in SQLite, behind the same port as ZooKeeper.

Durable and atomic by SQLite's journal: after kill -9 or power loss a commit is there whole or not at all.
A thread of its own does the work, so fsync never holds up the loop; commits that queue up while one
is being synced share the next sync. There is one session, as long as the process lives, and it never expires.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import threading
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.edge import call_all
from barnabas.ports import CoordinationError
from barnabas.runtime.embedded_tree import EmbeddedTree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.ports import Operation, SessionListener, ZNode
    from barnabas.runtime.embedded_tree import Touched
    from barnabas.runtime.loop import Loop


def _create_private(path: str) -> None:
    """Make the file if there is none, for its owner alone: passwords are in it. Those that SQLite puts beside it become the same."""
    with contextlib.suppress(OSError):  # it is there; or SQLite tells why it cannot be
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


class _Commit(NamedTuple):
    operations: Sequence[Operation]
    done: Callable[[Sequence[str], BaseException | None], None]


class _Read(NamedTuple):
    look: Callable[[], Any]
    #: The answer when looking fails.
    nothing: Any
    done: Callable[[Any, BaseException | None], None]


class EmbeddedWatch:
    """An interest in a path."""

    def __init__(
        self, watches: dict[EmbeddedWatch, None], path: str, changed: Callable[[], None]
    ) -> None:
        """Stand among these watches until it is cancelled."""
        self._watches = watches
        self._changed = changed
        self.path = path
        watches[self] = None

    def cancel(self) -> None:
        """Do not call any more."""
        self._watches.pop(self, None)

    def call(self) -> None:
        """Call, unless another call has cancelled it."""
        if self in self._watches:
            self._changed()


class EmbeddedStore:
    """A tree of znodes in one file."""

    def __init__(self, loop: Loop, path: str) -> None:
        """Open or create the file; OSError if that cannot be done."""
        self._loop = loop
        _create_private(path)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            self._tree = EmbeddedTree(self._db)
        except sqlite3.Error as problem:
            raise OSError(f"cannot open the coordination store {path}: {problem}") from problem
        self._watches: dict[EmbeddedWatch, None] = {}
        self._jobs: queue.SimpleQueue[_Commit | _Read | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, name="barnabas-coordination", daemon=True
        )
        self._thread.start()

    def read_tree(
        self, path: str, done: Callable[[Mapping[str, ZNode], BaseException | None], None]
    ) -> None:
        """Answer with every path at or below `path`."""
        self._jobs.put(_Read(lambda: self._tree.read_tree(path), {}, done))

    def read(self, path: str, done: Callable[[ZNode | None, BaseException | None], None]) -> None:
        """Answer with what stands at `path`."""
        self._jobs.put(_Read(lambda: self._tree.read(path), None, done))

    def read_children(
        self, path: str, done: Callable[[Sequence[str] | None, BaseException | None], None]
    ) -> None:
        """Answer with the names right below `path`."""
        self._jobs.put(_Read(lambda: self._tree.read_children(path), None, done))

    def commit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Sequence[str], BaseException | None], None],
    ) -> None:
        """Do all or none, durably, in the order of the calls."""
        self._jobs.put(_Commit(operations, done))

    def watch(self, path: str, changed: Callable[[], None]) -> EmbeddedWatch:
        """Call `changed` after commits that touch the path or the list of its children."""
        return EmbeddedWatch(self._watches, path, changed)

    def on_session(self, listener: SessionListener) -> None:
        """Tell the listener of the only session there is."""
        self._loop.post(lambda: listener.on_connected(self._tree.session, is_new=True))

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
            for kind, group in groupby((job for job in jobs if job is not None), type):
                together: list[Any] = list(group)
                if kind is _Commit:
                    self._commit_together(together)
                else:
                    for job in together:
                        self._look(job)

    def _look(self, job: _Read) -> None:
        result = job.nothing
        error: BaseException | None = None
        try:
            result = job.look()
        except sqlite3.Error as problem:
            error = OSError(f"the coordination store cannot be read: {problem}")
        except Exception as fault:  # noqa: BLE001  (an edge: who asks gets it, and this thread lives)
            error = fault
        self._loop.post(lambda: job.done(result, error))

    def _commit_together(self, jobs: list[_Commit]) -> None:
        """One transaction and one sync for all; each job in a savepoint, so one refusal harms no other."""
        outcomes: list[tuple[Sequence[str], BaseException | None]] = []
        try:
            self._db.execute("begin immediate")
            outcomes = [self._try(job.operations) for job in jobs]
            self._tree.end_transactions()
            self._db.execute("commit")
        except Exception as problem:  # noqa: BLE001  (an edge: this thread must live, whatever the disk does)
            with contextlib.suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("rollback")
            failure = OSError(f"the coordination store cannot be written: {problem}")
            failure.__cause__ = problem
            outcomes = [((), failure) for _ in jobs]
        for job, (paths, error) in zip(jobs, outcomes, strict=True):
            self._loop.post(lambda done=job.done, p=paths, e=error: done(p, e))  # type: ignore[misc]
        touched = self._tree.take_touched()
        if self._watches:  # one that is added from now on was added after the commit
            self._loop.post(lambda: self._tell(touched))

    def _try(self, operations: Sequence[Operation]) -> tuple[Sequence[str], BaseException | None]:
        self._db.execute("savepoint job")
        try:
            return self._tree.apply(operations), None
        except CoordinationError as refusal:
            self._db.execute("rollback to job")
            return (), refusal
        finally:
            self._db.execute("release job")

    def _tell(self, touched: Touched) -> None:
        call_all([watch.call for watch in self._watches if touched.concerns(watch.path)])
