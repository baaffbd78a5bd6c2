"""`barnabas group describe`: who is in a group, what it committed, how far it is behind.

One job: one page, or one object, per group. The figures come from `group_view` and `group_lag`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.completion import group_names
from barnabas.cli.connection import connected
from barnabas.cli.group_lag import PartitionLag, read_lags, total_lag
from barnabas.cli.group_view import (
    Committed,
    GroupView,
    MemberView,
    Place,
    describe_groups,
    missing_group,
    read_committed,
)
from barnabas.cli.output import counted, emit, table
from barnabas.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.cli.connection import Connection

# A list of partitions longer than this is cut in the table.
_SHOWN_RANGES = 6


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=group_names)
@click.option("--members", "only_members", is_flag=True, help="Only the members.")
@click.option("--offsets", "only_offsets", is_flag=True, help="Only offsets and lag.")
@connected
def describe(
    connection: Connection, names: tuple[str, ...], only_members: bool, only_offsets: bool
) -> int:
    """Show groups: state, members, committed offsets, lag in records and in seconds.

    BEHIND is the time between the newest record and the first one not yet consumed, by the records' own timestamps.

    \b
    barnabas group describe billing
    barnabas group describe billing -o json | jq '.[].lag_seconds'
    """
    found, missing = describe_groups(connection, list(dict.fromkeys(names)))
    show_all = only_members == only_offsets
    lags: dict[str, list[PartitionLag]] = {}
    if found and (show_all or only_offsets):
        lags = _read(connection, found)
    described = [
        _describe(view, lags.get(name), with_members=show_all or only_members)
        for name, view in found.items()
    ]
    if connection.wants_table:
        for position, (data, view) in enumerate(zip(described, found.values(), strict=True)):
            click.echo(("\n" if position else "") + _page(data, view))
    else:
        emit(described, connection.output)
    for name, error in missing.items():
        missing_group(connection, name, error).show()
    return int(bool(missing))


def _read(connection: Connection, found: dict[str, GroupView]) -> dict[str, list[PartitionLag]]:
    """The lag of every partition that a group committed or is assigned."""
    committed = read_committed(connection, list(found))
    groups: dict[str, dict[Place, Committed | None]] = {}
    for name, view in found.items():
        assigned = {place for member in view.members for place in member.assignment}
        places = sorted(assigned.union(committed[name]))
        groups[name] = {place: committed[name].get(place) for place in places}
    return read_lags(connection, groups)


# -- JSON ------------------------------------------------------------------------------------


def _describe(
    view: GroupView, lags: list[PartitionLag] | None, *, with_members: bool
) -> dict[str, Any]:
    """The stable keys of `group describe -o json`; a view that was not asked for is null."""
    owners = {place: member for member in view.members for place in member.assignment}
    lag, lag_seconds = total_lag(lags or ())
    coordinator = view.coordinator
    return {
        "group": view.name,
        "type": view.type,
        "state": view.state,
        "assignor": view.assignor,
        "coordinator": coordinator and dict(zip(("id", "host", "port"), coordinator, strict=True)),
        "member_count": len(view.members),
        "lag": lag,
        "lag_seconds": lag_seconds,
        "members": [member.as_dict() for member in view.members] if with_members else None,
        "partitions": None if lags is None else [_partition(p, owners.get(p.place)) for p in lags],
    }


def _partition(partition: PartitionLag, owner: MemberView | None) -> dict[str, Any]:
    committed, bounds = partition.committed, partition.bounds
    return {
        "topic": partition.place.topic,
        "partition": partition.place.partition,
        "committed_offset": committed.offset if committed else None,
        "start_offset": bounds.start if bounds else None,
        "end_offset": bounds.end if bounds else None,
        "lag": partition.lag,
        "lag_seconds": partition.lag_seconds,
        "member_id": owner.member_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
    }


# -- the page --------------------------------------------------------------------------------


def _page(data: dict[str, Any], view: GroupView) -> str:
    facts = [view.state, *([f"{view.type} protocol"] if view.type else [])]
    facts.append(counted(len(view.members), "member"))
    lines = [click.style(printable(view.name), bold=True) + "  " + ", ".join(facts)]
    if view.coordinator:
        number, host, port = view.coordinator
        assignor = f", assignor {view.assignor}" if view.assignor else ""
        lines.append(f"  coordinator {number} at {host}:{port}{assignor}")
    if data["partitions"] is not None:
        lines += [f"  {_total(data)}", *_offsets(data["partitions"])]
    if data["members"]:
        lines += ["", _members(view.members)]
    return "\n".join(lines)


def _total(data: dict[str, Any]) -> str:
    if data["lag"] is None:
        return "nothing committed"
    behind = f", {seconds(data['lag_seconds'])} behind" if data["lag_seconds"] else ""
    return f"lag {counted(data['lag'], 'record')}{behind}"


def _offsets(partitions: list[dict[str, Any]]) -> list[str]:
    if not partitions:
        return []
    rows = [
        (
            p["topic"],
            p["partition"],
            p["committed_offset"],
            p["start_offset"],
            p["end_offset"],
            p["lag"],
            None if p["lag_seconds"] is None else seconds(p["lag_seconds"]),
            p["client_id"],
        )
        for p in partitions
    ]
    headings = ("TOPIC", "PARTITION", "COMMITTED", "START", "END", "LAG", "BEHIND", "CLIENT")
    return ["", table(headings, rows, indent="  ")]


def _members(members: Iterable[MemberView]) -> str:
    rows = [
        (m.client_id, m.instance_id, m.host, ranges(m.assignment) or "-", m.member_id)
        for m in members
    ]
    return table(("CLIENT", "INSTANCE", "HOST", "PARTITIONS", "MEMBER"), rows, indent="  ")


def ranges(places: Iterable[Place]) -> str:
    """Partitions in few words: `orders:0-3,7 payments:1`."""
    by_topic: dict[str, list[list[int]]] = {}
    for topic, partition in sorted(places):
        runs = by_topic.setdefault(topic, [])
        if runs and runs[-1][1] == partition - 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return " ".join(f"{topic}:{_runs(runs)}" for topic, runs in by_topic.items())


def _runs(runs: list[list[int]]) -> str:
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    rest = len(texts) - _SHOWN_RANGES
    return ",".join(texts[:_SHOWN_RANGES]) + (f",... {rest} more" if rest > 0 else "")


def seconds(count: float) -> str:
    """A time span for people: `0 s`, `1.5 s`, `12 min 3 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = int(count)
    if whole < 60:
        return f"{count:g} s"
    for unit, size, lower, lower_size in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
    raise AssertionError("a minute and more is one of the units")
