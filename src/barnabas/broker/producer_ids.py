"""Hands out producer ids: never one twice in a cluster, in blocks that are written down before they are used.

Each block is taken from the store by compare-and-set: another broker may take one at any time. A block of which it is not known
whether it was written is left to nobody. Must not know whom ids are for.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker import znodes
from barnabas.broker.tasks import drive
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports import CoordinationError, OutcomeUnknown

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Task

log = logging.getLogger(__name__)


class ProducerIds:
    """The block that is being handed out. Ids left in it at a stop are lost, as in Kafka."""

    __slots__ = ("_block_end", "_next", "_node", "_waiting")

    def __init__(self, node: Node) -> None:
        """Start without a block."""
        self._node = node
        self._next = 0
        self._block_end = 0
        #: Who waits for the next block; None while nobody claims one.
        self._waiting: list[Done] | None = None

    def take(self) -> Task[int]:
        """Return a fresh id; KafkaError if the store cannot be asked for more."""
        yield from self.get_ready()
        self._next += 1
        return self._next - 1

    def get_ready(self) -> Task[None]:
        """See to it that there is an id at hand; KafkaError as `take`."""
        while self._next == self._block_end:
            yield self._claim_once

    def take_now(self) -> int | None:
        """Return a fresh id if there is one at hand; else the next block is on its way."""
        if self._next < self._block_end:
            self._next += 1
            return self._next - 1
        self._claim_once(_on_ready)
        return None

    def _claim_once(self, done: Done) -> None:
        """Claim a block, or wait for the one that is being claimed."""
        if self._waiting is not None:
            self._waiting.append(done)
            return
        self._waiting = [done]
        drive(claim_block(self._node, self._node.broker_id), self._on_claimed)

    def _on_claimed(self, start: int | None, problem: BaseException | None) -> None:
        if start is not None:
            self._next, self._block_end = start, start + znodes.PRODUCER_ID_BLOCK
        waiting, self._waiting = self._waiting or [], None
        for done in waiting:
            done(None, problem)


def claim_block(node: Node, broker_id: int) -> Task[int]:
    """Write down the next block for a broker; its first id. KafkaError if the store cannot be asked."""
    coordination = node.world.coordination
    while True:
        try:
            found = yield partial(coordination.read, znodes.PRODUCER_IDS)
            start, operation = znodes.next_producer_id_block(broker_id, found)
            yield partial(coordination.commit, [operation])
        except CoordinationError:
            continue  # another broker was faster
        except OutcomeUnknown:
            continue  # ours or not: the next one is
        except OSError as problem:
            # As Kafka tells it while it has no block: clients ask again.
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(problem)) from None
        return start


def _on_ready(_result: None, problem: BaseException | None) -> None:
    if problem is not None:
        log.error("no block of producer ids: %s", problem)
