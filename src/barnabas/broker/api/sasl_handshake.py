"""SaslHandshake: agree on how to log in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from barnabas.broker.authentication import Authenticator
    from barnabas.broker.call import Call


def handle(call: Call) -> SaslHandshakeResponse:
    """Begin a login, also another one of a connection whose login is limited in time (KIP-368)."""
    request: SaslHandshakeRequest = call.request
    authenticator: Authenticator | None = call.link.authenticator
    if authenticator is None or not authenticator.may_begin():
        return refuse(request, ErrorCode.ILLEGAL_SASL_STATE, None)
    offered = authenticator.mechanisms
    if not authenticator.begin(request.mechanism, bare=call.version == 0):
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=offered)
    return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=offered)


def refuse(
    _request: SaslHandshakeRequest, code: ErrorCode, _message: str | None
) -> SaslHandshakeResponse:
    """Refuse; nothing is offered."""
    return SaslHandshakeResponse(error_code=code, mechanisms=[])
