"""`barnabas group reset` and `barnabas group seek`: move the committed offsets of groups that nobody is in.

One job: make the plan (`group_plan`), show it, ask, and commit it. Both commands are one plan under two ways to say
it: `reset` as Kafka's kafka-consumer-groups has it, `seek` as rpk has it. A group with members is refused before anything
is asked or changed: its members would go on from their own positions and commit over it.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.cluster_view import describe_topics, missing_topic
from barnabas.cli.completion import group_names
from barnabas.cli.connection import admin_api, connected
from barnabas.cli.failure import Failure, failure
from barnabas.cli.group_plan import (
    Current,
    Listed,
    Move,
    Scope,
    Shift,
    parse_scope,
    parse_time,
    plan_move,
    read_plan,
    write_plan,
)
from barnabas.cli.group_view import (
    GroupView,
    Place,
    ask_bounds,
    ask_offsets,
    describe_groups,
    in_use,
    missing_group,
    read_committed,
)
from barnabas.cli.output import counted, emit, table
from barnabas.cli.position import EXAMPLES, At, Beginning, End, Since, parse_position
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection
    from barnabas.cli.group_plan import Target

Command = Any
# What a commit from outside is refused with when a member joined since we looked.
_MEMBERS_CAME = {"UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS"}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _parsed(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """A click callback that reads one value or many, and turns ValueError into a usage error."""

    def read(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:  # noqa: ANN401
        try:
            if isinstance(value, tuple):
                return tuple(map(parse, value))
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


_TOPICS = click.option(
    "-t",
    "--topic",
    "scopes",
    multiple=True,
    metavar="TOPIC[:P,P]",
    callback=_parsed(parse_scope),
    help="This topic, or only these partitions of it (0,2 or 0-3). Repeat.",
)
_CHANGING = (
    click.option("--dry-run", is_flag=True, help="Show the plan and change nothing."),
    click.option(
        "--export",
        type=click.File("w", lazy=True),
        metavar="FILE",
        help="Write the plan as CSV for --from-file; - is stdout.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Do not ask."),
)


def _changing(command: Command) -> Command:
    for option in reversed(_CHANGING):
        command = option(command)
    return command


# -- reset -----------------------------------------------------------------------------------


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=group_names)
@click.option("--to-earliest", is_flag=True, help="To the log start.")
@click.option("--to-latest", is_flag=True, help="To the log end: skip everything.")
@click.option(
    "--to-time",
    metavar="WHEN",
    callback=_parsed(lambda text: parse_time(text, _now_ms())),
    help="To the first record of this time: 2026-11-15T10:00, -1h, or milliseconds since 1970.",
)
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="So many records on, or back with a minus.")
@click.option("--to-current", is_flag=True, help="Stay: to see or --export what is committed.")
@click.option(
    "--from-file",
    type=click.File("r"),
    metavar="CSV",
    help="Lines topic,partition,offset or group,topic,partition,offset; - is stdin.",
)
@_TOPICS
@click.option("--all-topics", is_flag=True, help="Every topic the group has committed for.")
@_changing
@connected
def reset(connection: Connection, names: tuple[str, ...], **how: Any) -> int:  # noqa: ANN401
    """Move the committed offsets of groups that have no members.

    An offset outside the log becomes the nearest end of it; the plan says so. A group that does not exist
    yet is made by this: its first member begins there.

    \b
    barnabas group reset billing --topic orders --to-earliest --dry-run
    barnabas group reset billing --topic orders:0,2 --to-time -1h
    barnabas group reset billing --all-topics --shift-by -100 --yes
    barnabas group reset billing --all-topics --to-current --dry-run --export saved.csv
    barnabas group reset billing --from-file saved.csv
    """
    targets = _reset_targets(names, how)
    if how["all_topics"] and how["scopes"]:
        raise click.UsageError("--all-topics and --topic exclude each other")
    if not (how["scopes"] or how["all_topics"] or how["from_file"]):
        raise click.UsageError("say which partitions: --topic TOPIC[:P,P], or --all-topics")
    return _move(connection, [Request(n, targets[n], how["scopes"]) for n in targets], how)


def _reset_targets(names: Sequence[str], how: Mapping[str, Any]) -> dict[str, Target]:
    """The one target that was given, for each group."""
    given: list[tuple[str, Callable[[str], Target]]] = []
    if how["to_earliest"]:
        given.append(("--to-earliest", lambda _: Beginning()))
    if how["to_latest"]:
        given.append(("--to-latest", lambda _: End()))
    if how["to_current"]:
        given.append(("--to-current", lambda _: Current()))
    if how["to_time"] is not None:
        given.append(("--to-time", lambda _: how["to_time"]))
    if how["to_offset"] is not None:
        given.append(("--to-offset", lambda _: At(how["to_offset"])))
    if how["shift_by"] is not None:
        given.append(("--shift-by", lambda _: Shift(how["shift_by"])))
    if how["from_file"] is not None:
        text = how["from_file"].read()
        given.append(("--from-file", lambda name: _listed(text, name, how["from_file"].name)))
    if len(given) != 1:
        options = "--to-earliest, --to-latest, --to-time, --to-offset, --shift-by, --from-file or --to-current"
        both = f" ({' and '.join(option for option, _ in given)} were given)" if given else ""
        raise click.UsageError(f"say where to: one of {options}{both}")
    return {name: given[0][1](name) for name in dict.fromkeys(names)}


def _listed(text: str, group: str, path: str) -> Listed:
    try:
        offsets, others = read_plan(text, group)
    except ValueError as error:
        raise Failure(f"{path}: {error}") from None
    if not offsets:
        raise Failure(f"{path} has no offsets for group {group}")
    if others:
        click.echo(f"note: {counted(others, 'line')} of {path} are for other groups", err=True)
    return Listed(offsets)


# -- seek ------------------------------------------------------------------------------------


@click.command()
@click.argument("name", shell_complete=group_names)
@click.option(
    "--to",
    metavar="WHERE",
    callback=_parsed(lambda text: parse_position(text, _now_ms())),
    help=f"start, end, or as `consume --from`: {EXAMPLES}.",
)
@click.option(
    "--to-group", metavar="NAME", shell_complete=group_names, help="Where another group is."
)
@click.option(
    "--to-file",
    type=click.File("r"),
    metavar="FILE",
    help="Lines of topic, partition, offset, with spaces or commas between.",
)
@_TOPICS
@_changing
@connected
def seek(connection: Connection, name: str, **how: Any) -> int:  # noqa: ANN401
    """Move a group's offsets, said the short way: `reset` under rpk's name and options.

    Without --topic: every topic the group has committed for (with --to-group, the other group; with --to-file, the file).

    \b
    barnabas group seek billing --to start
    barnabas group seek billing --to 2026-11-15T10:00 --topic orders
    barnabas group seek billing-copy --to-group billing
    """
    given = [how["to"], how["to_group"], how["to_file"]]
    if sum(value is not None for value in given) != 1:
        raise click.UsageError("say where to: one of --to, --to-group or --to-file")
    if how["to_file"] is not None:
        target: Target = _listed(how["to_file"].read(), name, how["to_file"].name)
    elif how["to_group"] is not None:
        target = _like_group(connection, how["to_group"])
    else:
        target = how["to"]
    return _move(connection, [Request(name, target, how["scopes"])], how)


def _like_group(connection: Connection, name: str) -> Listed:
    committed = read_committed(connection, [name])[name]
    if not committed:
        _, missing = describe_groups(connection, [name])
        if name in missing:
            raise missing_group(connection, name, missing[name])
        raise Failure(f"group {name} has committed nothing")
    return Listed({place: entry.offset for place, entry in committed.items()})


# -- the plan --------------------------------------------------------------------------------


class Request(NamedTuple):
    """What is asked for one group; no scopes: all that the target or the group knows."""

    group: str
    target: Target
    scopes: Sequence[Scope]


def _move(connection: Connection, requests: Sequence[Request], how: Mapping[str, Any]) -> int:
    """Plan, show, ask, do."""
    new = _check_inactive(connection, [request.group for request in requests])
    plans = _plan(connection, requests)
    if how["export"] is not None:
        how["export"].write(write_plan(plans))
        how["export"].flush()
    quiet = how["export"] is not None and how["export"].name == "-"
    if connection.wants_table and not quiet:
        _show(plans, new)
    if not how["dry_run"]:
        _confirm(plans, how["yes"])
    errors = {} if how["dry_run"] else _apply(connection, plans)
    if not connection.wants_table and not quiet:
        emit([_outcome(n, m, errors, how["dry_run"]) for n, m in plans.items()], connection.output)
    elif how["dry_run"]:
        click.echo("dry run: nothing was changed", err=True)
    for name, place in errors:
        failure(f"group {name}: {place}", errors[name, place]).show()
    return int(bool(errors))


def _check_inactive(connection: Connection, names: Sequence[str]) -> list[str]:
    """The groups that do not exist yet; Failure for one that has members."""
    found, missing = describe_groups(connection, names)
    for name, error in missing.items():
        if error is not None:
            raise missing_group(connection, name, error)
    for view in found.values():
        _refuse_members(view)
    return list(missing)


def _refuse_members(view: GroupView) -> None:
    if not view.is_inactive:
        raise in_use(view, "moved")


def _plan(connection: Connection, requests: Sequence[Request]) -> dict[str, list[Move]]:
    committed = read_committed(connection, [request.group for request in requests])
    offsets = {
        name: {place: entry.offset for place, entry in entries.items()}
        for name, entries in committed.items()
    }
    wanted = {r.group: _places(connection, r, offsets[r.group]) for r in requests}
    everywhere = [place for places in wanted.values() for place in places]
    bounds, errors = ask_bounds(connection, everywhere)
    for place, error in errors.items():
        raise failure(f"offsets of {place}", error)
    plans = {}
    for name, target, _ in requests:
        since = _ask_since(connection, target, wanted[name])
        plans[name] = [
            plan_move(target, place, offsets[name].get(place), bounds[place], since.get(place))
            for place in wanted[name]
        ]
    return plans


def _places(
    connection: Connection, request: Request, committed: Mapping[Place, int]
) -> list[Place]:
    """The partitions that are moved, in order."""
    known = request.target.offsets if isinstance(request.target, Listed) else committed
    if not request.scopes:
        if not known:
            raise Failure(
                f"group {request.group} has committed nothing",
                "name topics with --topic TOPIC to give it its first offsets",
            )
        _check_places(connection, sorted(known))
        return sorted(known)
    places = _scoped(connection, request.scopes)
    if isinstance(request.target, Listed):
        places = [place for place in places if place in known]
        if not places:
            raise Failure("none of the partitions named by --topic is in the list of offsets")
    return places


def _check_places(connection: Connection, places: Iterable[Place]) -> None:
    there = _partitions(connection, (place.topic for place in places))
    for place in places:
        _check_place(place, there[place.topic])


def _scoped(connection: Connection, scopes: Iterable[Scope]) -> list[Place]:
    there = _partitions(connection, (scope.topic for scope in scopes))
    places: dict[Place, None] = {}
    for scope in scopes:
        known = there[scope.topic]
        for partition in known if scope.partitions is None else scope.partitions:
            _check_place(Place(scope.topic, partition), known)
            places[Place(scope.topic, partition)] = None
    return sorted(places)


def _partitions(connection: Connection, topics: Iterable[str]) -> dict[str, list[int]]:
    """The partitions that each topic has; a Failure if one of the topics is not there."""
    found, errors = describe_topics(connection, list(dict.fromkeys(topics)))
    for topic, error in errors.items():
        raise missing_topic(connection, topic, error)
    return {topic: [one.partition for one in view.partitions] for topic, view in found.items()}


def _check_place(place: Place, there: Sequence[int]) -> None:
    if place.partition not in there:
        raise Failure(
            f"topic {place.topic} has no partition {place.partition}",
            f"it has {counted(len(there), 'partition')}, counted from 0",
        )


def _ask_since(connection: Connection, target: Target, places: Iterable[Place]) -> dict[Place, int]:
    if not isinstance(target, Since):
        return {}
    spec = admin_api().OffsetSpec.for_timestamp(target.timestamp_ms)
    found = {}
    for place, answer in ask_offsets(connection, dict.fromkeys(places, spec)).items():
        if not isinstance(answer, tuple):
            raise failure(f"offset of {place} at that time", answer)
        found[place] = answer[0]
    return found


# -- showing and doing -----------------------------------------------------------------------


_HEADINGS = ("TOPIC", "PARTITION", "BEFORE", "AFTER", "CHANGE", "LAG AFTER")


def _show(plans: Mapping[str, Sequence[Move]], new: Sequence[str]) -> None:
    for position, (name, moves) in enumerate(plans.items()):
        title = click.style(printable(name), bold=True) + ("  (a new group)" if name in new else "")
        click.echo(("\n" if position else "") + title)
        noted = any(move.note for move in moves)
        headings = (*_HEADINGS, "NOTE") if noted else _HEADINGS
        rows = [(*_row(move), *([move.note or ""] if noted else [])) for move in moves]
        click.echo(table(headings, rows, indent="  "))


def _row(move: Move) -> tuple[object, ...]:
    return *move.place, move.before, move.after, _change(move), move.bounds.end - move.after


def _change(move: Move) -> str:
    if move.before is None:
        return "new"
    return f"{move.after - move.before:+d}" if move.after != move.before else "0"


def _confirm(plans: Mapping[str, Sequence[Move]], yes: bool) -> None:
    if yes or not sys.stdin.isatty():
        return
    count = counted(sum(map(len, plans.values())), "offset")
    whose = f"group {next(iter(plans))}" if len(plans) == 1 else counted(len(plans), "group")
    if not click.confirm(f"Move {count} of {printable(whose)}?", err=True):
        raise Failure("nothing was changed")


def _apply(
    connection: Connection, plans: Mapping[str, Sequence[Move]]
) -> dict[tuple[str, Place], KafkaError]:
    """Commit the plan; the errors of single partitions."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    errors: dict[tuple[str, Place], KafkaError] = {}
    for name, moves in plans.items():
        partitions = [TopicPartition(*move.place, move.after) for move in moves]
        future = connection.admin().alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, partitions)],
            request_timeout=connection.timeout_s,
        )[name]
        answer, error = connection.outcome(future)
        if error is not None:
            raise _refused(connection, name, error)
        assert answer is not None
        for done in answer.topic_partitions:
            if done.error is not None and done.error.name() in _MEMBERS_CAME:
                raise _refused(connection, name, done.error)
            if done.error is not None:
                errors[name, Place(done.topic, done.partition)] = done.error
    return errors


def _refused(connection: Connection, name: str, error: KafkaError) -> Failure:
    """Why the broker took none of it; most likely somebody joined between the look and the commit."""
    if error.name() in _MEMBERS_CAME:
        found, _ = describe_groups(connection, [name])
        if name in found and found[name].members:
            return in_use(found[name], "moved")
    return failure(f"group {name}", error)


def _outcome(
    name: str,
    moves: Sequence[Move],
    errors: Mapping[tuple[str, Place], KafkaError],
    dry_run: bool,
) -> dict[str, Any]:
    """The stable keys of `group reset -o json`."""
    partitions = []
    for move in moves:
        error = errors.get((name, move.place))
        partitions.append({**move.as_dict(), "error": None if error is None else error.name()})
    failed = any(partition["error"] for partition in partitions)
    return {"group": name, "applied": not dry_run and not failed, "partitions": partitions}
