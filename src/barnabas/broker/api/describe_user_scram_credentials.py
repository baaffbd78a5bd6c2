"""DescribeUserScramCredentials: who can log in by SCRAM, and with how many iterations; nothing that would help to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.core.sasl.scram_credential import MECHANISM_NUMBERS
from barnabas.model.errors import ErrorCode, shortened
from barnabas.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.users import Users


def handle(call: Call) -> DescribeUserScramCredentialsResponse:
    """Describe the users that are named, or all."""
    request: DescribeUserScramCredentialsRequest = call.request
    users = call.node.users
    asked = Counter(user.name for user in request.users or ())
    results = [
        _describe(users, name, is_twice=count > 1)
        for name, count in (asked or dict.fromkeys(users.names(), 1)).items()
    ]
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, results=results)


def _describe(users: Users, name: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    found = users.mechanisms(name)
    code, message = ErrorCode.NONE, None
    if is_twice:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        found = {}
    elif not found:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    infos = [
        CredentialInfo(mechanism=MECHANISM_NUMBERS[mechanism], iterations=credential.iterations)
        for mechanism, credential in found.items()
    ]
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=code,
        error_message=None if message is None else shortened(message),
        credential_infos=infos,
    )


def refuse(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    """Refuse; nobody is described, and as in Kafka that is told of everybody who was named, too."""
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=[
            DescribeUserScramCredentialsResult(
                user=user.name, error_code=code, error_message=message
            )
            for user in request.users or ()
        ],
    )
