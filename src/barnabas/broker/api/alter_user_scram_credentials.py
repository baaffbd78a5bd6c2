"""AlterUserScramCredentials: who can log in by SCRAM. Passwords come salted: the broker never sees one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from barnabas.broker import audit
from barnabas.core.sasl.scram_credential import (
    HASHES,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISM_NUMBERS,
    from_salted,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call
    from barnabas.broker.tasks import Task
    from barnabas.broker.users import Users
    from barnabas.core.sasl.scram_credential import ScramCredential

_MECHANISMS = {number: mechanism for mechanism, number in MECHANISM_NUMBERS.items()}
_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(call: Call) -> Task[AlterUserScramCredentialsResponse]:
    """Change each user's credentials whole: all that the request says of one, or nothing."""
    request: AlterUserScramCredentialsRequest = call.request
    by_name: dict[str, list[_Change]] = {}
    for change in _changes(request):
        by_name.setdefault(change.name, []).append(change)
    results = []
    for name, changes in by_name.items():
        code, message = ErrorCode.NONE, None
        try:
            planned = _plan(call.node.users, name, changes)
            yield from call.node.users.change(name, planned)
            for mechanism, credential in planned.items():
                action = "delete" if credential is None else "set"
                audit.changed(call, action, "ScramCredential", name, mechanism=mechanism)
        except KafkaError as refusal:
            code, message = refusal.code, refusal.message
        results.append(
            AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
        )
    return AlterUserScramCredentialsResponse(results=results)


def _changes(request: AlterUserScramCredentialsRequest) -> list[_Change]:
    changes: list[_Change] = [*request.deletions]
    return [*changes, *request.upsertions]


def _plan(users: Users, name: str, changes: list[_Change]) -> dict[str, ScramCredential | None]:
    planned: dict[str, ScramCredential | None] = {}
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    for change in changes:
        mechanism = _MECHANISMS.get(change.mechanism)
        if mechanism is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if mechanism in planned:
            raise KafkaError(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        if isinstance(change, ScramCredentialUpsertion):
            planned[mechanism] = _credential(mechanism, change)
            continue
        if users.find(mechanism, name) is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        planned[mechanism] = None
    return planned


def _credential(mechanism: str, change: ScramCredentialUpsertion) -> ScramCredential:
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    problem = None
    if change.iterations < ITERATIONS_MIN:
        problem = "Too few iterations"
    elif change.iterations > ITERATIONS_MAX:
        problem = "Too many iterations"
    elif not salt or len(salted) != hashlib.new(HASHES[mechanism]).digest_size:
        problem = "Salt and salted password do not fit the mechanism"
    if problem is not None:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    return from_salted(mechanism, salted, salt, change.iterations)


def refuse(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """Refuse for everybody who is named."""
    names = dict.fromkeys(change.name for change in _changes(request))
    results = [
        AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
        for name in names
    ]
    return AlterUserScramCredentialsResponse(results=results)
