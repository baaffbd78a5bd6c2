"""`barnabas group offsets`: what a group committed, as it is stored, and removing it.

One job: raw committed offsets with leader epoch and metadata; `offsets delete` forgets them. Lag is in `group describe`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.completion import group_names, topic_names
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure, failure
from barnabas.cli.group_offset_deletion import delete_offsets
from barnabas.cli.group_plan import Scope, parse_scope
from barnabas.cli.group_view import (
    Committed,
    Place,
    describe_groups,
    in_use,
    missing_group,
    read_committed,
)
from barnabas.cli.output import counted, emit, table
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection


class ShowByDefault(click.Group):
    """A group whose first word may be a name instead of a verb: `offsets NAME` is `offsets show NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `show` in front when no verb stands there."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ShowByDefault)
def offsets() -> None:
    """Show what groups committed, or remove it.

    \b
    barnabas group offsets billing
    barnabas group offsets delete billing --topic old-orders

    A group that is called `delete`: barnabas group offsets show delete
    """


# -- show ------------------------------------------------------------------------------------


@offsets.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=group_names)
@connected
def show(connection: Connection, names: tuple[str, ...]) -> int:
    """Show committed offsets with leader epoch and metadata."""
    wanted = list(dict.fromkeys(names))
    committed = read_committed(connection, wanted)
    missing = _missing(connection, [name for name in wanted if not committed[name]])
    shown = {name: entries for name, entries in committed.items() if name not in missing}
    if connection.wants_table:
        rows = [_row(name, entry) for name, found in shown.items() for entry in found.values()]
        if rows:
            click.echo(table(_HEADINGS, rows))
        elif shown:
            click.echo("nothing is committed", err=True)
    else:
        emit([_as_dict(name, found) for name, found in shown.items()], connection.output)
    for name, error in missing.items():
        missing_group(connection, name, error).show()
    return int(bool(missing))


def _missing(connection: Connection, names: Sequence[str]) -> dict[str, KafkaError | None]:
    """Of groups without offsets those that do not exist."""
    return describe_groups(connection, names)[1] if names else {}


_HEADINGS = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "LEADER EPOCH", "METADATA")


def _row(name: str, entry: Committed) -> tuple[object, ...]:
    return name, *entry.place, entry.offset, entry.leader_epoch, entry.metadata or None


def _as_dict(name: str, entries: dict[Place, Committed]) -> dict[str, Any]:
    """The stable keys of `group offsets -o json`."""
    return {
        "group": name,
        "partitions": [
            {
                "topic": entry.place.topic,
                "partition": entry.place.partition,
                "committed_offset": entry.offset,
                "leader_epoch": entry.leader_epoch,
                "metadata": entry.metadata,
            }
            for entry in entries.values()
        ],
    }


# -- delete ----------------------------------------------------------------------------------


def _scopes(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> list[Scope]:
    try:
        return [parse_scope(text) for text in texts]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@offsets.command()
@click.argument("name", shell_complete=group_names)
@click.option(
    "-t",
    "--topic",
    "scopes",
    multiple=True,
    required=True,
    metavar="TOPIC[:P,P]",
    callback=_scopes,
    shell_complete=topic_names,
    help="Topic, or partitions of it, whose offsets go. Repeat.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed and change nothing.")
@connected
def delete(connection: Connection, name: str, scopes: list[Scope], yes: bool, dry_run: bool) -> int:
    """Remove what a group committed for topics it does not read any more.

    Allowed while the group has members, as long as none of them subscribes to the topic.
    """
    committed = read_committed(connection, [name])[name]
    if not committed:
        for problem in _missing(connection, [name]).values():
            raise missing_group(connection, name, problem)
    chosen = [place for place in committed if _is_in(place, scopes)]
    if not chosen:
        topics = sorted({place.topic for place in committed})
        hint = f"it has for: {', '.join(topics)}" if topics else None
        raise Failure(f"group {name} has no offsets there", hint)
    if not dry_run:
        _confirm(name, chosen, yes)
    errors = {} if dry_run else delete_offsets(connection, name, chosen)
    return _report(connection, name, [committed[place] for place in chosen], errors, dry_run)


def _is_in(place: Place, scopes: Sequence[Scope]) -> bool:
    return any(
        scope.topic == place.topic
        and (scope.partitions is None or place.partition in scope.partitions)
        for scope in scopes
    )


def _confirm(name: str, chosen: Sequence[Place], yes: bool) -> None:
    if yes or not sys.stdin.isatty():
        return
    if not click.confirm(f"Remove {counted(len(chosen), 'offset')} of group {name}?", err=True):
        raise Failure("nothing was removed")


def _report(
    connection: Connection,
    name: str,
    chosen: Sequence[Committed],
    errors: dict[Place, KafkaError],
    dry_run: bool,
) -> int:
    done = "would delete" if dry_run else "deleted"
    results = [(entry, "failed" if entry.place in errors else done) for entry in chosen]
    if connection.wants_table:
        for entry, result in results:
            if result != "failed":
                words = "would be removed; nothing was done (dry run)" if dry_run else "removed"
                click.echo(f"{printable(name)}: {entry.place} offset {entry.offset} {words}")
    else:
        listed = [
            {
                "topic": entry.place.topic,
                "partition": entry.place.partition,
                "committed_offset": entry.offset,
                "result": result,
                "error": errors[entry.place].name() if entry.place in errors else None,
            }
            for entry, result in results
        ]
        emit({"group": name, "partitions": listed}, connection.output)
    for place, error in errors.items():
        _problem(connection, name, place, error).show()
    return int(bool(errors))


def _problem(connection: Connection, name: str, place: Place, error: KafkaError) -> Failure:
    if error.name() == "GROUP_SUBSCRIBED_TO_TOPIC":
        return Failure(
            f"group {name}: a member subscribes to {place.topic}",
            f"stop its consumers first; `barnabas group describe {name} --members` shows them",
        )
    if error.name() == "NON_EMPTY_GROUP":
        found, _ = describe_groups(connection, [name])
        if name in found:
            return in_use(found[name], "changed")
    return failure(f"group {name}: {place}", error)
