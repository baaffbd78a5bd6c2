"""A conversation with brokers as a generator: it yields what is to be done and is sent what came of it.

Three things can be asked of whoever drives it: `Post` a request and get a ticket at once, `Collect` the next answer to one of
some tickets, `Pause` for a while. With that, requests to many brokers are under way at the same time, without a thread.

Invariants: a driver answers `Post` with a ticket that it has not given before; every ticket is collected at most once; a broken
link is the answer to all its tickets, never an exception of the driver's. Who abandons a ticket has to post `Forget`.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from barnabas.client.errors import ClientError
    from barnabas.wire.primitives import Message

Address: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class Post:
    """Send a request, connecting first where needed; the answer is its ticket."""

    address: Address
    request: Message
    #: The newest version that may be used; the oldest and the default newest are in `versions.py`.
    version_max: int | None = None


@dataclass(slots=True)
class Collect:
    """Wait for the answer to one of these tickets, whichever comes first; the answer is a `Reply`.

    Without `wait` only what is there already is taken, and None is an answer, too.
    """

    tickets: Collection[int]
    wait: bool = True


@dataclass(slots=True)
class Forget:
    """Drop the answer to a ticket when it comes."""

    ticket: int


@dataclass(slots=True)
class Pause:
    """Wait."""

    duration_ms: int


class Reply(NamedTuple):
    """What came of a request: the decoded response, or why there is none."""

    ticket: int
    answer: Any


Result = TypeVar("Result")
Effect: TypeAlias = Post | Collect | Forget | Pause
Talk: TypeAlias = Generator[Effect, Any, Result]


def ask(address: Address, request: Message, version_max: int | None = None) -> Talk[Any]:
    """Send one request and wait for its answer; ClientError if there is none."""
    ticket = yield Post(address, request, version_max)
    reply: Reply = yield Collect((ticket,))
    return usable(reply.answer)


def usable(answer: Any) -> Any:  # noqa: ANN401  # the response class of the request
    """Return an answer, or raise the reason why there is none."""
    if isinstance(answer, Exception):
        problem: ClientError = answer  # type: ignore[assignment]  # drivers give no others
        raise problem
    return answer
