"""One connection of a client to one broker: TLS, SASL, frames.

Job: connect, prove who is who, send requests, cut answers out of the bytes and decode them. Must not know what the requests mean, or
other brokers.

Invariants: answers come in the order of the requests; an answer that is not the oldest request's ends the link; no answer is larger than
the bound, which is small until the broker is known to be one; memory is taken as bytes come. A link that broke stays broken.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import ssl
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client import sasl
from barnabas.client.errors import (
    AuthenticationFailed,
    ClientError,
    Unreachable,
    UnsupportedByBroker,
)
from barnabas.client.versions import choose
from barnabas.model.errors import ErrorCode
from barnabas.wire import frame
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.settings import ClientSettings
    from barnabas.client.talk import Address
    from barnabas.wire.primitives import Message

ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
#: Before the broker has let us in.
GREETING_BYTES_MAX: Final = 512 * 1024
#: What is taken at once for an answer that claims to be large.
FIRST_BYTES: Final = 8 * 1024 * 1024
_API_VERSIONS: Final = 3
_LENGTH: Final = struct.Struct(">i")
#: A session is renewed when this part of its life is over.
_SESSION_USED: Final = 0.85


class _Sent(NamedTuple):
    ticket: int
    correlation_id: int
    api_key: int
    version: int
    deadline_s: float


class Link:
    """A connection that was accepted on both sides."""

    def __init__(
        self,
        address: Address,
        settings: ClientSettings,
        context: ssl.SSLContext | None,
        token: Callable[[], str],
    ) -> None:
        """Connect and authenticate; ClientError if that does not work."""
        self.address = address
        self._settings = settings
        self._name = f"{address[0]}:{address[1]}"
        self._correlation_id = 0
        self._sent: deque[_Sent] = deque()
        self._answers: list[tuple[int, Any]] = []
        self._bytes_max = GREETING_BYTES_MAX
        self._head = bytearray(_LENGTH.size)
        self._body: bytearray | None = None
        self._length = 0
        self._filled = 0
        self._stale_at_s: float | None = None
        self._socket = self._connect(context)
        try:
            self.served = self._ask_versions()
            if settings.uses_sasl:
                self._authenticate(token)
        except BaseException:
            self._socket.close()
            raise
        self._bytes_max = max(ANSWER_BYTES_MAX, 2 * settings.max_partition_fetch_bytes)

    # -- for who drives conversations ---------------------------------------------------------

    def fileno(self) -> int:
        """Let `selectors` watch it."""
        return self._socket.fileno()

    @property
    def is_waiting(self) -> bool:
        """Is an answer outstanding?"""
        return bool(self._sent)

    @property
    def is_stale(self) -> bool:
        """Will the broker soon want to know again who we are?"""
        return self._stale_at_s is not None and time.monotonic() > self._stale_at_s

    @property
    def deadline_s(self) -> float:
        """When the oldest request has waited too long."""
        return self._sent[0].deadline_s

    @property
    def has_bytes(self) -> bool:
        """Are there bytes that the socket does not show, as TLS has unpacked them already?"""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, ticket: int, request: Message, version_max: int | None = None) -> None:
        """Send a request; its answer will carry the ticket. Unreachable if the link breaks."""
        version = choose(request, self.served, version_max)
        self._send(ticket, request, version)

    def receive(self, timeout_s: float) -> list[tuple[int, Any]]:
        """Read once, and return the answers that are complete with it; Unreachable if the link breaks."""
        self._read_once(timeout_s)
        answers, self._answers = self._answers, []
        return answers

    def last_answers(self) -> list[tuple[int, Any]]:
        """Return what had come before the link broke: a broker that stops has answered what it has done."""
        with contextlib.suppress(ClientError):
            while self._sent:
                self._read_once(0)
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> list[int]:
        """Hang up; return the tickets that will not be answered."""
        self._socket.close()
        tickets = [each.ticket for each in self._sent]
        self._sent.clear()
        return tickets

    # -- opening ------------------------------------------------------------------------------

    def _connect(self, context: ssl.SSLContext | None) -> socket.socket:
        settings = self._settings
        try:
            plain = socket.create_connection(self.address, settings.connect_timeout_ms / 1000)
        except OSError as problem:
            raise Unreachable(f"{self._name}: {_words(problem)}") from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.receive_buffer_bytes > 0:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        if settings.send_buffer_bytes > 0:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        return plain if context is None else self._encrypt(plain, context)

    def _encrypt(self, plain: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        try:
            return context.wrap_socket(plain, server_hostname=self.address[0])
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, TimeoutError, ConnectionError) as problem:
            plain.close()
            raise Unreachable(f"{self._name}: TLS broke off: {_words(problem)}") from None
        except ssl.SSLCertVerificationError as problem:
            plain.close()
            raise AuthenticationFailed(
                f"{self._name}: its certificate is not accepted: {problem.verify_message}; "
                "check ssl.ca.location and the host name"
            ) from None
        except (ssl.SSLError, OSError) as problem:
            plain.close()
            raise AuthenticationFailed(
                f"{self._name}: no TLS ({_words(problem)}); is security.protocol right?"
            ) from None

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="0.1")
        answer: ApiVersionsResponse = self._ask_now(request, _API_VERSIONS)
        if answer.error_code:
            raise UnsupportedByBroker(f"{self._name}: too old, or no Kafka broker")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _authenticate(self, token: Callable[[], str]) -> None:
        mechanism = self._settings.sasl_mechanism
        shaken: SaslHandshakeResponse = self._ask_now(SaslHandshakeRequest(mechanism=mechanism), 1)
        if shaken.error_code:
            offered = ", ".join(shaken.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self._name} does not take sasl.mechanism={mechanism}; it has {offered}"
            )
        exchange = sasl.exchange(self._settings, secrets.token_bytes(sasl.NONCE_BYTES), token)
        say = next(exchange)
        while True:
            answer = self._authenticate_once(say)
            try:
                say = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                break
        if answer.session_lifetime_ms > 0:
            life_s = answer.session_lifetime_ms / 1000 * _SESSION_USED
            self._stale_at_s = time.monotonic() + life_s

    def _authenticate_once(self, say: bytes) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=say)
        answer: SaslAuthenticateResponse = self._ask_now(request, choose(request, self.served))
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            why = answer.error_message or "the broker does not accept name and password"
            raise AuthenticationFailed(f"{self._name}: {why}")
        if answer.error_code:
            raise AuthenticationFailed(f"{self._name}: {ErrorCode(answer.error_code).message}")
        return answer

    def _ask_now(self, request: Message, version: int) -> Any:  # noqa: ANN401  # its response class
        """Ask while nothing else is under way."""
        self._send(0, request, version)
        while not self._answers:
            self._read_once(self.deadline_s - time.monotonic())
        answer = self._answers.pop()[1]
        if isinstance(answer, ClientError):
            raise answer
        return answer

    # -- bytes --------------------------------------------------------------------------------

    def _send(self, ticket: int, request: Message, version: int) -> None:
        self._correlation_id += 1
        settings = self._settings
        header = frame.request_header(
            request.API_KEY, version, self._correlation_id, settings.client_id
        )
        try:
            parts = frame.finish(request.encode(version), header)
        except WireError as problem:
            raise UnsupportedByBroker(f"the broker is too old for this: {problem}") from None
        deadline_s = time.monotonic() + settings.request_timeout_ms / 1000
        sent = _Sent(ticket, self._correlation_id, request.API_KEY, version, deadline_s)
        try:
            self._socket.settimeout(settings.request_timeout_ms / 1000)
            self._socket.sendall(b"".join(parts))
        except OSError as problem:
            raise Unreachable(f"{self._name}: {_words(problem)}") from None
        self._sent.append(sent)

    def _read_once(self, timeout_s: float) -> None:
        try:
            self._socket.settimeout(max(timeout_s, 0.001))
            if self._body is None:
                count = self._socket.recv_into(memoryview(self._head)[self._filled :])
            else:
                count = self._socket.recv_into(memoryview(self._body)[self._filled :])
        except OSError as problem:
            raise Unreachable(f"{self._name}: no answer: {_words(problem)}") from None
        if not count:
            raise Unreachable(f"{self._name} closed the connection")
        self._filled += count
        if self._body is None:
            if self._filled == len(self._head):
                self._start_body()
        elif self._filled == self._length:
            self._finish_body(self._body)
        elif self._filled == len(self._body):
            self._body += bytes(min(len(self._body), self._length - self._filled))

    def _start_body(self) -> None:
        (length,) = _LENGTH.unpack(self._head)
        if not _LENGTH.size <= length <= self._bytes_max:
            raise UnsupportedByBroker(
                f"{self._name}: an answer of {length} bytes: is it a Kafka broker, and is security.protocol right?"
            )
        self._body = bytearray(min(length, FIRST_BYTES))
        self._length, self._filled = length, 0

    def _finish_body(self, body: bytearray) -> None:
        self._body, self._filled = None, 0
        if not self._sent:
            raise UnsupportedByBroker(f"{self._name}: an answer to no request")
        sent = self._sent[0]  # still waiting if what came is nonsense
        answer = self._decode(sent, body)
        self._sent.popleft()
        self._answers.append((sent.ticket, answer))

    def _decode(self, sent: _Sent, body: bytearray) -> Any:  # noqa: ANN401  # the response class
        header = frame.response_header(sent.correlation_id, sent.api_key, sent.version)
        if body[: len(header)] != header:
            raise UnsupportedByBroker(f"{self._name}: an answer to another request")
        _, response_type = frame.message_types(sent.api_key)
        version = sent.version
        try:
            if sent.api_key == ApiVersionsRequest.API_KEY and _is_too_new(body, len(header)):
                version = 0
            return response_type.decode(memoryview(body), version, len(header))
        except WireError as problem:
            return UnsupportedByBroker(f"{self._name}: an answer that cannot be read: {problem}")


def _is_too_new(body: bytearray, start: int) -> bool:
    """Tell whether ApiVersions was refused in its version: that is said in version 0 (KIP-511)."""
    return bytes(body[start : start + 2]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def _words(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "timed out"
    return (problem.strerror or str(problem)).lower()
