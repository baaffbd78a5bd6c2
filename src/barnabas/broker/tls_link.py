"""A client that speaks TLS: a connection that begins with a handshake.

Job: the handshake, off the loop, and who the client's certificate says it is; then it is a connection like others. Must not know:
frames. Invariants: one step of a handshake is under way per connection, a few in all; nothing is read from a connection meanwhile;
nothing is handed to the node before the handshake is done.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.client_link import ClientLink
from barnabas.model.principal import USER, Principal
from barnabas.ports import READ, WRITE

if TYPE_CHECKING:
    from barnabas.broker.client_link import Ends
    from barnabas.broker.outbox import Outbox
    from barnabas.broker.turn import Turn

    Subject = tuple[tuple[tuple[str, str], ...], ...]

log = logging.getLogger(__name__)


class TlsStream(Protocol):
    """A socket with TLS on top, which never waits (`runtime/tls_socket.py`)."""

    #: A read was filled to its end: there may be more that a poll does not tell of.
    has_more: bool

    def receive_handshake(self) -> bool:
        """Take what has come; False if the other side has closed. BlockingIOError if nothing has."""

    def take_outgoing(self) -> bytes:
        """Give what is to be sent as it is."""

    def peer_subject(self) -> Subject | None:
        """Give the other side's name as its certificate has it; None if it has shown none."""


class TlsRules(Protocol):
    """What is the same for all connections of a listener."""

    handshakes: Any

    def name_of(self, subject: Subject) -> str:
        """Make a user's name of the name in a certificate; ValueError if no rule fits."""


class TlsLink(ClientLink):
    """One client."""

    __slots__ = ("_is_booked", "_is_secure", "_rules", "tls")

    def __init__(
        self,
        turn: Turn,
        tls: TlsStream,
        out: Outbox,
        ends: Ends,
        rules: TlsRules,
    ) -> None:
        """Take over a fresh socket, and wait for the client to begin."""
        super().__init__(turn, tls, out, ends)
        self._rules = rules
        self.tls = tls
        self._is_secure = False
        #: The next read is booked already.
        self._is_booked = False

    @property
    def is_proven(self) -> bool:
        """Tell whether handshake and login are done."""
        return self._is_secure and super().is_proven

    def on_event(self, events: int) -> None:
        """React to what the poll says."""
        if self._is_secure:
            super().on_event(events)
            return
        if events & WRITE:
            self.flush()
        if self.is_open and events & READ:
            self._receive_handshake()
        elif self.is_open and events & ~(READ | WRITE):
            self.close()

    def _receive_handshake(self) -> None:
        try:
            if not self.tls.receive_handshake():
                self.close()
                return
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._watch(0)
        self._rules.handshakes.request(self)

    def on_step(self, *, is_done: bool, problem: BaseException | None) -> None:
        """Hear what came of a step of the handshake."""
        if not self.is_open:
            return
        self._out.append_sealed(self.tls.take_outgoing())
        if problem is not None:
            self._refuse(problem)
            return
        if is_done:
            try:
                self._name_client()
            except ValueError as nobody:
                self._refuse(nobody)
                return
            self._is_secure = True
        self.flush()

    def _name_client(self) -> None:
        """Take the client for whom its certificate names, where it does not log in."""
        subject = self.tls.peer_subject()
        if subject is not None and self.authenticator is None:
            self.principal = Principal(USER, self._rules.name_of(subject))

    def _refuse(self, problem: BaseException) -> None:
        # It is said to be a text, and is None where OpenSSL has no name for the error.
        reason: object = getattr(problem, "reason", None) or problem
        log.warning("closing: TLS handshake failed: %s", reason, extra={"peer": self.peer_host})
        self._closes = True
        self.flush()  # tells the client why, and closes
        self.close()

    def _watch(self, events: int) -> None:
        super()._watch(events)
        if self._is_secure and events & READ and self.tls.has_more:
            self._book_read()

    def _on_readable(self) -> None:
        super()._on_readable()
        if self.tls.has_more and not self.inbox.has_piece():
            self._book_read()

    def handle_received(self) -> None:
        """Handle what was received, then read on if there is more."""
        super().handle_received()
        if self.tls.has_more:
            self._book_read()

    def _book_read(self) -> None:
        """Read on in the next turn: what is decrypted already makes no poll return."""
        if self.is_open and not self._is_booked:
            self._is_booked = True
            self._turn.loop.post(self._read_on)

    def _read_on(self) -> None:
        self._is_booked = False
        if self.is_open and self._events & READ:
            self._on_readable()
