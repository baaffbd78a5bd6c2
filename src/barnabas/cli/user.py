"""`barnabas user`: who can log in by SCRAM.

One job: the command line around AlterUserScramCredentials and DescribeUserScramCredentials; with --data-dir the store of a broker that does
not run, for the first administrator. Passwords are never printed, and best not typed where others see them: without --password the
command asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure
from barnabas.cli.output import emit, table
from barnabas.core.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from barnabas.core.sasl.scram_credential import (
    HASHES,
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISM_NUMBERS,
    derive,
)
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.connection import Connection

SALT_BYTES: Final = 16
_MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)
NAME = click.argument("name")
MECHANISM = click.option(
    "--mechanism", "mechanisms", multiple=True, type=click.Choice(_MECHANISMS, case_sensitive=False),
    help="How the user logs in. Repeat. [default: both]",
)  # fmt: skip
DATA_DIR = click.option(
    "--data-dir", metavar="DIR", type=click.Path(file_okay=False),
    help="The data directory of a broker that does not run: for the first administrator, before the first start.",
)  # fmt: skip


@click.group()
def user() -> None:
    """Say who can log in by SCRAM."""


def _with_password(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        NAME,
        click.option(
            "--password", envvar="BARNABAS_USER_PASSWORD", prompt=True, hide_input=True,
            confirmation_prompt=True, help="Asked for if it is not given.",
        ),
        MECHANISM,
        click.option(
            "--iterations", type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX), default=ITERATIONS,
            show_default=True, help="How much work a guess is.",
        ),
        DATA_DIR,
        connected,
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@user.command()
@_with_password
def add(connection: Connection, name: str, data_dir: str | None, **given: Any) -> None:  # noqa: ANN401 - click's own values
    """Let a new user log in."""
    if data_dir is None and name in _read(connection, [name]):
        raise Failure(f"user {name} is there already", "user set-password changes the password")
    _set(connection, name, data_dir, **given)


@user.command("set-password")
@_with_password
def set_password(
    connection: Connection,
    name: str,
    data_dir: str | None,
    **given: Any,  # noqa: ANN401 - click's own values
) -> None:
    """Change a user's password."""
    if data_dir is None and name not in _read(connection, [name]):
        raise Failure(f"there is no user {name}", "user add makes one")
    _set(connection, name, data_dir, **given)


def _set(
    connection: Connection,
    name: str,
    data_dir: str | None,
    *,
    password: str,
    mechanisms: tuple[str, ...],
    iterations: int,
) -> None:
    if not name or not password:
        raise click.UsageError("a user has a name and a password")
    salt = os.urandom(SALT_BYTES)
    chosen = mechanisms or _MECHANISMS
    if data_dir is None:
        _upsert(connection, name, chosen, password.encode(), salt, iterations)
    else:
        # Imported here: nobody else needs a store.
        from barnabas.cli.offline_users import write_user

        write_user(data_dir, name, {one: derive(one, password, salt, iterations) for one in chosen})
    _report(connection, name, "can log in with", chosen)


@user.command()
@NAME
@MECHANISM
@connected
def delete(connection: Connection, name: str, mechanisms: tuple[str, ...]) -> None:
    """Let a user log in no more. Connections that are open stay until they log in again."""
    known = _read(connection, [name]).get(name)
    if not known:
        raise Failure(f"there is no user {name}")
    chosen = mechanisms or tuple(known)
    _ask_deletion(connection, name, chosen)
    _report(connection, name, "cannot log in any more with", chosen)


@user.command("list")
@connected
def list_(connection: Connection) -> None:
    """List who can log in by SCRAM."""
    found = _read(connection, [])
    if not connection.wants_table:
        users = [{"name": name, "mechanisms": found[name]} for name in sorted(found)]
        emit(users, connection.output)
    elif not found:
        click.echo("nobody can log in by SCRAM")
    else:
        rows = [
            [name, mechanism, str(iterations)]
            for name in sorted(found)
            for mechanism, iterations in sorted(found[name].items())
        ]
        click.echo(table(["USER", "MECHANISM", "ITERATIONS"], rows))


def _report(connection: Connection, name: str, what: str, mechanisms: tuple[str, ...]) -> None:
    if connection.wants_table:
        click.echo(f"user {name} {what} {' and '.join(mechanisms)}")
    else:
        emit({"name": name, "mechanisms": list(mechanisms)}, connection.output)


def _ask(connection: Connection, request: Any) -> Any:  # noqa: ANN401 - its response class
    # Imported here: with --data-dir there is nobody to ask.
    from barnabas.cli.own_client import open_client
    from barnabas.client.errors import ClientError

    try:
        with open_client(connection) as client:
            return client.ask(client.brokers()[0], request)
    except ClientError as problem:
        raise Failure(str(problem)) from None


def _read(connection: Connection, names: list[str]) -> dict[str, dict[str, int]]:
    from barnabas.wire.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        UserName,
    )

    users = [UserName(name=name) for name in names]
    answer = _ask(connection, DescribeUserScramCredentialsRequest(users=users or None))
    _check(answer.error_code, answer.error_message)
    by_number = {number: mechanism for mechanism, number in MECHANISM_NUMBERS.items()}
    found = {}
    for result in answer.results:
        if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            _check(result.error_code, result.error_message)
            infos = result.credential_infos
            found[result.user] = {by_number[one.mechanism]: one.iterations for one in infos}
    return found


def _upsert(
    connection: Connection, name: str, mechanisms: tuple[str, ...], password: bytes, salt: bytes, iterations: int
) -> None:  # fmt: skip
    import hashlib

    from barnabas.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )

    changes = [
        ScramCredentialUpsertion(
            name=name,
            mechanism=MECHANISM_NUMBERS[one],
            iterations=iterations,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(HASHES[one], password, salt, iterations),
        )
        for one in mechanisms
    ]
    _alter(connection, AlterUserScramCredentialsRequest(deletions=[], upsertions=changes))


def _ask_deletion(connection: Connection, name: str, mechanisms: tuple[str, ...]) -> None:
    from barnabas.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )

    changes = [
        ScramCredentialDeletion(name=name, mechanism=MECHANISM_NUMBERS[one]) for one in mechanisms
    ]
    _alter(connection, AlterUserScramCredentialsRequest(deletions=changes, upsertions=[]))


def _alter(connection: Connection, request: Any) -> None:  # noqa: ANN401 - a request
    for result in _ask(connection, request).results:
        _check(result.error_code, result.error_message)


def _check(code: int, message: str | None) -> None:
    if code:
        error = ErrorCode(code)
        raise Failure(f"refused: {message or error.message} ({error.name})")
