"""Logins: what a connection may ask before, during and after it, and who is at its other end then.

Job: the states of a connection's login, its mechanisms, its time. Must not know: how a mechanism works (`core/sasl`), sockets.

| state          | what may come                          | what it leads to                                |
|----------------|----------------------------------------|-------------------------------------------------|
| START          | ApiVersions; SaslHandshake             | UNDER_WAY once a mechanism is agreed on         |
| UNDER_WAY      | SaslAuthenticate, or bare tokens       | DONE, or the connection's end                   |
| DONE           | everything                             | UNDER_WAY again by SaslHandshake (KIP-368)      |

Invariants: nothing but the above is decoded before the login is done, nor is a long request taken; a failed login is answered after
`connection.failed.authentication.delay.ms` and ends the connection; who logs in again is who logged in before; once a login's time is
over nothing is answered any more.
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import audit
from barnabas.broker.outcomes import CloseLink
from barnabas.core.sasl.mechanism import OAUTHBEARER, PLAIN, LoginRefused
from barnabas.core.sasl.plain import PlainServer
from barnabas.core.sasl.scram import ScramServer
from barnabas.model.config.security_rules import jaas_of, mechanisms_of
from barnabas.model.principal import USER, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.node import Node
    from barnabas.broker.tasks import Task
    from barnabas.broker.token_keys import TokenKeys
    from barnabas.core.sasl.mechanism import Identity, LoginServer
    from barnabas.ports import Link, Timer
    from barnabas.wire.frame import RequestHead

SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36
#: Nobody needs to log in again more often than that, as in Kafka.
RELOGIN_PAUSE_MS: Final = 1_000
_NONCE_BYTES: Final = 24
_SECRET_BYTES: Final = 32

log = logging.getLogger(__name__)


class State(Enum):
    """How far a login is."""

    START = "start"
    UNDER_WAY = "under way"
    DONE = "done"


class Authentication:
    """What all logins of a node share."""

    def __init__(self, node: Node) -> None:
        """Offer what the settings say."""
        self.node = node
        self._secret = b""
        self._listeners = {one.name: one for one in node.config.listeners}
        #: By listener: the keys that tokens are signed with. Set up at the start where tokens are taken.
        self.token_keys: dict[str, TokenKeys] = {}
        #: Reads what is at an address; blocks. Whoever assembles the node gives it.
        self.read_url: Callable[[str], bytes] | None = None

    def start(self) -> Task[None]:
        """Read the keys of tokens; an error if they cannot be had."""
        for listener in self.node.config.listeners:
            if listener.wants_login and OAUTHBEARER in mechanisms_of(
                self.node.config, listener.name
            ):
                # Imported here: it needs a package that only this mechanism does.
                from barnabas.broker.token_keys import TokenKeys

                keys = TokenKeys(self.node, listener.name)
                yield from keys.start()
                self.token_keys[listener.name] = keys

    def begin(self, link: Link) -> None:
        """Have a fresh connection log in, if its listener wants that."""
        listener = self._listeners.get(link.listener)
        if listener is not None and listener.wants_login:
            link.authenticator = Authenticator(self, link)
            link.frame_bytes_max = self.node.config.get_int("sasl.server.max.receive.size")

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """List what a listener offers. Tokens only where their keys were read at the start: none is taken that nobody could check."""
        return tuple(
            one
            for one in mechanisms_of(self.node.config, listener)
            if one != OAUTHBEARER or listener in self.token_keys
        )

    def make_server(self, listener: str, mechanism: str) -> LoginServer:
        """Begin a login."""
        if mechanism == PLAIN:
            return PlainServer(jaas_of(self.node.config, listener, mechanism).users)
        if mechanism == OAUTHBEARER:
            return self.token_keys[listener].make_server()
        self._secret = self._secret or self.node.world.rng.random_bytes(_SECRET_BYTES)
        nonce = self.node.world.rng.random_bytes(_NONCE_BYTES).hex()
        return ScramServer(mechanism, partial(self.node.users.find, mechanism), nonce, self._secret)


class Authenticator:
    """The login of one connection."""

    def __init__(self, shared: Authentication, link: Link) -> None:
        """Wait for the client to begin."""
        self._shared = shared
        self._link = link
        self._state = State.START
        self._mechanism = ""
        self._server: LoginServer | None = None
        self._timer: Timer | None = None
        self._begun_ms: int | None = None
        self._is_done = False
        self._is_expired = False
        #: What comes next is a token without a request around it (SaslHandshake version 0).
        self.is_bare = False

    def check(self, head: RequestHead) -> None:
        """Raise CloseLink for a request that may not come now."""
        if self._state is State.DONE:
            if self._is_expired and head.api_key != SASL_HANDSHAKE:
                raise CloseLink("the time of its login is over")
            return
        wanted = SASL_AUTHENTICATE if self._state is State.UNDER_WAY else SASL_HANDSHAKE
        if head.api_key == wanted:
            return
        if head.api_key == API_VERSIONS and self._state is State.START:
            return
        raise CloseLink(f"API key {head.api_key} came before a login was done")

    @property
    def mechanisms(self) -> list[str]:
        """List what may be logged in with."""
        return list(self._shared.mechanisms(self._link.listener))

    def may_begin(self) -> bool:
        """Tell whether a login may begin now: the first, or another one whose time is limited, and not too soon."""
        if self._state is not State.DONE:
            return self._state is State.START
        now_ms = self._now_ms
        return self._begun_ms is not None and now_ms - self._begun_ms >= RELOGIN_PAUSE_MS

    def begin(self, mechanism: str, *, bare: bool) -> bool:
        """Agree on a mechanism; False, and the connection's end, if it is not offered or is another than before."""
        is_known = mechanism in self.mechanisms
        if not is_known or self._mechanism not in ("", mechanism):
            self._link.close_when_sent()
            return False
        self._mechanism = mechanism
        self._server = self._shared.make_server(self._link.listener, mechanism)
        self._state, self.is_bare = State.UNDER_WAY, bare
        self._close_lanes()
        return True

    @property
    def is_done(self) -> bool:
        """Tell whether somebody has logged in; another login may be under way."""
        return self._is_done

    @property
    def awaits_token(self) -> bool:
        """Tell whether a login is under way."""
        return self._state is State.UNDER_WAY

    def take(self, token: bytes) -> tuple[bytes, int]:
        """Take a token; the answer, and for how long the login holds in milliseconds: 0 is without an end, or not done yet.

        LoginRefused ends it: the caller waits `refusal_delay_ms`, answers and has the connection closed.
        """
        server = self._server
        assert server is not None
        try:
            answer = server.answer(token, self._shared.node.world.clock.now_ms())
            if server.identity is None:
                return answer, 0
            return answer, self._finish(server.identity)
        except LoginRefused as refusal:
            log.warning("login refused: %s", refusal, extra={"peer": self._link.peer_host})
            audit.login_refused(self._link, self._mechanism, str(refusal))
            raise
        except Exception as problem:  # (an edge: whoever is not known yet must not harm others, nor try again on this connection)
            log.exception("a login failed", extra={"peer": self._link.peer_host})
            raise LoginRefused("Authentication failed due to a problem of the broker") from problem

    @property
    def refusal_delay_ms(self) -> int:
        """How long a refusal is held back, so that guessing takes time."""
        return self._shared.node.config.get_int("connection.failed.authentication.delay.ms")

    def take_bare(self, frame: memoryview) -> list[Any] | None:
        """Take a token that came without a request; what is sent back, or None if it is the end."""
        try:
            answer, _lifetime_ms = self.take(bytes(frame))
        except LoginRefused:
            timers = self._shared.node.world.timers
            timers.call_at(self._now_ms + self.refusal_delay_ms, self._link.close)
            return None
        self.is_bare = self._state is State.UNDER_WAY
        return [len(answer).to_bytes(4) + answer]

    def forget(self) -> None:
        """See the connection go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self, identity: Identity) -> int:
        principal = Principal(USER, identity.name)
        link, node = self._link, self._shared.node
        if self._is_done and principal != link.principal:
            raise LoginRefused("Authentication failed: another user than before logs in again")
        link.principal, self._is_done = principal, True
        link.frame_bytes_max = node.config.get_int("socket.request.max.bytes")
        self._state, self._server, self._is_expired = State.DONE, None, False
        return self._limit(identity)

    def _limit(self, identity: Identity) -> int:
        """Note when the login is over, if it ever is; how long it holds."""
        node = self._shared.node
        limits = []
        longest = node.config.of_listener(
            "connections.max.reauth.ms", self._link.listener, self._mechanism
        )
        if isinstance(longest, int) and longest > 0:
            limits.append(longest)
        if identity.expires_ms is not None:
            limits.append(max(0, identity.expires_ms - node.world.clock.now_ms()))
        self.forget()
        if not limits:
            return 0
        self._begun_ms = self._now_ms
        self._timer = node.world.timers.call_at(self._now_ms + min(limits), self._expire)
        return min(limits)

    def _expire(self) -> None:
        """End the login: only another one is taken from now on."""
        self._is_expired = True
        self._close_lanes()

    def _close_lanes(self) -> None:
        """Have the next request looked at: those that repeat would go their short way past `check`."""
        self._link.lanes = None

    @property
    def _now_ms(self) -> int:
        return self._shared.node.world.clock.monotonic_ms()
