"""Telling the controller that logs were lost with their disk, so that others lead what this broker led.

Job: one notice in the store, as Kafka has it; the controller then gives all orders again, and the answers name what is lost. Must not know what
was lost. Not needed while the broker is not registered: after that it is given all orders anyway.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import cluster_znodes
from barnabas.broker.quiet import Quiet
from barnabas.broker.tasks import drive

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)

_RETRY_MS: Final = 200


class LostLogs:
    """See the module."""

    def __init__(self, node: Node) -> None:
        """Have lost nothing."""
        self._node = node
        self._is_due = False
        self._is_telling = False
        self._quiet = Quiet()

    def tell(self) -> None:
        """Let the controller know that more was lost."""
        self._is_due = True
        if not self._is_telling:
            self._is_telling = True
            drive(self._tell(), self._on_told)

    def _tell(self) -> Task[None]:
        node = self._node
        notice = cluster_znodes.lost_logs_notice(node.broker_id)
        while self._is_due and node.members.is_registered and not node.stopping:
            self._is_due = False
            try:
                yield partial(node.world.coordination.commit, [notice])
            except OSError as problem:
                ending = self._quiet.ending("untold", node.world.clock.monotonic_ms())
                if ending is not None:
                    log.warning("the controller cannot be told of lost logs: %s%s", problem, ending)
                yield partial(node.pause, _RETRY_MS)
                self._is_due = True  # told twice does no harm

    def _on_told(self, _result: Any, problem: BaseException | None) -> None:  # noqa: ANN401
        self._is_telling = False
        if problem is not None:
            log.error("the controller cannot be told of lost logs", exc_info=problem)
