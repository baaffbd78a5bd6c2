"""Whose turn it is to have a step of its TLS handshake computed, beside the thread of decision.

Job: steps one after another, a few at once. Must not know what a step computes. Invariant: one step is under way per connection, and each connection
hears of it unless it is closed.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from barnabas.ports import Background

#: Steps of handshakes that are computed at once: the background pool has other work, too.
AT_ONCE: Final = 2


class ShakingLink(Protocol):
    """Who is having a handshake."""

    is_open: bool
    tls: Any

    def on_step(self, *, is_done: bool, problem: BaseException | None) -> None:
        """Hear what came of a step."""

    def on_fault(self, fault: BaseException) -> None:
        """Hear that this could not be heard."""


class Handshakes:
    """Whose turn it is to have a step of its handshake computed, beside the loop."""

    def __init__(self, background: Background) -> None:
        """Start with none."""
        self._background = background
        self._waiting: deque[ShakingLink] = deque()
        self._under_way = 0

    def request(self, connection: ShakingLink) -> None:
        """Compute the connection's next step as soon as it is its turn; it hears of it by `on_step`."""
        self._waiting.append(connection)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._under_way < AT_ONCE:
            connection = self._waiting.popleft()
            if connection.is_open:
                self._under_way += 1
                self._background.compute(connection.tls.shake, partial(self._on_step, connection))

    def _on_step(
        self, connection: ShakingLink, is_done: bool | None, problem: BaseException | None
    ) -> None:
        self._under_way -= 1
        try:
            connection.on_step(is_done=bool(is_done), problem=problem)
        except Exception as fault:  # noqa: BLE001  (an edge: the connection's)
            connection.on_fault(fault)
        self._go_on()
