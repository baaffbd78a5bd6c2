"""SaslAuthenticate: one step of a login."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.sasl.mechanism import LoginRefused
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.authentication import Authenticator
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task


def handle(call: Call) -> SaslAuthenticateResponse | Task[SaslAuthenticateResponse]:
    """Take the client's token."""
    request: SaslAuthenticateRequest = call.request
    authenticator: Authenticator | None = call.link.authenticator
    if authenticator is None or not authenticator.awaits_token:
        message = "SaslAuthenticate request received after successful authentication"
        return refuse(request, ErrorCode.ILLEGAL_SASL_STATE, message)
    try:
        answer, lifetime_ms = authenticator.take(bytes(request.auth_bytes))
    except LoginRefused as refusal:
        return _refuse_late(call, authenticator, str(refusal))
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)


def _refuse_late(
    call: Call, authenticator: Authenticator, message: str
) -> Task[SaslAuthenticateResponse]:
    yield partial(call.node.pause, authenticator.refusal_delay_ms)
    call.link.close_when_sent()
    return refuse(call.request, ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def refuse(
    _request: SaslAuthenticateRequest, code: ErrorCode, message: str | None
) -> SaslAuthenticateResponse:
    """Refuse."""
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
