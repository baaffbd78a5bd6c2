"""`barnabas quota`: how much users, client ids and addresses may do.

One job: the command line around AlterClientQuotas and DescribeClientQuotas, which librdkafka lacks. Works against any Kafka since 2.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure
from barnabas.cli.output import emit, table
from barnabas.cli.own_client import open_client
from barnabas.client.errors import ClientError
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.cli.connection import Connection
    from barnabas.wire.primitives import Message

KINDS: Final = ("user", "client-id", "ip")
#: How a default is shown: no name is written so.
DEFAULT: Final = "<default>"
_EXACT, _BY_DEFAULT = 0, 1
_KEYS: Final = {
    "producer_byte_rate": "Bytes per second of Produce requests, on each broker.",
    "consumer_byte_rate": "Bytes per second of Fetch answers, on each broker.",
    "request_percentage": "Share of a broker's time: 100 is one thread, all the time.",
    "controller_mutation_rate": "Partitions created or deleted per second.",
    "connection_creation_rate": "New connections per second of an address, on each broker.",
}


@dataclass(frozen=True, slots=True)
class Entity:
    """Who is meant: names by kind, None for the default of that kind."""

    names: dict[str, str | None]

    def __str__(self) -> str:
        """Name it for people."""
        return ", ".join(f"{kind} {name or DEFAULT}" for kind, name in self.names.items())


@click.group()
def quota() -> None:
    """Limit how much users, client ids and addresses may do."""


def _naming(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: it gets the connection and who is meant."""

    @click.option("--user", metavar="NAME", help="The user of a login.")
    @click.option("--client-id", metavar="ID", help="What clients call themselves.")
    @click.option("--ip", metavar="ADDRESS", help="Where connections come from.")
    @click.option(
        "--default", "defaults", multiple=True, type=click.Choice(KINDS),
        help="Whoever has no quota of their own of this kind. Repeat.",
    )  # fmt: skip
    @connected
    @wraps(command)
    def run(connection: Connection, defaults: tuple[str, ...], **values: Any) -> None:  # noqa: ANN401 - click's own values
        names: dict[str, str | None] = {}
        for kind, option in (("user", "user"), ("client-id", "client_id"), ("ip", "ip")):
            name = values.pop(option)
            if name is not None and kind in defaults:
                raise click.UsageError(f"--{kind} and --default {kind} exclude each other")
            if name is not None or kind in defaults:
                names[kind] = name
        if "ip" in names and len(names) > 1:
            raise click.UsageError("an address goes with neither a user nor a client id")
        command(connection, Entity(names), **values)

    return run


def _check_named(entity: Entity) -> None:
    if not entity.names:
        raise click.UsageError("say who: --user, --client-id, --ip, or --default")


def _amounts(command: Callable[..., None]) -> Callable[..., None]:
    for key, about in reversed(_KEYS.items()):
        option = f"--{key.replace('_', '-')}"
        command = click.option(option, key, type=float, metavar="N", help=about)(command)
    return command


@quota.command("set")
@_amounts
@click.option("--dry-run", is_flag=True, help="Let the broker check it and change nothing.")
@_naming
def set_(connection: Connection, entity: Entity, dry_run: bool, **amounts: float | None) -> None:
    """Set quotas of a user, a client id, both, or an address; those not named stay as they are."""
    _check_named(entity)
    changes = {key: amount for key, amount in amounts.items() if amount is not None}
    if not changes:
        raise click.UsageError("nothing to set: say how much, as in --producer-byte-rate 1048576")
    _alter(connection, entity, changes, dry_run=dry_run)
    _report(connection, entity, changes, dry_run=dry_run)


@quota.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--dry-run", is_flag=True, help="Let the broker check it and change nothing.")
@_naming
def remove(connection: Connection, entity: Entity, keys: tuple[str, ...], dry_run: bool) -> None:
    """Remove quotas of a user, a client id, both, or an address: those named, or all it has."""
    _check_named(entity)
    wanted = [key.replace("-", "_") for key in keys]
    for key in wanted:
        if key not in _KEYS:
            raise click.UsageError(f"no quota is called {key}; there are: {', '.join(_KEYS)}")
    there = [found["quotas"] for found in _describe(connection, entity, strict=True)]
    held = there[0] if there else {}
    changes: dict[str, float | None] = dict.fromkeys(
        [key for key in wanted or held if key in held], None
    )
    if not changes:
        raise Failure(f"{entity} has no such quota" if wanted else f"{entity} has no quota")
    _alter(connection, entity, changes, dry_run=dry_run)
    _report(connection, entity, changes, dry_run=dry_run)


@quota.command("list")
@_naming
def list_(connection: Connection, entity: Entity) -> None:
    """List quotas, of all or of those that are named."""
    found = _describe(connection, entity, strict=False)
    if not connection.wants_table:
        emit(found, connection.output)
    elif not found:
        click.echo("no quotas are set")
    else:
        rows = [
            [one["user"], one["client_id"], one["ip"], key, f"{value:,.12g}"]
            for one in found
            for key, value in one["quotas"].items()
        ]
        click.echo(table(["USER", "CLIENT ID", "IP", "QUOTA", "VALUE"], rows))


def _ask(connection: Connection, request: Message) -> Any:  # noqa: ANN401 - its response class
    try:
        with open_client(connection) as client:
            return client.ask(client.brokers()[0], request)
    except ClientError as problem:
        raise Failure(str(problem)) from None


def _describe(connection: Connection, entity: Entity, *, strict: bool) -> list[dict[str, Any]]:
    components = [
        ComponentData(
            entity_type=kind, match_type=_BY_DEFAULT if name is None else _EXACT, match=name
        )
        for kind, name in entity.names.items()
    ]
    answer = _ask(connection, DescribeClientQuotasRequest(components=components, strict=strict))
    _check(answer.error_code, answer.error_message)
    found = []
    for entry in answer.entries or ():
        names = {part.entity_type: part.entity_name or DEFAULT for part in entry.entity}
        found.append(
            {
                "user": names.get("user"),
                "client_id": names.get("client-id"),
                "ip": names.get("ip"),
                "quotas": {value.key: value.value for value in entry.values},
            }
        )
    return sorted(
        found, key=lambda one: [str(one[key] or "") for key in ("ip", "user", "client_id")]
    )


def _alter(
    connection: Connection, entity: Entity, changes: Mapping[str, float | None], *, dry_run: bool
) -> None:
    entry = RequestEntryData(
        entity=[
            EntityData(entity_type=kind, entity_name=name) for kind, name in entity.names.items()
        ],
        ops=[
            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in changes.items()
        ],
    )
    answer = _ask(connection, AlterClientQuotasRequest(entries=[entry], validate_only=dry_run))
    for one in answer.entries:
        _check(one.error_code, one.error_message)


def _check(code: int, message: str | None) -> None:
    if code:
        error = ErrorCode(code)
        raise Failure(f"refused: {message or error.message} ({error.name})")


def _report(
    connection: Connection, entity: Entity, changes: Mapping[str, float | None], *, dry_run: bool
) -> None:
    if not connection.wants_table:
        names = {kind: name or DEFAULT for kind, name in entity.names.items()}
        emit(
            {
                "user": names.get("user"),
                "client_id": names.get("client-id"),
                "ip": names.get("ip"),
                "applied": not dry_run,
                "quotas": dict(changes),
            },
            connection.output,
        )
        return
    for key, value in changes.items():
        what = "removed" if value is None else f"{value:,.12g}"
        click.echo(f"{entity}: {key} {what}")
    if dry_run:
        click.echo("checked only: nothing was changed")
