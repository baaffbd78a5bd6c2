"""`barnabas dlq`: what pipelines could not use, why, and sending it back.

One job: the command line. Letters are read in `dead_letters`, sent in `redrive`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.connection import connected
from barnabas.cli.dead_letters import Letters, Wanted, newest_of
from barnabas.cli.failure import Failure
from barnabas.cli.moment import moment_ms
from barnabas.cli.outlook import moment
from barnabas.cli.output import counted, emit, table
from barnabas.cli.printable import printable
from barnabas.cli.record import bytes_to_json
from barnabas.cli.redrive import Redrive, looked_at, plan
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.cli.connection import Connection
    from barnabas.cli.dead_letters import Letter, Place
    from barnabas.cli.redrive import Plan

_REASONS_SHOWN: Final = 3
_VALUE_SHOWN: Final = 500
_REFUSED_SHOWN: Final = 20


@click.group()
def dlq() -> None:
    """Dead letters: records that pipelines could not use, in topics named SOURCE.dlq.

    Each has the record as it was, and headers that say why and where from.
    """


def _since(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return moment_ms(value, SystemClock().now_ms())
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def _places(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> frozenset[Place]:
    found = set()
    for value in values:
        partition, colon, offset = value.rpartition(":")
        if not offset.isdecimal() or (colon and not partition.isdecimal()):
            raise click.BadParameter(f"'{value}' is not PARTITION:OFFSET, or OFFSET in partition 0")
        found.add((int(partition or 0), int(offset)))
    return frozenset(found)


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--reason", metavar="TEXT", help="Only letters whose reason has this text."),
        click.option("--since", metavar="TIME", callback=_since, help="Only letters of this time or later: 1h, 2026-11-15T10:00."),
        click.option("--offset", "places", multiple=True, metavar="[PARTITION:]OFFSET", callback=_places, help="Only this letter, by its place in the dead-letter topic. Repeat."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


# -- looking ---------------------------------------------------------------------------------


@dlq.command("list")
@connected
def list_(connection: Connection) -> None:
    """List the topics with dead letters: how many, how many were sent back, and why they are there."""
    letters = Letters(connection)
    rows = [_summary(topic, letters.read(topic)) for topic in letters.topics()]
    if not connection.wants_table:
        emit(rows, connection.output)
    elif not rows:
        click.echo("there are no dead letters: no topic is named SOURCE.dlq")
    else:
        headings = ("TOPIC", "LETTERS", "REDRIVEN", "NEWEST", "REASONS")
        shown = [(row["topic"], row["letters"], row["redriven"], moment(row["newest"]), _reasons(row["reasons"])) for row in rows]  # fmt: skip
        click.echo(table(headings, shown))


def _summary(topic: str, letters: Sequence[Letter]) -> dict[str, Any]:
    reasons = Counter(letter.reason for letter in letters if not letter.is_redriven)
    stamps = [letter.record.timestamp for letter in letters if letter.record.timestamp is not None]
    return {
        "topic": topic,
        "letters": len(letters),
        "redriven": sum(letter.is_redriven for letter in letters),
        "oldest": min(stamps, default=None),
        "newest": max(stamps, default=None),
        "reasons": dict(reasons.most_common()),
    }


def _reasons(reasons: dict[str, int]) -> str:
    shown = [f"{count} x {reason or '(none)'}" for reason, count in reasons.items()]
    more = len(shown) - _REASONS_SHOWN
    return "; ".join(shown[:_REASONS_SHOWN] + ([f"{more} more"] if more > 0 else []))


@dlq.command()
@click.argument("topic")
@_filters
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="How many at most, the newest.")  # fmt: skip
@connected
def show(
    connection: Connection, topic: str, count: int, reason: str | None, since: int | None, places: frozenset[Place]
) -> None:  # fmt: skip
    """Show dead letters of a topic: reason, where from, the record and the stack."""
    wanted = Wanted(reason, since, places)
    found = [letter for letter in Letters(connection).read(topic) if wanted.takes(letter)]
    newest = newest_of(found, count)
    if not connection.wants_table:
        emit([_as_json(letter) for letter in newest], connection.output)
        return
    for letter in newest:
        click.echo(_page(letter))
    if len(found) > count:
        click.echo(f"these are the newest {count} of {counted(len(found), 'letter')}: --count shows more")  # fmt: skip
    elif not found:
        click.echo(f"{topic} has no such letter")


def _as_json(letter: Letter) -> dict[str, Any]:
    record, told = letter.record, letter.told
    offset = told.get("offset", "")
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "redriven": letter.is_redriven,
        "reason": letter.reason,
        "column": told.get("column"),
        "source": {"topic": letter.source, "partition": letter.source_partition, "offset": int(offset) if offset.isdecimal() else None},
        "stack": told.get("stack"),
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": [{"key": name, "value": bytes_to_json(value)} for name, value in letter.headers],
    }  # fmt: skip


def _page(letter: Letter) -> str:
    record, told = letter.record, letter.told
    state = ", redriven" if letter.is_redriven else ""
    place = f"{letter.source or '?'}-{told.get('partition', '?')} at offset {told.get('offset', '?')}"  # fmt: skip
    lines = [
        click.style(f"{record.partition}:{record.offset}{state}", bold=True),
        f"  reason  {printable(letter.reason) or '-'}",
        f"  from    {place}",
        f"  time    {moment(record.timestamp) or '-'}",
        f"  key     {_shown(record.key)}",
        f"  value   {_shown(record.value)}",
    ]
    lines += [f"  header  {printable(name)}: {_shown(value)}" for name, value in letter.headers]
    stack = told.get("stack", "").rstrip().splitlines()
    return "\n".join([*lines, *(f"  | {printable(line)}" for line in stack)])


def _shown(data: bytes | None) -> str:
    if data is None:
        return "(null)"
    text = printable(data[:_VALUE_SHOWN].decode("utf-8", "backslashreplace"))
    return f"{text} … ({counted(len(data), 'byte')})" if len(data) > _VALUE_SHOWN else text


# -- sending back ----------------------------------------------------------------------------


@dlq.command()
@click.argument("topic")
@_filters
@click.option("--to", metavar="TOPIC", help="Where to; else each goes where it came from.")
@click.option("--keep-timestamps", is_flag=True, help="Send records with the time they had; else it is now.")  # fmt: skip
@click.option(
    "--dry-run", is_flag=True, help="Only say what would be sent, and what would be refused."
)
@connected
def redrive(connection: Connection, topic: str, *, dry_run: bool, **options: Any) -> None:  # noqa: ANN401 - click's own values
    """Send dead letters back to the topic they came from: key, value and headers as they were.

    Each is sent once, however often this is run and whenever it is killed: what was sent is noted in TOPIC.redriven in the same transaction. Without a filter, all that are left.
    """
    wanted = Wanted(options["reason"], options["since"], options["places"])
    letters = Letters(connection)
    letters.check(topic)  # a name that is mistaken must not make a topic for notes
    if dry_run:
        chosen, _ = looked_at(connection, plan(letters.read(topic), wanted, options["to"]))
    else:
        driver = Redrive(connection, topic, keep_timestamps=options["keep_timestamps"])
        chosen = driver.run(
            letters, lambda found: plan(found, wanted, options["to"]), lambda _: None
        )
    _tell(connection, topic, chosen, dry_run=dry_run)
    if chosen.homeless:
        raise Failure(f"{counted(len(chosen.homeless), 'letter')} of {topic} do not say where they came from", "--to TOPIC sends them there")  # fmt: skip
    if chosen.refused:
        raise Failure(f"{counted(len(chosen.refused), 'letter')} of {topic} cannot be sent: their topics would refuse them", "--to TOPIC sends elsewhere; a larger max.message.bytes of their topic takes larger ones")  # fmt: skip


def _tell(connection: Connection, topic: str, chosen: Plan, *, dry_run: bool) -> None:
    by_topic = Counter(target for _, target in chosen.sent)
    if not connection.wants_table:
        refused = [{"partition": letter.record.partition, "offset": letter.record.offset, "reason": why} for letter, why in chosen.refused]  # fmt: skip
        told = {"topic": topic, "dry_run": dry_run, "sent": dict(by_topic), "already_redriven": chosen.done, "without_source": len(chosen.homeless), "cut": len(chosen.cut), "refused": refused}  # fmt: skip
        emit(told, connection.output)
        return
    verb, spared = ("would send", "would leave out") if dry_run else ("sent", "left out")
    for target, count in sorted(by_topic.items()):
        click.echo(f"{verb} {counted(count, 'letter')} of {topic} to {target}")
    if not (by_topic or chosen.homeless or chosen.refused):
        click.echo(f"nothing of {topic} is left to send")
    if chosen.done:
        click.echo(f"{spared} {counted(chosen.done, 'letter')} that had been sent back before")
    if chosen.cut:
        click.echo(
            f"{spared} {counted(len(chosen.cut), 'letter')} of which only a part was kept: too large"
        )
    _tell_refused(chosen.refused, spared)


def _tell_refused(refused: Sequence[tuple[Letter, str]], spared: str) -> None:
    for letter, why in refused[:_REFUSED_SHOWN]:
        click.echo(f"{spared} {letter.record.partition}:{letter.record.offset}: {printable(why)}")
    more = len(refused) - _REFUSED_SHOWN
    if more > 0:
        click.echo(f"{spared} {more} more for such reasons")
