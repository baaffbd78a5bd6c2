"""A client of our own for what librdkafka cannot ask, opened with a command's connection.

One job: from the options of a command to a `BlockingClient`, and from its errors to words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.failure import Failure
from barnabas.client.errors import AuthenticationFailed, ClientError
from barnabas.client.settings import ClientSettings, SettingError
from barnabas.runtime.blocking_client import BlockingClient

if TYPE_CHECKING:
    from barnabas.cli.connection import Connection


def open_client(connection: Connection) -> BlockingClient:
    """Connect; Failure if nobody answers, or does not let us in."""
    timeout_ms = str(int(connection.timeout_s * 1000))
    given = {
        "client.id": "barnabas-cli",
        "request.timeout.ms": timeout_ms,
        "default.api.timeout.ms": timeout_ms,
        "socket.connection.setup.timeout.ms": timeout_ms,
        **connection.settings,
        "bootstrap.servers": connection.bootstrap,
    }
    try:
        # Settings that mean something to librdkafka alone are its to check.
        settings = ClientSettings.parse(given, lenient=True)
    except SettingError as problem:
        raise click.UsageError(f"-X: {problem}") from None
    try:
        return BlockingClient(settings).connect()
    except AuthenticationFailed as problem:
        raise Failure(str(problem)) from None
    except ClientError as problem:
        raise Failure(f"no broker answered at {connection.bootstrap} ({problem})") from None
