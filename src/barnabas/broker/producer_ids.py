"""Hands out producer ids: never one twice, in blocks that are written down before they are used."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.broker import znodes
from barnabas.broker.tasks import drive
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)


class ProducerIds:
    """The block that is being handed out. Ids left in it at a stop are lost, as in Kafka."""

    __slots__ = ("_block_end", "_is_claiming", "_next", "_node", "_stored", "_unclaimed")

    def __init__(self, node: Node) -> None:
        """Start without a block."""
        self._node = node
        self._next = 0
        self._block_end = 0
        self._unclaimed = 0
        self._stored = False
        self._is_claiming = False

    def load(self, unclaimed: int) -> None:
        """Continue after the blocks that the store knows of."""
        self._unclaimed = unclaimed
        self._stored = unclaimed > 0

    def take(self) -> Task[int]:
        """Return a fresh id."""
        yield from self.get_ready()
        self._next += 1
        return self._next - 1

    def get_ready(self) -> Task[None]:
        """See to it that there is an id at hand."""
        while self._next == self._block_end:
            yield from self._claim()

    def take_now(self) -> int | None:
        """Return a fresh id if there is one at hand; else the next block is on its way."""
        if self._next < self._block_end:
            self._next += 1
            return self._next - 1
        if not self._is_claiming:
            self._is_claiming = True
            drive(self.get_ready(), self._on_ready)
        return None

    def _on_ready(self, _result: None, problem: BaseException | None) -> None:
        self._is_claiming = False
        if problem is not None:
            log.error("no block of producer ids: %s", problem)

    def _claim(self) -> Task[None]:
        start, exists = self._unclaimed, self._stored
        self._unclaimed = start + znodes.PRODUCER_ID_BLOCK
        operations = znodes.producer_id_block_operations(self._node.broker_id, start, exists=exists)
        try:
            yield lambda done: self._node.world.coordination.commit(operations, done)
        except CoordinationError as refusal:
            if refusal.kind != "NODE_EXISTS" or exists:
                raise
            self._stored = True  # callers raced for the very first block: there is one now
            return
        self._stored = True
        if self._next == self._block_end:
            self._next, self._block_end = start, start + znodes.PRODUCER_ID_BLOCK
