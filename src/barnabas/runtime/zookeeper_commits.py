"""Commits on their way to ZooKeeper: in order, each whole or not at all.

Job: turn the port's operations into ZooKeeper's transactions, which know neither missing parents nor subtrees. Must
not know what the paths mean. Paths here are ZooKeeper's own, with the root of the cluster before them.
Invariants: a commit that makes or deletes paths goes alone, because it may take several tries; others follow one
another without waiting for answers, as ZooKeeper keeps their order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)

from barnabas.broker.tasks import Task, drive, together
from barnabas.ports import (
    COMMIT_SIZE_MAX,
    Check,
    CoordinationError,
    Create,
    Delete,
    Operation,
    SetData,
    operation_size,
)
from barnabas.runtime.zookeeper_walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kazoo.client import KazooClient

    from barnabas.runtime.zookeeper_reads import Reads
    from barnabas.runtime.zookeeper_session import ZooKeeperSession

    Done = Callable[[Sequence[str], BaseException | None], None]

#: Commits under way that need nothing looked up.
IN_FLIGHT_MAX: Final = 64
#: Paths that one transaction deletes.
DELETES_MAX: Final = 2_000
#: How often others may come in between before a commit fails.
TRIES_MAX: Final = 20
_KINDS: Final[dict[type[Exception], str]] = {
    NodeExistsError: "NODE_EXISTS",
    NoNodeError: "NO_NODE",
    BadVersionError: "BAD_VERSION",
    NotEmptyError: "NOT_EMPTY",
    NoChildrenForEphemeralsError: "NO_CHILDREN_FOR_EPHEMERALS",
}


@dataclass(slots=True)
class _Commit:
    operations: Sequence[Operation]
    done: Done

    @property
    def goes_alone(self) -> bool:
        return any(isinstance(operation, Create | Delete) for operation in self.operations)


class _Step(NamedTuple):
    operation: Operation
    #: Not asked for, but needed: a parent to be made, a child to be deleted.
    is_helper: bool


class _NotSent(Exception):
    """The connection went before anything was sent."""


class CommitQueue:
    """What waits, and what is under way."""

    def __init__(self, session: ZooKeeperSession, reads: Reads) -> None:
        """Start empty."""
        self._session = session
        self._reads = reads
        self._waiting: deque[_Commit] = deque()
        self._in_flight = 0
        self._is_alone = False

    def commit(self, operations: Sequence[Operation], done: Done) -> None:
        """Take a commit in."""
        self._waiting.append(_Commit(operations, done))
        self.go_on()

    def go_on(self) -> None:
        """Send what may go now."""
        while self._waiting and self._session.is_connected and not self._is_alone:
            alone = self._waiting[0].goes_alone
            if self._in_flight >= (1 if alone else IN_FLIGHT_MAX):
                return
            commit = self._waiting.popleft()
            self._in_flight += 1
            self._is_alone = alone
            task = self._commit_alone if alone else self._commit_plainly
            drive(task(commit.operations), partial(self._on_done, commit))

    def take_waiting(self) -> list[Done]:
        """Give up what was not sent yet; return who is to be told."""
        waiting, self._waiting = self._waiting, deque()
        return [commit.done for commit in waiting]

    def _on_done(
        self, commit: _Commit, paths: list[str] | None, problem: BaseException | None
    ) -> None:
        self._in_flight -= 1
        self._is_alone = False
        try:
            if isinstance(problem, _NotSent):
                self._waiting.appendleft(commit)
            elif isinstance(problem, ZookeeperError):  # refused as a whole
                path = commit.operations[0].path
                commit.done((), CoordinationError(type(problem).__name__, path))
            else:
                commit.done(paths or (), problem)
        finally:
            self.go_on()

    def _commit_plainly(self, operations: Sequence[Operation]) -> Task[list[str]]:
        steps = [_Step(operation, False) for operation in operations]
        results = yield partial(self._transact, steps)
        refused = _refusal(steps, results)
        if refused is not None:
            raise _error(*refused)
        return [operation.path for operation in operations]

    def _commit_alone(self, operations: Sequence[Operation]) -> Task[list[str]]:
        """Try, and look for parents that are missing or children that are in the way, until it is done or refused."""
        parents: set[str] = set()
        for _ in range(TRIES_MAX):
            below = yield from self._list_below(operations)
            steps = list(_with_helpers(operations, parents, below))
            results = yield partial(self._transact, steps)
            refused = _refusal(steps, results)
            if refused is None:
                return _paths(steps, results)
            step, error = refused
            is_orphan = isinstance(step.operation, Create) and isinstance(error, NoNodeError)
            if not (step.is_helper or is_orphan or isinstance(error, NotEmptyError)):
                break
            if isinstance(error, NoChildrenForEphemeralsError):
                break
            parents = yield from self._missing_parents(operations)
        raise _error(step, error)

    def _list_below(self, operations: Sequence[Operation]) -> Task[dict[str, list[str]]]:
        """Return what lies below the paths to be deleted, children before parents, as far as one transaction goes."""
        below: dict[str, list[str]] = {}
        for operation in operations:
            if isinstance(operation, Delete):
                found = yield partial(walk, self._reads, operation.path)
                below[operation.path] = sorted(found.keys() - {operation.path}, reverse=True)
        while sum(map(len, below.values())) > DELETES_MAX:
            largest = max(below.values(), key=len)
            yield from self._delete_ahead(operations, largest[:DELETES_MAX])
            del largest[:DELETES_MAX]
        return below

    def _delete_ahead(self, operations: Sequence[Operation], paths: Sequence[str]) -> Task[None]:
        """Delete part of a subtree, under the same checks as the whole. What went meanwhile is looked for again."""
        checks = [operation for operation in operations if isinstance(operation, Check)]
        steps = [_Step(check, False) for check in checks]
        steps += [_Step(Delete(path), True) for path in paths]
        results = yield partial(self._transact, steps)
        refused = _refusal(steps, results)
        if refused is not None and not refused[0].is_helper:
            raise _error(*refused)

    def _missing_parents(self, operations: Sequence[Operation]) -> Task[set[str]]:
        created = [operation for operation in operations if isinstance(operation, Create)]
        wanted = sorted({parent for one in created for parent in _ancestors(one.path)})
        missing: set[str] = set()
        if not wanted:
            return missing

        def look(path: str, done: Callable[[Any, BaseException | None], None]) -> None:
            def told(found: Any, error: BaseException | None) -> None:  # noqa: ANN401
                if found is None:
                    missing.add(path)
                done(None, error)

            self._reads.get(path, told)

        errors = yield together([partial(look, path) for path in wanted])
        for error in errors:
            if error is not None:
                raise error
        return missing

    def _transact(
        self, steps: Sequence[_Step], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        if not self._session.is_connected:  # lost while something was looked up
            done(None, _NotSent())
            return
        self._session.order(lambda client: _transaction(client, steps).commit_async(), done)


def check_size(operations: Sequence[Operation]) -> CoordinationError | None:
    """Refuse what ZooKeeper would close the connection for."""
    if sum(map(operation_size, operations)) <= COMMIT_SIZE_MAX:
        return None
    return CoordinationError("TOO_LARGE", operations[0].path)


def _transaction(client: KazooClient, steps: Sequence[_Step]) -> Any:  # noqa: ANN401
    transaction = client.transaction()
    for operation, _ in steps:
        path = operation.path
        if isinstance(operation, Create):
            transaction.create(
                path, operation.data, None, operation.ephemeral, operation.sequential
            )
        elif isinstance(operation, SetData):
            transaction.set_data(path, operation.data, operation.version)
        elif isinstance(operation, Delete):
            transaction.delete(path, operation.version)
        else:
            transaction.check(path, operation.version)
    return transaction


def _with_helpers(
    operations: Sequence[Operation], parents: set[str], below: dict[str, list[str]]
) -> Iterator[_Step]:
    """Put the parents that are missing before what needs them, and children before what is deleted."""
    made: set[str] = set()
    for operation in operations:
        if isinstance(operation, Create):
            for parent in _ancestors(operation.path):
                if parent in parents and parent not in made:
                    made.add(parent)
                    yield _Step(Create(parent), True)
            made.add(operation.path)
        elif isinstance(operation, Delete):
            for path in below[operation.path]:
                yield _Step(Delete(path), True)
        yield _Step(operation, False)


def _refusal(steps: Sequence[_Step], results: Sequence[Any]) -> tuple[_Step, Exception] | None:
    """Return the step for which a transaction was refused: the others' errors only say that it was."""
    refused = [pair for pair in zip(steps, results, strict=True) if isinstance(pair[1], Exception)]
    for step, error in refused:
        if not isinstance(error, RolledBackError | RuntimeInconsistency):
            return step, error
    return refused[0] if refused else None


def _paths(steps: Sequence[_Step], results: Sequence[Any]) -> list[str]:
    return [
        result if isinstance(step.operation, Create) else step.operation.path
        for step, result in zip(steps, results, strict=True)
        if not step.is_helper
    ]


def _error(step: _Step, error: Exception) -> CoordinationError:
    kind = _KINDS.get(type(error), type(error).__name__)
    return CoordinationError(kind, step.operation.path)


def _ancestors(path: str) -> list[str]:
    """Return the paths above, from the top; not the root, which is there."""
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(2, len(names))]
