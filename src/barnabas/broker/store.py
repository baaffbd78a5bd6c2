"""Reading and writing the coordination store from a task."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import znodes
from barnabas.broker.tasks import together
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import Check, CoordinationError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Start, Task
    from barnabas.ports import Operation, ZNode

log = logging.getLogger(__name__)


def read_all(node: Node, paths: Sequence[str]) -> Task[dict[str, ZNode | None]]:
    """Read several paths at once, which is one round trip for as many as ask in one turn; OSError if the store cannot be read."""
    found: dict[str, ZNode | None] = {}

    def start(path: str) -> Start:
        def read(done: Done) -> None:
            def told(node_: ZNode | None, error: BaseException | None) -> None:
                found[path] = node_
                done(None, error)

            node.world.coordination.read(path, told)

        return read

    if paths:
        errors = yield together([start(path) for path in paths])
        for error in errors:
            if error is not None:
                raise error
    return {path: found[path] for path in paths}


def read_latest(node: Node, paths: Sequence[str]) -> Task[dict[str, ZNode | None]]:
    """Read several paths as they are now, whoever changed them. OSError if the store cannot be read, or does not know topics.

    A plain read may be answered by a server that lags behind what another broker has done through another one. What is
    committed goes through their leader, and is seen by the server that answers before anything is read there.
    """
    if paths:
        try:
            yield partial(node.world.coordination.commit, [Check(znodes.TOPICS)])
        except CoordinationError as refusal:
            raise OSError(f"it is not the store that it was: {refusal}") from None
    return (yield from read_all(node, paths))


def read(node: Node, path: str) -> Task[ZNode | None]:
    """Read one path; KafkaError if the store cannot be read."""
    try:
        found: ZNode | None = yield lambda done: node.world.coordination.read(path, done)
    except OSError as problem:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from None
    return found


def commit(node: Node, operations: Sequence[Operation]) -> Task[None]:
    """Do all or none. CoordinationError if they do not fit what is there, KafkaError if nothing can be written."""
    try:
        yield lambda done: node.world.coordination.commit(operations, done)
    except OutcomeUnknown as problem:
        log.error("whether it was changed is not known: %s", problem)
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"it may have been done, look before trying again: {problem}",
        ) from None
    except OSError as problem:
        log.error("nothing was changed: %s", problem)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from None
