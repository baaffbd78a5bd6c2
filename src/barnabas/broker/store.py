"""Writing to the coordination store from a task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.ports import Operation

log = logging.getLogger(__name__)


def commit(node: Node, operations: Sequence[Operation]) -> Task[None]:
    """Do all or none. CoordinationError if they do not fit what is there, KafkaError if nothing can be written."""
    try:
        yield lambda done: node.world.coordination.commit(operations, done)
    except OSError as problem:
        log.error("nothing was changed: %s", problem)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)) from None
