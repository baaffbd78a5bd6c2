"""Questions to other brokers that go in batches: one request is under way per broker, and what comes meanwhile goes with the next.

Job: a line of questions for each broker, and its connection. Must not know what is asked; never asks twice by itself. Questions of
one key never go in the same request: the answer tells them apart by it.

Where more than one version will do, a broker is asked first which it speaks: Apache Kafka's, in the same cluster, may know fewer.

Invariants: every question is answered once, never before `ask` returns; one that nobody wants any more is not sent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from barnabas.broker.channel import Channel, Unreachable
from barnabas.broker.edge import call_all, report
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Done, Start
    from barnabas.wire.messages.api_versions import ApiVersionsResponse
    from barnabas.wire.primitives import Message

Content = TypeVar("Content")

#: How much goes into one request; a question that is larger goes alone.
SIZE_MAX: Final = 5_000


@dataclass(slots=True)
class Question(Generic[Content]):
    """One of those that share a request."""

    key: Hashable
    #: About how much it makes the request larger: partitions.
    size: int
    content: Content
    is_wanted: Callable[[], bool]


class _Line(Generic[Content]):
    """Those who wait for one broker."""

    __slots__ = ("channel", "is_asking", "version", "waiting")

    def __init__(self, channel: Channel, version: int | None) -> None:
        self.channel = channel
        #: The version to ask with; None until the broker has said which it speaks.
        self.version = version
        self.waiting: deque[tuple[Question[Content], Done]] = deque()
        self.is_asking = False

    def take(self) -> list[tuple[Question[Content], Done]]:
        """Take as many as fit into one request."""
        taken: list[tuple[Question[Content], Done]] = []
        keys: set[Hashable] = set()
        size = 0
        while self.waiting:
            question, _done = self.waiting[0]
            size += question.size
            if taken and (question.key in keys or size > SIZE_MAX):
                break
            keys.add(question.key)
            taken.append(self.waiting.popleft())
        return taken


class PeerBatches(Generic[Content]):
    """See the module.

    `make` makes a request of questions, `read` gives the answer to each of them, in their order. Of `versions`, both included, the
    highest is taken that the broker speaks.
    """

    def __init__(
        self,
        node: Node,
        versions: tuple[int, int],
        make: Callable[[list[Content]], Message],
        read: Callable[[list[Content], Any], list[Any]],
    ) -> None:
        """Know no broker yet."""
        self._node = node
        self._versions = versions
        self._make = make
        self._read = read
        self._lines: dict[int, _Line[Content]] = {}
        self._is_closed = False

    def asking(self, broker_id: int, question: Question[Content]) -> Start:
        """Ask from within a task. The error is Unreachable or WireError."""
        return lambda done: self.ask(broker_id, question, done)

    def ask(self, broker_id: int, question: Question[Content], done: Done) -> None:
        """Ask with the next request; `done(answer, error)` is called once, later."""
        if self._is_closed:
            self._answer_later(done, Unreachable("it is not asked any more"))
            return
        line = self._lines.get(broker_id)
        if line is None:
            line = self._lines[broker_id] = _Line(self._open(broker_id), self._only_version)
        line.waiting.append((question, done))
        self._go_on(line)

    def on_brokers(self, live: Container[int]) -> None:
        """Hang up on brokers that are gone: what was asked of them is to be asked of others."""
        for broker_id in [one for one in self._lines if one not in live]:
            self._lines.pop(broker_id).channel.close()

    def close(self) -> None:
        """Hang up on everybody; who asks from now on hears of it."""
        self._is_closed = True
        self.on_brokers(())

    @property
    def _only_version(self) -> int | None:
        lowest, highest = self._versions
        return highest if lowest == highest else None

    def _open(self, broker_id: int) -> Channel:
        node = self._node
        return Channel(
            node.world, broker_id, partial(node.members.endpoint_of, broker_id),
            f"broker-{node.broker_id}", node.config.get_int("request.timeout.ms"),
        )  # fmt: skip

    def _go_on(self, line: _Line[Content]) -> None:
        while line.waiting and not line.is_asking:
            taken = line.take()
            wanted = [one for one in taken if one[0].is_wanted()]
            for one in taken:
                if one not in wanted:
                    self._answer_later(one[1], Unreachable("it is not asked any more"))
            if not wanted:
                continue
            try:
                request = self._make([question.content for question, _done in wanted])
            except Exception as fault:  # noqa: BLE001  (an edge: who asks gets it)
                for _question, done in wanted:
                    self._answer_later(done, fault)
                continue
            line.is_asking = True
            if line.version is None:
                told = partial(self._on_versions, line, request, wanted)
                line.channel.ask(ApiVersionsRequest(), 0, told)
            else:
                answered = partial(self._on_answer, line, wanted)
                line.channel.ask(request, line.version, answered)

    def _on_versions(
        self,
        line: _Line[Content],
        request: Message,
        asked: list[tuple[Question[Content], Done]],
        response: ApiVersionsResponse | None,
        error: BaseException | None,
    ) -> None:
        """Ask what was to be asked, as the broker understands it; what none of our versions does is found out by asking."""
        lowest, highest = self._versions
        if response is None:
            self._on_answer(line, asked, None, error)
            return
        spoken = [one.max_version for one in response.api_keys if one.api_key == request.API_KEY]
        line.version = max(lowest, min([highest, *spoken]))
        line.channel.ask(request, line.version, partial(self._on_answer, line, asked))

    def _on_answer(
        self,
        line: _Line[Content],
        asked: list[tuple[Question[Content], Done]],
        response: Any,  # noqa: ANN401
        error: BaseException | None,
    ) -> None:
        line.is_asking = False
        answers: list[Any] = [None] * len(asked)
        if error is None:
            try:
                read = self._read([question.content for question, _done in asked], response)
                answers = [answer for answer, _one in zip(read, asked, strict=True)]
            except Exception as fault:  # noqa: BLE001  (an edge: the broker may have answered anything)
                error = WireError(f"the answer of broker {line.channel.broker_id} cannot be used")
                report(self._node.world, str(error), fault)
        else:
            line.version = self._only_version  # another one may come back in its place
        try:
            call_all(
                partial(done, answer, error)
                for (_question, done), answer in zip(asked, answers, strict=True)
            )
        finally:
            self._go_on(line)

    def _answer_later(self, done: Done, problem: Exception) -> None:
        world = self._node.world
        world.timers.call_at(world.clock.monotonic_ms(), lambda: done(None, problem))
