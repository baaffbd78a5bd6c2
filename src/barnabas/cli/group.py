"""`barnabas group`: list, describe, delete; reset, seek and offsets are in files of their own.

One job: the command line around the admin requests for groups. With several names each stands alone: one that
fails does not stop the others, and the exit code is 1.
"""

from __future__ import annotations

import fnmatch
import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.completion import group_names
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure, failure, hint_for, reason
from barnabas.cli.group_describe import describe
from barnabas.cli.group_offsets import offsets
from barnabas.cli.group_reset import reset, seek
from barnabas.cli.group_view import (
    NOT_FOUND,
    STATES,
    TYPES,
    describe_groups,
    in_use,
    list_groups,
    missing_group,
)
from barnabas.cli.output import counted, emit, table
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection


@click.group()
def group() -> None:
    """Consumer groups: list, describe with lag, move their offsets, delete."""


group.add_command(describe)
group.add_command(reset)
group.add_command(seek)
group.add_command(offsets)


# -- list ------------------------------------------------------------------------------------


@group.command("list")
@click.argument("pattern", required=False)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([s for s in STATES.values() if s != "Dead"], case_sensitive=False),
    help="Only groups in this state. Repeat.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(list(TYPES.values()), case_sensitive=False),
    help="Only groups of this protocol. Repeat.",
)
@connected
def list_(
    connection: Connection, pattern: str | None, states: tuple[str, ...], types: tuple[str, ...]
) -> int:
    """List groups; PATTERN is a shell pattern such as 'billing-*'.

    \b
    barnabas group list --state Empty
    barnabas group list 'billing-*' --type consumer -o json
    """
    listings, errors = list_groups(connection)
    shown = [
        listing
        for listing in listings
        if fnmatch.fnmatchcase(listing.name, pattern or "*")
        and (not states or listing.state in states)
        and (not types or listing.type in types)
    ]
    if not connection.wants_table:
        emit([listing.as_dict() for listing in shown], connection.output)
    elif shown:
        rows = [(listing.name, listing.type, listing.state) for listing in shown]
        click.echo(table(("GROUP", "TYPE", "STATE"), rows))
    elif not errors:
        chosen = pattern or states or types
        click.echo("no group matches" if chosen else "there are no groups", err=True)
    for error in errors:
        failure("groups of one broker", error).show()
    return int(bool(errors))


# -- delete ----------------------------------------------------------------------------------


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=group_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="A group that is not there is fine.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted and change nothing.")
@connected
def delete(connection: Connection, names: tuple[str, ...], **how: bool) -> int:
    """Delete groups and what they committed. Asks first when run on a terminal.

    A group with members is not deleted: stop them first.
    """
    found, missing = describe_groups(connection, list(dict.fromkeys(names)))
    free = [name for name, view in found.items() if not view.members]
    if free and not how["dry_run"]:
        _confirm(free, how["yes"])
    problems: dict[str, Failure] = {
        name: missing_group(connection, name, error)
        for name, error in missing.items()
        if error is not None or not how["if_exists"]
    }
    problems |= {name: in_use(view, "deleted") for name, view in found.items() if view.members}
    results = {name: "missing" for name in missing if name not in problems}
    if how["dry_run"]:
        results |= dict.fromkeys(free, "would delete")
    elif free:
        _delete(connection, free, results, problems)
    return _report(connection, results, problems)


def _confirm(names: Sequence[str], yes: bool) -> None:
    if yes or not sys.stdin.isatty():
        return
    what = (
        f"group {names[0]}"
        if len(names) == 1
        else f"{counted(len(names), 'group')} ({', '.join(names)})"
    )
    if not click.confirm(f"Delete {printable(what)} and all committed offsets?", err=True):
        raise Failure("nothing was deleted")


def _delete(
    connection: Connection,
    names: list[str],
    results: dict[str, str],
    problems: dict[str, Failure],
) -> None:
    answers = connection.admin().delete_consumer_groups(names, request_timeout=connection.timeout_s)
    for name, future in answers.items():
        _, error = connection.outcome(future)
        if error is None:
            results[name] = "deleted"
        else:
            problems[name] = _refused(connection, name, error)


def _refused(connection: Connection, name: str, error: KafkaError) -> Failure:
    if error.name() == "NON_EMPTY_GROUP":  # somebody joined since we looked
        found, _ = describe_groups(connection, [name])
        if name in found:
            return in_use(found[name], "deleted")
    if error.name() == NOT_FOUND:
        return missing_group(connection, name, None)
    return Failure(f"group {name}: {reason(error)}", hint_for(error))


_SENTENCES = {
    "deleted": "deleted group {}",
    "would delete": "group {} would be deleted; nothing was done (dry run)",
    "missing": "group {} does not exist",
}


def _report(connection: Connection, results: dict[str, str], problems: dict[str, Failure]) -> int:
    if connection.wants_table:
        for name, done in results.items():
            click.echo(_SENTENCES[done].format(printable(name)))
    else:
        emit(
            [_outcome(name, done, None) for name, done in results.items()]
            + [_outcome(name, "failed", problem) for name, problem in problems.items()],
            connection.output,
        )
    for problem in problems.values():
        problem.show()
    return int(bool(problems))


def _outcome(name: str, done: str, problem: Failure | None) -> dict[str, Any]:
    error = None if problem is None else {"message": problem.message, "hint": problem.hint}
    return {"group": name, "result": done, "error": error}
