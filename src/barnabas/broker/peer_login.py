"""The login of a connection that this broker opens to another one.

Job: SaslHandshake and SaslAuthenticate, one after the other, around a mechanism's machine. Must not know: sockets, where the password
comes from. Invariants: nothing else is sent before it is done; a server that does not prove itself, where the mechanism asks for that, is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.core.sasl.mechanism import LoginRefused
from barnabas.model.errors import ErrorCode
from barnabas.wire import frame
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.primitives import WireError

if TYPE_CHECKING:
    from barnabas.core.sasl.mechanism import LoginClient
    from barnabas.wire.primitives import Message

_CLIENT_ID: Final = "broker"
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1


class PeerLogin:
    """One login, request by request."""

    def __init__(self, mechanism: str, client: LoginClient) -> None:
        """Take how to log in."""
        self._mechanism = mechanism
        self._client = client
        self._sent = 0
        #: For how long the login holds, once it is done; 0 is without an end.
        self.lifetime_ms = 0
        self.is_done = False

    def first_request(self) -> list[Any]:
        """Give what is sent first."""
        return self._request(SaslHandshakeRequest(mechanism=self._mechanism), _HANDSHAKE_VERSION)

    def on_reply(self, reply: memoryview) -> list[Any]:
        """Take a reply; what is sent next, nothing once it is done. LoginRefused, or WireError, is the end."""
        if self._sent == 1:
            response = self._response(reply, SaslHandshakeRequest.API_KEY, _HANDSHAKE_VERSION)
            if response.error_code:
                offered = ", ".join(response.mechanisms)
                raise LoginRefused(f"it takes no login with {self._mechanism}; it offers {offered}")
            return self._authenticate(None)
        response = self._response(reply, SaslAuthenticateRequest.API_KEY, _AUTHENTICATE_VERSION)
        if response.error_code:
            why = response.error_message or ErrorCode(response.error_code).name
            raise LoginRefused(f"it refused this broker's login: {why}")
        self.lifetime_ms = response.session_lifetime_ms
        return self._authenticate(bytes(response.auth_bytes))

    def _authenticate(self, challenge: bytes | None) -> list[Any]:
        token = self._client.next_token(challenge)
        if self._client.is_done:
            self.is_done = True
            return []
        return self._request(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION)

    def _request(self, request: Message, version: int) -> list[Any]:
        self._sent += 1
        header = frame.request_header(request.API_KEY, version, self._sent, _CLIENT_ID)
        return frame.finish(request.encode(version), header)

    def _response(self, reply: memoryview, key: int, version: int) -> Any:  # noqa: ANN401
        header = frame.response_header(self._sent, key, version)
        if reply[: len(header)] != header:
            raise WireError("it is no answer to what was asked")
        _request, response_type = frame.message_types(key)
        return response_type.decode(reply, version, len(header))
