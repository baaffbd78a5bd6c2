"""The keys that tokens are signed with, as they stand at an address (JWKS), and logins that are checked by them.

Job: read them at the start, again now and then, and soon when a token names one that is not known: whoever signs changes keys.
Must not know: how an address is read. Invariants: keys that could be read once stay until others could be read; an address is asked once
per `sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms` at most because of tokens, whatever they say.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.broker.tasks import drive
from barnabas.core.sasl.mechanism import OAUTHBEARER
from barnabas.core.sasl.oauthbearer import OAuthBearerServer
from barnabas.core.sasl.token import Key, TokenCheck, TokenRules, read_keys

if TYPE_CHECKING:
    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task

log = logging.getLogger(__name__)


class TokenKeys:
    """The keys of one listener."""

    def __init__(self, node: Node, listener: str) -> None:
        """Know the address; `start` reads it."""
        self._node = node
        self._setting = partial(node.config.of_listener, listener=listener, mechanism=OAUTHBEARER)
        self._url = str(self._get("jwks.endpoint.url"))
        self._keys: dict[str, Key] = {}
        self._is_reading = False
        self._read_at_ms = 0
        audiences = self._get("expected.audience")
        assert isinstance(audiences, tuple)
        rules = TokenRules(
            str(self._get("expected.issuer")),
            audiences,
            1000 * int(str(self._get("clock.skew.seconds"))),
            str(self._get("sub.claim.name")),
        )
        self._check = TokenCheck(rules, self._find)

    def start(self) -> Task[None]:
        """Read the keys, or fail."""
        yield from self._read()
        self._book(int(str(self._get("jwks.endpoint.refresh.ms"))))

    def make_server(self) -> OAuthBearerServer:
        """Begin a login."""
        return OAuthBearerServer(self._check.check)

    def _get(self, name: str) -> Any:  # noqa: ANN401
        return self._setting(f"sasl.oauthbearer.{name}")

    def _find(self, key_id: str) -> Key | None:
        key = self._keys.get(key_id)
        if key is None:
            now_ms = self._node.world.clock.monotonic_ms()
            pause_ms = int(str(self._get("jwks.endpoint.retry.backoff.max.ms")))
            if not self._is_reading and now_ms - self._read_at_ms >= pause_ms:
                drive(self._read(), self._on_read)
        return key

    def _read(self) -> Task[None]:
        read_url = self._node.authentication.read_url
        assert read_url is not None, "nobody said how to read an address"
        self._is_reading = True
        self._read_at_ms = self._node.world.clock.monotonic_ms()
        try:
            text = yield partial(
                self._node.world.background.ask_network, partial(read_url, self._url)
            )
            self._keys = read_keys(text)
        except ValueError as problem:
            raise OSError(f"the keys at {self._url} cannot be used: {problem}") from None
        finally:
            self._is_reading = False

    def _on_read(self, _result: object, problem: BaseException | None) -> None:
        if problem is not None:
            log.error("keys of tokens stay as they were: %s", problem)

    def _book(self, pause_ms: int) -> None:
        clock, timers = self._node.world.clock, self._node.world.timers

        def again() -> None:
            self._book(pause_ms)
            if not self._is_reading:
                drive(self._read(), self._on_read)

        timers.call_at(clock.monotonic_ms() + max(pause_ms, 1_000), again)
