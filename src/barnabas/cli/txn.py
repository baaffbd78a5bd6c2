"""`barnabas txn`: transactions as coordinators and partitions know them; finding and ending those that hang.

One job: the command line. What is asked of whom is in `txn_view`.
"""

from __future__ import annotations

import fnmatch
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.completion import topic_names
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure
from barnabas.cli.moment import duration_ms
from barnabas.cli.output import counted, emit, table
from barnabas.cli.printable import printable
from barnabas.cli.txn_view import ONGOING, STATES, TransactionView
from barnabas.client.errors import ClientError, Refused
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.connection import Connection
    from barnabas.cli.txn_view import ActiveProducer, Described, Hanging

#: The default of transaction.max.timeout.ms: no transaction lives longer if it is looked after.
DEFAULT_AGE = "15m"
#: The timeout that a taken-over id gets; its next owner says its own.
FENCE_TIMEOUT_MS = 60_000
_HINTS = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`barnabas txn list` shows the ids there are",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`barnabas topic list` shows the topics there are",
    ErrorCode.CONCURRENT_TRANSACTIONS: "its transaction is being ended right now: try again",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer has moved on: look again with `barnabas txn producers`",
}


@click.group()
def txn() -> None:
    """Transactions: list, describe, find those that hang, abort them."""


def _looking(command: Callable[..., int]) -> Callable[..., int]:
    """Decorate a command: it gets a TransactionView after the connection, and its errors are told in words."""

    @connected
    @wraps(command)
    def run(connection: Connection, **values: Any) -> int:  # noqa: ANN401 - click's own values
        try:
            with TransactionView(connection) as view:
                return command(connection, view, **values)
        except Refused as refused:
            raise Failure(str(refused), _HINTS.get(refused.code)) from None
        except ClientError as problem:
            raise Failure(str(problem)) from None

    return run


def _age(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return duration_ms(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


# -- looking ---------------------------------------------------------------------------------


@txn.command("list")
@click.argument("pattern", required=False)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False),
    help="Only transactions in this state. Repeat.",
)  # fmt: skip
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True, help="Only this one. Repeat."
)
@click.option(
    "--longer-than", callback=_age, metavar="DURATION", help="Only those open longer, as 90s or 1h."
)
@_looking
def list_(
    connection: Connection,
    view: TransactionView,
    pattern: str | None,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: int | None,
) -> int:
    """List transactional ids; PATTERN is a shell pattern such as 'billing-*'.

    \b
    barnabas txn list --state Ongoing --longer-than 10m
    """
    found = [
        one
        for one in view.list_transactions(
            states=states, producer_ids=producer_ids, longer_than_ms=longer_than
        )
        if fnmatch.fnmatchcase(one.transactional_id, pattern or "*")
    ]
    if not connection.wants_table:
        emit([asdict(one) for one in found], connection.output)
    elif found:
        rows = [
            (one.transactional_id, one.coordinator, one.producer_id, one.state) for one in found
        ]
        click.echo(table(("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"), rows))
    else:
        chosen = pattern or states or producer_ids or longer_than
        click.echo(
            "no transactional id matches" if chosen else "there are no transactional ids", err=True
        )
    return 0


@txn.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_looking
def describe(connection: Connection, view: TransactionView, ids: tuple[str, ...]) -> int:
    """Show the state of transactional ids, and the partitions that are part of their transactions."""
    found, failed = [], False
    for one in dict.fromkeys(ids):
        try:
            found.append(view.describe(one))
        except Refused as refused:
            Failure(f"{one}: {refused}", _HINTS.get(refused.code)).show()
            failed = True
    if not connection.wants_table:
        emit([_described(one) for one in found], connection.output)
    else:
        click.echo("\n\n".join(_describe_text(one) for one in found), nl=bool(found))
    return int(failed)


def _described(one: Described) -> dict[str, Any]:
    partitions = [{"topic": topic, "partition": index} for topic, index in one.partitions]
    return {**asdict(one), "partitions": partitions}


def _describe_text(one: Described) -> str:
    lines = [
        click.style(printable(one.transactional_id), bold=True),
        f"  state        {one.state}",
        f"  producer     {one.producer_id}, epoch {one.producer_epoch}",
        f"  coordinator  broker {one.coordinator}",
        f"  time-out     {one.timeout_ms / 1000:g} s",
    ]
    if one.started_ms is not None:
        lines.append(f"  began        {_moment(one.started_ms)}, {_ago(one.started_ms)}")
    for topic, index in one.partitions:
        lines.append(f"  writes to    {printable(topic)}-{index}")
    return "\n".join(lines)


@txn.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--open", "only_open", is_flag=True, help="Only those with an open transaction.")
@_looking
def producers(
    connection: Connection,
    view: TransactionView,
    topic: str,
    partition: int | None,
    only_open: bool,
) -> int:
    """Show the idempotent and transactional producers of a topic's partitions."""
    found = [
        one
        for one in view.producers(_partitions(view, topic, partition))
        if one.transaction_start is not None or not only_open
    ]
    if not connection.wants_table:
        emit([asdict(one) for one in found], connection.output)
    elif found:
        click.echo(table(_PRODUCER_HEADINGS, [_producer_row(one) for one in found]))
    else:
        click.echo("no producer is known there", err=True)
    return 0


_PRODUCER_HEADINGS = (
    "PARTITION", "PRODUCER", "EPOCH", "LAST SEQUENCE", "LAST WRITE", "TRANSACTION SINCE",
)  # fmt: skip


def _producer_row(one: ActiveProducer) -> tuple[object, ...]:
    start = one.transaction_start
    return (
        f"{one.topic}-{one.partition}", one.producer_id, one.producer_epoch, one.last_sequence,
        _ago(one.last_timestamp_ms), "-" if start is None else f"offset {start}",
    )  # fmt: skip


# -- those that hang -------------------------------------------------------------------------


@txn.command("find-hanging")
@click.option("--topic", shell_complete=topic_names, help="Only this topic. [default all]")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option(
    "--older-than", callback=_age, default=DEFAULT_AGE, show_default=True, metavar="DURATION",
    help="Without a write for at least this long: transaction.max.timeout.ms of the brokers.",
)  # fmt: skip
@_looking
def find_hanging(
    connection: Connection,
    view: TransactionView,
    topic: str | None,
    partition: int | None,
    older_than: int,
) -> int:
    """Find open transactions that no coordinator knows: readers of committed records stand still there.

    The exit code is 1 if there are any.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    partitions = _partitions(view, topic, partition)
    hanging = view.find_hanging(partitions, older_than)
    if not connection.wants_table:
        emit([one.as_dict() for one in hanging], connection.output)
    elif hanging:
        click.echo(table((*_PRODUCER_HEADINGS, "WHY"), [_hanging_row(one) for one in hanging]))
        first = hanging[0].producer
        click.echo(
            f"end one with: barnabas txn abort --topic {printable(first.topic)} "
            f"--partition {first.partition} --start-offset {first.transaction_start}",
            err=True,
        )
    else:
        looked = counted(len(partitions), "partition")
        click.echo(f"no transaction hangs on {looked}", err=True)
    return int(bool(hanging))


def _hanging_row(one: Hanging) -> tuple[object, ...]:
    return (*_producer_row(one.producer), one.why)


@txn.command()
@click.argument("transactional_id", required=False, metavar="[ID]")
@click.option("--topic", shell_complete=topic_names, help="Where a transaction hangs.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Where a transaction hangs.")
@click.option(
    "--start-offset", type=click.IntRange(min=0), help="Where it starts, as find-hanging says."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be aborted and change nothing.")
@_looking
def abort(
    connection: Connection,
    view: TransactionView,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    **how: bool,
) -> int:
    """Abort a transaction: by its ID, or one that hangs, by its place. Asks first when run on a terminal.

    By ID its producer is fenced, as when a new one starts with the same id. By place the partition is told to end the
    transaction whatever its coordinator thinks: only for those that find-hanging shows.

    \b
    barnabas txn abort billing-7
    barnabas txn abort --topic orders --partition 3 --start-offset 4711
    """
    place = (topic, partition, start_offset)
    if transactional_id is not None and place == (None, None, None):
        result = _abort_by_id(view, transactional_id, **how)
    elif (
        transactional_id is None
        and topic is not None
        and partition is not None
        and start_offset is not None
    ):
        result = _abort_at(view, topic, partition, start_offset, **how)
    else:
        raise click.UsageError("give an ID, or --topic, --partition and --start-offset")
    if connection.wants_table:
        click.echo(result["result"])
    else:
        emit(result, connection.output)
    return 0


def _abort_by_id(
    view: TransactionView, transactional_id: str, *, yes: bool, dry_run: bool
) -> dict[str, Any]:
    known = view.describe(transactional_id)
    result: dict[str, Any] = {"transactional_id": transactional_id, "state": known.state}
    what = f"{transactional_id} (producer {known.producer_id}, {known.state})"
    if known.state != ONGOING:
        raise Failure(f"{what}: no transaction is under way", "nothing to abort")
    if dry_run:
        return {**result, "result": f"would fence the producer of {what} and abort its transaction"}
    _confirm(f"Fence the producer of {what} and abort its transaction?", yes=yes)
    _, epoch = view.fence(transactional_id, FENCE_TIMEOUT_MS)
    return {
        **result,
        "result": f"aborted {printable(what)}; epochs below {epoch} are fenced",
    }


def _abort_at(
    view: TransactionView,
    topic: str,
    partition: int,
    start_offset: int,
    *,
    yes: bool,
    dry_run: bool,
) -> dict[str, Any]:
    there = view.producers(_partitions(view, topic, partition))
    found = next((one for one in there if one.transaction_start == start_offset), None)
    if found is None:
        raise Failure(
            f"no open transaction starts at offset {start_offset} of {topic}-{partition}",
            f"`barnabas txn producers {topic} --open` shows those there are",
        )
    result = asdict(found)
    what = f"the transaction of producer {found.producer_id} at offset {start_offset} of {topic}-{partition}"
    if dry_run:
        return {**result, "result": f"would abort {printable(what)}"}
    _confirm(f"Abort {what}, whatever its coordinator thinks?", yes=yes)
    view.write_abort(found)
    return {**result, "result": f"aborted {printable(what)}"}


def _confirm(question: str, *, yes: bool) -> None:
    if yes or not sys.stdin.isatty():
        return
    if not click.confirm(printable(question), err=True):
        raise Failure("nothing was aborted")


# -- shared ----------------------------------------------------------------------------------


def _partitions(
    view: TransactionView, topic: str | None, partition: int | None
) -> list[tuple[str, int, int]]:
    found = [one for one in view.partitions_of(topic) if partition is None or one[1] == partition]
    if not found and partition is not None:
        raise Failure(
            f"{topic} has no partition {partition}",
            f"`barnabas topic describe {topic}` shows the partitions there are",
        )
    return found


def _moment(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _ago(timestamp_ms: int) -> str:
    """Say how long ago, in the largest unit that fits twice."""
    if timestamp_ms < 0:
        return "-"
    seconds = max(0.0, time.time_ns() / 1e9 - timestamp_ms / 1000)
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
