"""A client of our own for what librdkafka cannot ask, opened with a command's connection.

One job: from the options of a command to a `BlockingClient`, and from its errors to words. It speaks plain connections only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.cli.failure import Failure
from barnabas.runtime.blocking_client import BlockingClient, ClientError

if TYPE_CHECKING:
    from barnabas.cli.connection import Connection

_PLAIN: Final = "plaintext"


def open_client(connection: Connection, what: str, instead: str) -> BlockingClient:
    """Connect; Failure if nobody answers, or if the connection would have to be secured.

    `what` cannot be done then, and `instead` is a tool of Apache Kafka that can do it.
    """
    protocol = connection.settings.get("security.protocol", _PLAIN)
    if protocol.lower() != _PLAIN:
        raise Failure(
            f"{what} over security.protocol={protocol} yet",
            f"use a plain listener, or Apache Kafka's {instead} tool",
        )
    try:
        return BlockingClient(
            connection.addresses, timeout_s=connection.timeout_s, client_id="barnabas-cli"
        )
    except ClientError as problem:
        raise Failure(f"no broker answered at {connection.bootstrap} ({problem})") from None
