"""Requests and other work that take long, done in pieces.

Job: let the loop serve others in between, and make large answers off it. Who does the work counts its steps and
pauses when a piece is full. Must not know: what a step is.

Invariants: a small request is done without a pause. What is answered after a pause may be of different moments: who uses
this sees to it that each step is whole by itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Done, Task
    from barnabas.ports import World

#: Steps between two pauses: of some microseconds each.
PIECE: Final = 500


def pause(world: World, done: Done) -> None:
    """Go on once everybody else had a turn."""
    world.timers.call_at(world.clock.monotonic_ms(), lambda: done(None, None))


class Response(Protocol):
    """Any answer that the wire knows."""

    def encode(self, version: int) -> list[Any]:
        """Give it as bytes, in parts."""


class EncodedResponse:
    """A response whose bytes are there already."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Any]) -> None:
        """Keep the bytes."""
        self._parts = parts

    def encode(self, _version: int) -> list[Any]:
        """Give the bytes of the version it was encoded in."""
        return self._parts


class Pieces:
    """The work for one request."""

    __slots__ = ("_call", "_in_piece", "_was_paused")

    def __init__(self, call: Call) -> None:
        """Begin the first piece."""
        self._call = call
        self._in_piece = 0
        self._was_paused = False

    def count(self, steps: int) -> None:
        """Note steps that were done."""
        self._in_piece += steps

    @property
    def is_full(self) -> bool:
        """Tell whether it is time to pause."""
        return self._in_piece >= PIECE

    def pause(self, done: Done) -> None:
        """Begin another piece once everybody else had a turn."""
        self._in_piece = 0
        self._was_paused = True
        pause(self._call.node.world, done)

    def respond(self, build: Callable[[], Response]) -> Task[Response]:
        """Make the response: here if it is small, else in the background, so `build` may touch only what is its own."""
        if not self._was_paused:
            return build()
        version = self._call.version
        job = partial(self._call.node.world.background.run, lambda: build().encode(version))
        parts: list[Any] = yield job
        return EncodedResponse(parts)
