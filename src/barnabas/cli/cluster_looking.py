"""How a command gets at a cluster: a `ClusterAdmin` after its connection, and errors in words. One job."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from barnabas.cli.cluster_admin import ClusterAdmin
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure
from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.connection import Connection


def administering(command: Callable[..., int]) -> Callable[..., int]:
    """Decorate a command: it gets a ClusterAdmin after the connection."""

    @connected
    @wraps(command)
    def run(connection: Connection, **values: Any) -> int:  # noqa: ANN401 - click's own values
        try:
            with ClusterAdmin(connection) as admin:
                return command(connection, admin, **values)
        except ClientError as problem:
            raise Failure(str(problem)) from None

    return run
