"""`barnabas logs`: searching what the pipeline of the template 'logs' has indexed.

One job: the command line of a search, and its findings as lines or JSON. Needs no broker and no Spark. What events say comes from anybody,
so everything that is shown is made fit for a terminal first.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from barnabas.cli.failure import Failure
from barnabas.cli.moment import moment_ms
from barnabas.cli.output import counted
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from barnabas.pipelines.search.fields import Event

_COLOURS = {"error": "red", "critical": "red", "warning": "yellow"}


def _time(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return moment_ms(text, time.time_ns() // 1_000_000)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


@click.group()
def logs() -> None:
    """Search logs that the pipeline of the template 'logs' has indexed."""


class _SearchCommand(click.Command):
    """Says how a query that begins with a minus is written, which looks like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        typed = [*args]  # click takes them away one by one
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            letter = problem.option_name.removeprefix("-")
            for word in typed:
                if word.startswith("-") and not word.startswith("--") and letter in word:
                    hint = f"A query that leaves out begins with what to find: '* {word}'"
                    raise click.UsageError(f"{problem.format_message()} {hint}", ctx) from None
            raise


@logs.command(cls=_SearchCommand)
@click.argument("query", required=False, default="*")
@click.option(
    "--index",
    "folder",
    envvar="BARNABAS_LOGS_INDEX",
    default=".barnabas/index",
    show_default=True,
    help="Folder of the index.",
)
@click.option("--since", callback=_time, help="Only what is newer: 1h, 2d, 2026-11-15T10:00.")
@click.option("--until", callback=_time, help="Only what is older.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def search(
    query: str, folder: str, since: int | None, until: int | None, limit: int, *, as_json: bool
) -> None:
    """Find events; the newest are shown, in the order of time.

    \b
      barnabas logs search 'level:error AND "time out"' --since 1h
      barnabas logs search 'app:checkout -level:debug details.status:503'

    Words are looked for in message, stack and source, and all must be there; OR and brackets as usual, "two words" stand together, message:/begin.*/ is a
    pattern of words. Fields: level, source, host, app, format, message, stack, place, details.NAME.
    """
    from barnabas.pipelines.problem import PipelineProblem

    try:
        from barnabas.pipelines.search.finding import LogIndex
    except ModuleNotFoundError as missing:
        if missing.name != "tantivy":
            raise
        hint = "pip install 'barnabas[pipelines]'"
        raise Failure("the library for searching is missing", hint) from None

    try:
        found = LogIndex(folder).search(query, since_ms=since, until_ms=until, limit=limit)
    except PipelineProblem as problem:
        raise Failure(str(problem)) from None
    for event in reversed(found.events):
        click.echo(_json(event) if as_json else _shown(event))
    if not as_json:
        click.echo(_summary(len(found.events), found.total), err=True)


def _summary(shown: int, total: int) -> str:
    if total > shown:
        return f"{counted(total, 'event')}, of which the newest {shown:,} are shown (--limit)"
    return counted(total, "event")


def _json(event: Event) -> str:
    # Escaped, so that it is fit for a terminal as well; programs read the same text from it.
    import json

    return json.dumps(event.as_json())


def _shown(event: Event) -> str:
    texts = event.texts
    level = texts.get("level", "")
    source = texts.get("source", "-")
    head = f"{_moment(event.time_ms)}  {level.upper():8} {source}  {texts.get('message', '')}"
    lines = [click.style(printable(head), fg=_COLOURS.get(level))]
    lines += [f"    {printable(line)}" for line in texts.get("stack", "").splitlines()]
    return "\n".join(lines)


def _moment(time_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"
