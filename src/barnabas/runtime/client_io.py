"""Holds the conversations of `client/` over blocking sockets.

Job: keep one link per broker, send what is posted, wait for what is to be collected, on as many links as it takes. Must not know what
the conversations are about.

Invariants (`client.talk`): every posted request is answered, if only by why there is no answer; when a link breaks or an answer
is late, all that is under way on that link is answered so. For one thread.
"""

from __future__ import annotations

import math
import select
import time
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.client.errors import ClientError, Unreachable
from barnabas.client.talk import Collect, Forget, Pause, Post, Reply
from barnabas.runtime.client_link import Link
from barnabas.runtime.client_tls import tls_context
from barnabas.runtime.client_token import TokenSource

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from barnabas.client.settings import ClientSettings
    from barnabas.client.talk import Address, Effect, Talk

Result = TypeVar("Result")


class Wires:
    """Links to brokers, and what is under way on them."""

    def __init__(self, settings: ClientSettings) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._token = TokenSource(settings)
        self._context: ssl.SSLContext | None = None
        self._links: dict[Address, Link] = {}
        self._answers: dict[int, Any] = {}
        self._forgotten: set[int] = set()
        self._last_ticket = 0
        self._handlers: dict[type[Any], Callable[[Any], Any]] = {
            Post: self._post,
            Collect: self._collect,
            Forget: self._forget,
            Pause: self._pause,
        }

    def run(self, talk: Talk[Result]) -> Result:
        """Hold a conversation to its end, and return what came of it."""
        handlers, outcome = self._handlers, None
        try:
            while True:
                effect: Effect = talk.send(outcome)
                outcome = handlers[type(effect)](effect)
        except StopIteration as end:
            result: Result = end.value
            return result

    def close(self) -> None:
        """Hang up everywhere."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    # -- what conversations ask for -----------------------------------------------------------

    def _post(self, effect: Post) -> int:
        self._last_ticket += 1
        ticket = self._last_ticket
        link: Link | None = None
        try:
            link = self._link(effect.address)
            link.send(ticket, effect.request, effect.version_max)
        except Unreachable as problem:
            self._answers[ticket] = problem
            if link is not None:
                self._lose(link, problem)
        except ClientError as problem:
            self._answers[ticket] = problem
        return ticket

    def _collect(self, effect: Collect) -> Reply | None:
        reply = self._kept(effect)
        while reply is None:
            is_over = not self._receive(wait=effect.wait)
            reply = self._kept(effect)
            if is_over and not effect.wait:
                break
        return reply

    def _kept(self, effect: Collect) -> Reply | None:
        for ticket in effect.tickets:
            if ticket in self._answers:
                return Reply(ticket, self._answers.pop(ticket))
        return None

    def _forget(self, effect: Forget) -> None:
        if self._answers.pop(effect.ticket, None) is None:
            self._forgotten.add(effect.ticket)

    def _pause(self, effect: Pause) -> None:
        time.sleep(effect.duration_ms / 1000)

    # -- links --------------------------------------------------------------------------------

    def _link(self, address: Address) -> Link:
        link = self._links.get(address)
        if link is not None and link.is_stale and not link.is_waiting:
            link.close()
            link = None
        if link is None:
            if self._settings.uses_tls and self._context is None:
                self._context = tls_context(self._settings)
            link = Link(address, self._settings, self._context, self._token)
            self._links[address] = link
        return link

    def _receive(self, *, wait: bool) -> bool:
        """Take what comes on the links, and wait for it if asked to; tell whether something came."""
        waiting = [link for link in self._links.values() if link.is_waiting]
        assert waiting, "a ticket that nobody will answer is waited for"
        now_s = time.monotonic()
        late = [link for link in waiting if link.deadline_s <= now_s]
        for link in late:
            self._lose(
                link, Unreachable(f"no answer from {link.address[0]}:{link.address[1]}: timed out")
            )
        if late:
            return True
        timeout_s = min(link.deadline_s for link in waiting) - now_s
        is_only = wait and len(waiting) == 1
        ready = waiting if is_only else self._ready(waiting, timeout_s if wait else 0.0)
        for link in ready:
            try:
                answers = link.receive(timeout_s)
            except ClientError as problem:
                self._lose(link, problem)
            else:
                self._keep(answers)
        return bool(ready)

    def _ready(self, waiting: list[Link], timeout_s: float) -> list[Link]:
        hidden = [link for link in waiting if link.has_bytes]
        if hidden:
            return hidden
        # Not select(), which fails for descriptors above 1023.
        poll, links = select.poll(), {link.fileno(): link for link in waiting}
        for descriptor in links:
            poll.register(descriptor, select.POLLIN)
        found = poll.poll(math.ceil(timeout_s * 1000))
        return [links[descriptor] for descriptor, _ in found]

    def _keep(self, answers: list[tuple[int, Any]]) -> None:
        for ticket, answer in answers:
            if ticket in self._forgotten:
                self._forgotten.discard(ticket)
            else:
                self._answers[ticket] = answer

    def _lose(self, link: Link, problem: ClientError) -> None:
        self._links.pop(link.address, None)
        self._keep(link.last_answers())
        self._keep([(ticket, problem) for ticket in link.close()])
