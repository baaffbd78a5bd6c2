"""`barnabas topic`: create, list, describe, alter, delete.

One job: the command line around the admin requests for topics. When create, alter or delete
returns, the broker it spoke with shows the change. With several names each stands alone: one that
fails does not stop the others, and the exit code is 1.
"""

from __future__ import annotations

import fnmatch
import sys
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.cluster_view import (
    TopicView,
    describe_topics,
    list_topics,
    missing_topic,
    topic_or_fail,
)
from barnabas.cli.completion import topic_names
from barnabas.cli.config import report_changes
from barnabas.cli.connection import admin_api, connected, wait_until
from barnabas.cli.failure import Failure, failure, hint_for, reason
from barnabas.cli.moving import resize
from barnabas.cli.options import setting
from barnabas.cli.outlook import storage_page
from barnabas.cli.output import emit, table
from barnabas.cli.settings import (
    TOPIC,
    Change,
    alter_or_fail,
    plan_changes,
    read_all_settings,
    read_settings,
)
from barnabas.cli.topic_page import add_storage, describe_topic, page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection

NAMES = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=topic_names
)
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Let the broker check it and change nothing."
)
_BROKER_DEFAULT = -1


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


# -- create ----------------------------------------------------------------------------------


def parse_assignment(text: str) -> list[list[int]]:
    """`1:2,2:3`: partitions with commas, the replicas of each with colons, the leader first."""
    try:
        assignment = [[int(b) for b in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"'{text}' is not like 1:2,2:3 (broker ids)") from None
    if len({len(replicas) for replicas in assignment}) > 1:
        raise click.BadParameter(f"'{text}': every partition needs the same number of replicas")
    return assignment


@topic.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="[default: the broker's num.partitions]"
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="[default: the broker's default.replication.factor]",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=setting,
    help="Setting of the topic. Repeat.",
)
@click.option(
    "--assignment",
    callback=lambda _ctx, _param, text: parse_assignment(text) if text else None,
    metavar="B:B,B:B",
    help="Brokers of each partition (commas), leader first (colons), instead of counts.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@DRY_RUN
@connected
def create(connection: Connection, names: tuple[str, ...], **how: Any) -> int:  # noqa: ANN401
    """Create topics."""
    if how["assignment"] and (how["partitions"] or how["replication_factor"]):
        raise click.UsageError("--assignment says partitions and replicas already")
    new = [_new_topic(name, how) for name in dict.fromkeys(names)]
    answers = connection.admin().create_topics(
        new, validate_only=how["dry_run"], request_timeout=connection.timeout_s
    )
    results = []
    for name, future in answers.items():
        _, error = connection.outcome(future)
        done = "valid" if how["dry_run"] else "created"
        if error and error.name() == "TOPIC_ALREADY_EXISTS" and how["if_not_exists"]:
            done, error = "exists", None
        results.append((name, done, error))
    created = [name for name, done, error in results if done == "created" and not error]
    _await_visible(connection, created, lambda found: len(found) == len(created))
    return _report_each(connection, results)


def _new_topic(name: str, how: dict[str, Any]) -> Any:  # noqa: ANN401 - NewTopic
    new_topic = admin_api().NewTopic
    if how["assignment"]:
        return new_topic(
            name,
            num_partitions=len(how["assignment"]),
            replica_assignment=how["assignment"],
            config=how["configs"],
        )
    return new_topic(
        name,
        num_partitions=how["partitions"] or _BROKER_DEFAULT,
        replication_factor=how["replication_factor"] or _BROKER_DEFAULT,
        config=how["configs"],
    )


def _await_visible(
    connection: Connection, names: Sequence[str], holds: Callable[[dict[str, TopicView]], bool]
) -> None:
    """A broker learns of a change a moment after the controller has made it.

    Without this wait the next command of a script could still see the time before.
    """
    if names:
        wait_until(lambda: holds(describe_topics(connection, names)[0]), connection.timeout_s)


_SENTENCES = {
    "created": "created {}",
    "valid": "{} could be created; nothing was done (dry run)",
    "exists": "{} exists already",
    "deleted": "deleted {}",
    "would delete": "{} would be deleted; nothing was done (dry run)",
    "missing": "{} does not exist",
}


def _report_each(
    connection: Connection, results: Sequence[tuple[str, str, KafkaError | None]]
) -> int:
    """One line, or one object, per topic; the exit code."""
    if not connection.wants_table:
        emit([_outcome(*result) for result in results], connection.output)
    for name, done, error in results:
        if error is not None:
            failure(f"topic {name}", error).show()
        elif connection.wants_table:
            click.echo(_SENTENCES[done].format(name))
    return int(any(error is not None for _, _, error in results))


def _outcome(name: str, done: str, error: KafkaError | None) -> dict[str, Any]:
    if error is None:
        return {"topic": name, "result": done, "error": None}
    problem = {"name": error.name(), "message": reason(error), "hint": hint_for(error)}
    return {"topic": name, "result": "failed", "error": problem}


# -- list and describe -----------------------------------------------------------------------


@topic.command("list")
@click.argument("pattern", required=False)
@click.option("-i", "--internal", is_flag=True, help="Also the broker's own topics.")
@connected
def list_(connection: Connection, pattern: str | None, internal: bool) -> None:
    """List topics; PATTERN is a shell pattern such as 'orders-*'."""
    shown = [
        view
        for view in list_topics(connection)
        if (internal or not view.internal) and fnmatch.fnmatchcase(view.name, pattern or "*")
    ]
    if not connection.wants_table:
        emit([view.as_dict() for view in shown], connection.output)
    elif not shown:
        click.echo(f"no topic matches {pattern}" if pattern else "there are no topics", err=True)
    else:
        rows = [(v.name, len(v.partitions), v.replication_factor, v.health) for v in shown]
        click.echo(table(("TOPIC", "PARTITIONS", "REPLICAS", "HEALTH"), rows))


@topic.command()
@NAMES
@click.option(
    "--storage",
    is_flag=True,
    help="Also sizes, segments, and when and why records go. Where the broker runs.",
)
@click.option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help="With --storage: look there. Repeat. [default: the broker's log.dirs]",
)
@connected
def describe(
    connection: Connection, names: tuple[str, ...], storage: bool, data_dirs: tuple[str, ...]
) -> int:
    """Show topics: partitions, leaders, replicas, offsets, settings that differ from the default."""
    if data_dirs and not storage:
        raise click.UsageError("--data-dir goes with --storage")
    found, errors = describe_topics(connection, list(dict.fromkeys(names)))
    settings = read_all_settings(connection, TOPIC, list(found)) if found else {}
    described = [describe_topic(connection, view, settings[name]) for name, view in found.items()]
    if storage:
        add_storage(connection, described, found, settings, data_dirs)
    if not connection.wants_table:
        emit(described, connection.output)
    for position, data in enumerate(described if connection.wants_table else ()):
        click.echo(("\n" if position else "") + page(data))
        if storage:
            click.echo("\n" + storage_page(data["partitions"]))
    for name, error in errors.items():
        missing_topic(connection, name, error).show()
    return int(bool(errors))


# -- alter and delete ------------------------------------------------------------------------


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    help="New number of partitions (more than now).",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="New number of replicas of each partition; they are moved until it is so.",
)
@click.option(
    "-s",
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=setting,
    help="Change a setting. Repeat.",
)
@click.option(
    "-d",
    "--delete",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Setting back to its default. Repeat.",
)
@DRY_RUN
@connected
def alter(connection: Connection, name: str, **how: Any) -> int:  # noqa: ANN401
    """Add partitions to a topic, change its settings or the number of its replicas."""
    partitions, pairs, deleted = how["partitions"], how["pairs"], how["deleted"]
    if how["replication_factor"]:
        if partitions or pairs or deleted:
            raise click.UsageError("--replication-factor stands alone: moving replicas takes time")
        topic_or_fail(connection, name)
        return resize(connection, name, how["replication_factor"], dry_run=how["dry_run"])
    if not (partitions or pairs or deleted):
        raise click.UsageError(
            "nothing to change: give --partitions, --replication-factor, --set or --delete"
        )
    view = topic_or_fail(connection, name)
    settings = read_settings(connection, TOPIC, name)
    changes = plan_changes(settings, pairs, deleted)
    # Both are checked before either is done, so that a refusal leaves the topic as it was.
    for validate_only in (True,) if how["dry_run"] else (True, False):
        if partitions:
            _add_partitions(connection, name, partitions, validate_only=validate_only)
        if changes:
            alter_or_fail(connection, (TOPIC, name), changes, settings, dry_run=validate_only)
    if partitions:
        changes.insert(0, Change("partitions", len(view.partitions), partitions))
        if not how["dry_run"]:
            _await_visible(connection, [name], lambda found: _has(found, name, partitions))
    report_changes(connection, TOPIC, name, changes, dry_run=how["dry_run"])
    return 0


def _has(found: dict[str, TopicView], name: str, partitions: int) -> bool:
    return name in found and len(found[name].partitions) == partitions


def _add_partitions(
    connection: Connection, name: str, partitions: int, *, validate_only: bool
) -> None:
    answers = connection.admin().create_partitions(
        [admin_api().NewPartitions(name, partitions)],
        validate_only=validate_only,
        request_timeout=connection.timeout_s,
    )
    connection.result(answers[name], f"topic {name}")


@topic.command()
@NAMES
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="A topic that is not there is fine.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted and change nothing.")
@connected
def delete(connection: Connection, names: tuple[str, ...], **how: bool) -> int:
    """Delete topics and all their records. Asks first when run on a terminal."""
    found, errors = describe_topics(connection, list(dict.fromkeys(names)))
    if found and not how["dry_run"]:
        _confirm(list(found), how["yes"])
    results: list[tuple[str, str, KafkaError | None]] = []
    for name, error in errors.items():
        absent = error.name() == "UNKNOWN_TOPIC_OR_PART" and how["if_exists"]
        results.append((name, "missing", None if absent else error))
    if how["dry_run"]:
        results += [(name, "would delete", None) for name in found]
    elif found:
        results += _delete(connection, list(found))
    return _report_each(connection, results)


def _confirm(names: Sequence[str], yes: bool) -> None:
    if yes or not sys.stdin.isatty():
        return
    what = names[0] if len(names) == 1 else f"{len(names)} topics ({', '.join(names)})"
    if not click.confirm(f"Delete {what} and all records?", err=True):
        raise Failure("nothing was deleted")


def _delete(connection: Connection, names: list[str]) -> list[tuple[str, str, KafkaError | None]]:
    answers = connection.admin().delete_topics(names, request_timeout=connection.timeout_s)
    results: list[tuple[str, str, KafkaError | None]] = [
        (name, "deleted", connection.outcome(future)[1]) for name, future in answers.items()
    ]
    gone = [name for name, _, error in results if error is None]
    _await_visible(connection, gone, lambda found: not found)
    return results
