"""`barnabas config`: settings of a topic or a broker, read and changed.

One job: the command line around cli/settings.py. Changes are incremental: what is not named
stays.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.completion import topic_names
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure, nearest
from barnabas.cli.options import setting
from barnabas.cli.output import emit, meaning, table
from barnabas.cli.settings import (
    BROKER,
    TOPIC,
    Change,
    Setting,
    alter_or_fail,
    plan_changes,
    read_settings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.cli.connection import Connection

KIND = click.argument("kind", type=click.Choice((TOPIC, BROKER)))


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return topic_names(ctx, param, incomplete) if ctx.params.get("kind") == TOPIC else []


NAME = click.argument("name", shell_complete=_complete_name)


@click.group()
def config() -> None:
    """Get and set settings of topics and brokers."""


@config.command()
@KIND
@NAME
@click.argument("key", required=False)
@click.option("--all", "show_all", is_flag=True, help="Also settings that nobody has set.")
@click.option("--synonyms", is_flag=True, help="Where the value was looked for, in order.")
@click.option("--documentation", "--doc", is_flag=True, help="What each setting does.")
@connected
def get(
    connection: Connection,
    kind: str,
    name: str,
    key: str | None,
    **show: bool,
) -> None:
    """Show settings of a topic or a broker (NAME is the broker's id).

    Without KEY: the settings that differ from their defaults, or --all.
    """
    settings = read_settings(connection, kind, name)
    if key is not None and key not in settings:
        raise Failure(f"{kind} {name} has no setting {key}", nearest(key, settings))
    shown = [
        entry
        for entry in settings.values()
        if (entry.name == key if key else show["show_all"] or not entry.is_default)
    ]
    documentation = _documentation(kind) if show["documentation"] else {}
    if not connection.wants_table:
        emit(
            [_with_documentation(entry, documentation, show) for entry in shown], connection.output
        )
    elif not shown:
        click.echo(f"{kind} {name} has all settings at their defaults; --all shows them")
    else:
        _print_settings(shown, documentation, synonyms=show["synonyms"])


def _documentation(kind: str) -> dict[str, str]:
    """Kafka's documentation by setting. The broker's own text is not in librdkafka's answers."""
    from barnabas.model.config.tables import BROKER_SETTINGS
    from barnabas.model.config.topic_table import TOPIC_SETTINGS

    definitions = TOPIC_SETTINGS if kind == TOPIC else BROKER_SETTINGS
    return {name: definition.documentation for name, definition in definitions.items()}


def _with_documentation(
    entry: Setting, documentation: dict[str, str], show: dict[str, bool]
) -> dict[str, Any]:
    described = entry.as_dict()
    if show["documentation"]:
        described["documentation"] = documentation.get(entry.name)
    return described


def _print_settings(
    shown: Sequence[Setting], documentation: dict[str, str], *, synonyms: bool
) -> None:
    headings = ["SETTING", "VALUE", "SOURCE", "DEFAULT", "MEANING"]
    rows = [
        [
            entry.name,
            "(secret)" if entry.sensitive and entry.value is None else entry.value,
            entry.source + (" (read only)" if entry.read_only else ""),
            entry.default,
            meaning(entry.name, entry.value) or "",
        ]
        for entry in shown
    ]
    if not (synonyms or documentation):
        click.echo(table(headings, rows))
        return
    for entry, row in zip(shown, rows, strict=True):
        click.echo(table(headings, [row]))
        for name, value, source in entry.synonyms if synonyms else ():
            click.echo(f"  {name}={value} from {source}")
        if entry.name in documentation:
            click.echo(textwrap.indent(textwrap.fill(documentation[entry.name], 96), "  "))
        click.echo()


@config.command("set")
@KIND
@NAME
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...", callback=setting)
@click.option(
    "--delete", "-d", "deleted", multiple=True, metavar="KEY", help="Back to the default. Repeat."
)
@click.option("--dry-run", is_flag=True, help="Let the broker check it and change nothing.")
@connected
def set_(
    connection: Connection,
    kind: str,
    name: str,
    pairs: dict[str, str],
    deleted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change settings of a topic or a broker; those not named stay as they are."""
    if not pairs and not deleted:
        raise click.UsageError("nothing to change: give KEY=VALUE, or --delete KEY")
    current = read_settings(connection, kind, name)
    changes = plan_changes(current, pairs, deleted)
    alter_or_fail(connection, (kind, name), changes, current, dry_run=dry_run)
    report_changes(connection, kind, name, changes, dry_run=dry_run)


def report_changes(
    connection: Connection, kind: str, name: str, changes: Sequence[Change], *, dry_run: bool
) -> None:
    """Print what was changed, or would be."""
    if not connection.wants_table:
        data = {
            kind: name,
            "applied": not dry_run,
            "changes": [change.as_dict() for change in changes],
        }
        emit(data, connection.output)
        return
    for change in changes:
        before = "(default)" if change.before is None else change.before
        after = "(default)" if change.after is None else change.after
        click.echo(f"{name}: {change.name} {before} -> {after}")
    if dry_run:
        click.echo("dry run: the broker would accept this; nothing was changed", err=True)
