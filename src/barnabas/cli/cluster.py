"""`barnabas cluster`: a cluster to try, and looking at one as a whole.

One job: the command line. What is asked of whom is in `cluster_admin`, what is healthy in `cluster_health`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.cluster_admin import PREFERRED, UNCLEAN, ClusterAdmin
from barnabas.cli.cluster_health import BROKEN, judge
from barnabas.cli.cluster_looking import administering
from barnabas.cli.cluster_up import up
from barnabas.cli.connection import connected
from barnabas.cli.failure import Failure
from barnabas.cli.output import counted, emit, size, table
from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from barnabas.cli.cluster_admin import ClusterState, Place, Storage
    from barnabas.cli.connection import Connection


@click.group()
def cluster() -> None:
    """Start a cluster for trying; look at a cluster as a whole."""


cluster.add_command(up)


@cluster.command()
@administering
def describe(connection: Connection, admin: ClusterAdmin) -> int:
    """Show the brokers: where they are, their racks, who is controller, what each has and leads, and the room on its disks."""
    state = admin.state()
    rows = _broker_rows(state, admin.storage(state.brokers))
    topics = {topic for topic, _ in state.partitions}
    if not connection.wants_table:
        facts = {
            "cluster_id": state.cluster_id,
            "controller": state.controller,
            "topics": len(topics),
            "partitions": len(state.partitions),
            "brokers": rows,
        }
        emit(facts, connection.output)
        return 0
    click.echo(
        f"cluster {state.cluster_id}  {counted(len(state.brokers), 'broker')}, "
        f"{counted(len(topics), 'topic')}, {counted(len(state.partitions), 'partition')}\n"
    )
    headings = ("BROKER", "ADDRESS", "RACK", "REPLICAS", "LEADS", "USED", "FREE", "")
    click.echo(table(headings, [_shown(row) for row in rows], indent="  "))
    return 0


def _broker_rows(state: ClusterState, storage: dict[int, Storage]) -> list[dict[str, Any]]:
    """The stable keys of a broker in JSON."""
    replicas = Counter(r for each in state.partitions.values() for r in each.replicas)
    leaders = Counter(each.leader for each in state.partitions.values())
    rows = []
    for broker in sorted({*state.brokers, *state.away()}):
        there, disk = state.brokers.get(broker), storage.get(broker)
        rows.append(
            {
                "broker": broker,
                "host": there and there.host,
                "port": there and there.port,
                "rack": there and there.rack,
                "controller": broker == state.controller,
                "away": there is None,
                "replicas": replicas[broker],
                "leaders": leaders[broker],
                "size_bytes": disk and disk.size_bytes,
                "free_bytes": disk and disk.free_bytes,
                "failed_directories": disk.failed_directories if disk else [],
            }
        )
    return rows


def _shown(row: dict[str, Any]) -> tuple[object, ...]:
    marks = [name for name in ("controller", "away") if row[name]]
    marks += [f"failed: {path}" for path in row["failed_directories"]]
    return (
        row["broker"],
        None if row["away"] else f"{row['host']}:{row['port']}",
        row["rack"],
        row["replicas"],
        row["leaders"],
        None if row["size_bytes"] is None else size(row["size_bytes"]),
        None if row["free_bytes"] is None else size(row["free_bytes"]),
        ", ".join(marks) or "",
    )


class Unanswered(Failure):
    """Nobody could be asked how it is."""

    exit_code = BROKEN


@cluster.command()
@connected
def health(connection: Connection) -> int:
    """Say whether all is well; for scripts by the exit code.

    0: all is well. 1: at risk, something is missing and everything still works. 2: broken, something cannot be read or written, or
    nobody answers.
    """
    try:
        with ClusterAdmin(connection) as admin:
            state = admin.state()
            found = judge(
                state,
                admin.min_in_sync(dict.fromkeys(topic for topic, _ in state.partitions)),
                admin.reassignments() if state.controller is not None else {},
                admin.storage(state.brokers),
                admin.out_of_touch(state.brokers),
            )
    except (ClientError, Failure) as problem:
        hint = problem.hint if isinstance(problem, Failure) else None
        raise Unanswered(str(problem), hint) from None
    if connection.wants_table:
        click.echo("\n".join(found.lines()))
    else:
        emit(found.as_dict(), connection.output)
    return found.verdict


@cluster.command("elect-leaders")
@click.option("--topic", help="Only partitions of this topic. [default: all]")
@click.option(
    "--unclean", is_flag=True,
    help="Where nobody leads, let a replica lead that may lack acknowledged records. They are lost.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an unclean election.")
@administering
def elect_leaders(
    connection: Connection, admin: ClusterAdmin, topic: str | None, unclean: bool, yes: bool
) -> int:
    """Let preferred replicas lead again; with --unclean, let any replica lead where nobody can."""
    places = _wanted(admin.state(), topic)
    if unclean and not yes:
        click.confirm("Acknowledged records may be lost. Elect?", abort=True, err=True)
    outcomes = admin.elect(UNCLEAN if unclean else PREFERRED, places)
    if not connection.wants_table:
        keys = ("topic", "partition", "error")
        emit(
            [dict(zip(keys, (*p, e), strict=True)) for p, e in outcomes.items()], connection.output
        )
    else:
        done = [place for place, problem in outcomes.items() if problem is None]
        click.echo(f"elected leaders of {counted(len(done), 'partition')}")
    for (name, index), problem in outcomes.items():
        if problem is not None:
            Failure(f"{name}-{index}: {problem}").show()
    return int(any(outcomes.values()))


def _wanted(state: ClusterState, topic: str | None) -> list[Place] | None:
    if topic is None:
        return None
    places = [place for place in state.partitions if place[0] == topic]
    if not places:
        raise Failure(
            f"topic {topic} does not exist", "`barnabas topic list` shows the topics there are"
        )
    return places
