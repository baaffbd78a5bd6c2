"""Hands out producer ids: never one twice, in blocks that are written down before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker import znodes
from barnabas.ports import CoordinationError

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task


class ProducerIds:
    """The block that is being handed out. Ids left in it at a stop are lost, as in Kafka."""

    __slots__ = ("_block_end", "_next", "_node", "_stored", "_unclaimed")

    def __init__(self, node: Node) -> None:
        """Start without a block."""
        self._node = node
        self._next = 0
        self._block_end = 0
        self._unclaimed = 0
        self._stored = False

    def load(self, unclaimed: int) -> None:
        """Continue after the blocks that the store knows of."""
        self._unclaimed = unclaimed
        self._stored = unclaimed > 0

    def take(self) -> Task[int]:
        """Return a fresh id."""
        while self._next == self._block_end:
            yield from self._claim()
        self._next += 1
        return self._next - 1

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
