"""Requests and other work that take long, done in pieces.

Job: let the loop serve others in between, and make large answers off it. Who does the work counts its steps and
pauses when a piece is full. Must not know: what a step is.

Invariants: a small request is done without a pause. What is answered after a pause may be of different moments: who uses
this sees to it that each step is whole by itself. A question whose client has gone ends at its next pause; a change that was
begun is finished, as in Kafka.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from barnabas.broker.outcomes import CloseLink
from barnabas.ports import FileSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Done, Result, Task
    from barnabas.ports import Link, World

Thing = TypeVar("Thing")

#: Steps between two pauses: of some microseconds each.
PIECE: Final = 500


def slices(things: list[Thing]) -> Iterator[list[Thing]]:
    """Give as many at a time as a piece may have; where there is nothing, nothing once."""
    for start in range(0, max(len(things), 1), PIECE):
        yield things[start : start + PIECE]


class Pauses:
    """All work that is paused: one piece of it is done in a turn, however much there is."""

    __slots__ = ("_is_booked", "_waiting", "_world", "questions")

    def __init__(self, world: World) -> None:
        """Start with nothing paused."""
        self._world = world
        self._waiting: deque[Done] = deque()
        self._is_booked = False
        #: What is done only as long as a link is there to be answered.
        self.questions: dict[Link, Pieces] = {}

    def forget(self, link: Link) -> None:
        """A link has gone: drop what is done for its sake."""
        question = self.questions.pop(link, None)
        if question is not None:
            question.abandon()

    def add(self, done: Done) -> None:
        """Go on once everybody else had a turn: `yield node.pauses.add`."""
        self._waiting.append(done)
        self._book()

    def _book(self) -> None:
        if not self._is_booked:
            self._is_booked = True
            self._world.timers.call_at(self._world.clock.monotonic_ms(), self._go_on)

    def _go_on(self) -> None:
        try:
            self._waiting.popleft()(None, None)
        finally:
            # Not before: what is due now is done in this turn.
            self._is_booked = False
            if self._waiting:
                self._book()


class Response(Protocol):
    """Any answer that the wire knows."""

    def encode(self, version: int) -> list[Any]:
        """Give it as bytes, in parts."""


class EncodedResponse:
    """A response whose bytes are there already, in few parts: see `encode`."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Any]) -> None:
        """Keep the bytes."""
        self._parts = parts

    def encode(self, _version: int) -> list[Any]:
        """Give the bytes of the version it was encoded in."""
        return self._parts


def encode(response: Response, version: int) -> EncodedResponse:
    """Encode what is large: bytes that follow each other become one part, so that nobody handles thousands later."""
    parts: list[Any] = []
    for is_slice, some in groupby(response.encode(version), lambda part: type(part) is FileSlice):
        run = list(some)
        parts += run if is_slice else [b"".join(run)]
    return EncodedResponse(parts)


def tell_throttle(response: Any, throttle_ms: int) -> None:  # noqa: ANN401
    """Say in an answer how long its client is throttled, if it has a place for it and its bytes are not there yet."""
    if throttle_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms


def _build_whole(build: Callable[[], Response], call: Call) -> Any:  # noqa: ANN401
    return call.whole(build())


class Pieces:
    """The work for one request. `finishes`: it changes something, and goes on when its client has gone."""

    __slots__ = ("_call", "_finishes", "_in_piece", "_is_abandoned", "_was_paused")

    def __init__(self, call: Call, *, finishes: bool = False) -> None:
        """Begin the first piece."""
        self._call = call
        self._finishes = finishes
        self._in_piece = 0
        self._is_abandoned = False
        self._was_paused = False

    def count(self, steps: int) -> None:
        """Note steps that were done."""
        self._in_piece += steps

    @property
    def is_full(self) -> bool:
        """Tell whether it is time to pause."""
        return self._in_piece >= PIECE

    def pause(self, done: Done) -> None:
        """Begin another piece once everybody else had a turn; CloseLink if nobody waits for the answer any more."""
        self._in_piece = 0
        self._was_paused = True
        node = self._call.node
        if not self._finishes:
            node.pauses.questions[self._call.link] = self
        node.pauses.add(lambda _result, _error: self._go_on(done))

    def abandon(self) -> None:
        """Its client has gone: do not go on after this pause."""
        self._is_abandoned = True

    def _go_on(self, done: Done) -> None:
        self._call.node.pauses.questions.pop(self._call.link, None)
        done(None, CloseLink("its client has gone") if self._is_abandoned else None)

    def work(self, steps: int, job: Callable[[], Result]) -> Task[Result]:
        """Do a job of so many steps: here if that is little, else in the background, so it may touch only what is its own."""
        self._in_piece += steps
        if not self.is_full:
            return job()
        self._was_paused = True
        result: Result = yield partial(self._call.node.world.background.compute, job)
        return result

    def respond(self, build: Callable[[], Response]) -> Task[Response]:
        """Make the response: here if it is small, else in the background, so `build` may touch only what is its own."""
        if self._call.denied is not None:
            build = partial(_build_whole, build, self._call)
        if not self._was_paused:
            return build()
        version, bill = self._call.version, self._call.bill
        throttle_ms = 0 if bill is None else bill.settle()

        def finish() -> EncodedResponse:
            response = build()
            tell_throttle(response, throttle_ms)
            return encode(response, version)

        job = partial(self._call.node.world.background.compute, finish)
        encoded: EncodedResponse = yield job
        return encoded
